"""promptfoo results (versions 1 to 3), configurations, and test files.

In results (`promptfoo eval -o results.json` or `-o results.jsonl`), a row is one test with one prompt and one provider.
In a configuration, it is one test with one prompt. Assertions become fields and traits. Two keys are added to a row.
`expected` is the value of the first assertion that compares the output with a string, as filled in by promptfoo.
`failure` is the reason why the provider gave no answer, because the `error` of a result may also be the reason for a
failed assertion. A prompt that contains messages as JSON is converted to messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.tables.message_texts import is_conversation
from karenina_importing.attached_media import take_media
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.promptfoo.assertions import convert, expected_answer
from karenina_importing.formats.promptfoo.configuration import KEYS, config_rows, is_configuration, is_test
from karenina_importing.formats.promptfoo.files import YAML
from karenina_importing.formats.promptfoo.keys import ANSWERS, misspelt, turns_as_messages, unread_of_test
from karenina_importing.formats.promptfoo.tests import EXPECTED, RUN_IT
from karenina_importing.formats.structured_values import as_messages
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, read_json, read_lines
from karenina_toolkit.files import TABLES

_RESULT: Final = {"prompt", "success"}
_LINE: Final = {"prompt", "success", "testIdx", "promptIdx"}
_ERROR: Final = 2
"""The `failureReason` of a result without an answer. The value 1 means a failed assertion."""
_STRIPPED: Final = {"[prompt stripped]": "prompt", "[output stripped]": "output"}
"""The texts that promptfoo writes in place of prompts or outputs if it is configured to omit them."""
_TOP_KEY: Final = re.compile(r"^(\w+)[ \t]*:", re.MULTILINE)
_TEST_KEY: Final = re.compile(r"^-[ \t]+(?:vars|assert|description)[ \t]*:", re.MULTILINE)
_PART_KEY: Final = re.compile(r"^[ \t]+(?:- )?(?:vars|assert)[ \t]*:", re.MULTILINE)
_PROGRAMS: Final = (".js", ".cjs", ".mjs", ".ts", ".cts", ".mts")
_HEAD: Final = 1 << 20
_PRINTED: Final = ",Status,Score,Named Scores,"
"""Columns of results in CSV, which follow those of the variables and the outputs."""


def _detect(head: FileHead) -> Fit:
    """Return how well a file fits the formats of promptfoo: results, configurations and tests.

    A configuration that is a program is detected as well, so that the error when reading it can explain what to do. An
    empty list of results is `MAYBE` if other tools could have written it.
    """
    suffix = head.path.suffix.lower()
    if suffix in _PROGRAMS:
        return Fit.YES if head.path.stem.startswith("promptfooconfig") else Fit.NO
    if suffix in YAML:
        return Fit.YES if _is_yaml(head.path) else Fit.NO
    if suffix in TABLES:
        is_test_file = EXPECTED.encode() in head.start.partition(b"\n")[0]
        return Fit.YES if is_test_file or _is_printed(head) else Fit.NO
    results = _results(head.document)
    if results == []:
        # Other tools write a list with this name too, but none of them nests it in an object of the same name.
        return Fit.MAYBE if isinstance(head.document["results"], list) else Fit.YES
    is_summary = bool(results) and all(
        isinstance(result, Mapping) and result.keys() >= _RESULT for result in results or ()
    )
    if is_summary or head.record.keys() >= _LINE or is_configuration(head.document):
        return Fit.YES
    tests = head.document if isinstance(head.document, list) else head.lines
    return Fit.YES if tests and all(map(is_test, tests)) else Fit.NO


def _is_printed(head: FileHead) -> bool:
    """Return whether a file is the table of results that `promptfoo eval -o results.csv` writes."""
    return head.path.suffix.lower() == ".csv" and _PRINTED in head.text().replace('"', "")


def _is_yaml(path: Path) -> bool:
    """Return whether the start of a YAML file looks like a configuration or a list of tests of promptfoo, rather than a
    file of Karenina.
    """
    start = FileHead(path).text(_HEAD)
    keys = set(_TOP_KEY.findall(start))
    if "karenina" in keys or "karenina_import" in keys:
        return False
    capitals = misspelt(key for key in keys if key[:1].isupper())
    return len(keys & KEYS) + len(capitals) >= 2 or (
        _TEST_KEY.search(start) is not None and _PART_KEY.search(start) is not None
    )


def _results(document: Any) -> list[Any] | None:
    """Return the list of results, or None. Its nesting depends on the version."""
    results = document.get("results") if isinstance(document, Mapping) else None
    if isinstance(results, Mapping):
        results = results.get("results")
    return results if isinstance(results, list) else None


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield the rows from results, a configuration or tests. Raises `BenchmarkFileError` if the file is none of these,
    is a program, or has no results.
    """
    suffix = path.suffix.lower()
    if suffix in _PROGRAMS:
        raise BenchmarkFileError(path, "", "the configuration is a program, which Karenina does not execute", RUN_IT)
    head = FileHead(path)
    if _is_printed(head):
        what = "the file contains results as a table, which lacks the prompts and the assertions"
        raise BenchmarkFileError(path, "", what, RUN_IT)
    if suffix in (*YAML, *TABLES):
        yield from config_rows(path)
        return
    if head.record.keys() >= _LINE:
        for row in read_lines(path):
            yield row if row.problem else _row(row.place, row.values)
        return
    if head.lines and all(map(is_test, head.lines)):
        yield from config_rows(path)
        return
    document = read_json(path) if head.is_json else None
    results = _results(document)
    if results is None and (is_configuration(document) or isinstance(document, list)):
        yield from config_rows(path)
        return
    if results is None:
        what = "the file contains neither promptfoo results (in `results.results`) nor the tests of a configuration"
        raise BenchmarkFileError(path, "", what, "create a results file with `promptfoo eval -o results.json`")
    if not results:
        raise BenchmarkFileError(
            path, "", "the results are empty because no test was run", "run `promptfoo eval -o` again"
        )
    for number, result in enumerate(results, 1):
        yield _row(f"result {number}", result)


def _row(place: str, result: Any) -> SourceRow:
    """Make the row for a result: its prompt and output, with what its assertions become. If its prompt is missing or
    was omitted, the row has a problem.
    """
    if not isinstance(result, Mapping) or "prompt" not in result:
        return SourceRow(place, {}, "the result is not an object with a `prompt` key")
    prompt = _prompt(result["prompt"])
    if _is_stripped(prompt["raw"]):
        return SourceRow(place, {}, "the prompt was left out by promptfoo (PROMPTFOO_STRIP_PROMPT_TEXT)")
    test, variables = _get(result, "testCase"), result.get("vars")
    variables = variables if isinstance(variables, Mapping) else _get(test, "vars")
    variables = variables if isinstance(variables, Mapping) else {}
    if prompt["raw"] in ("", None):  # a provider that sends the turns of a conversation itself
        prompt = {**prompt, "raw": turns_as_messages(variables)}
    files: dict[str, bytes] = {}
    prompt = {**prompt, "raw": take_media(prompt["raw"], files)}
    rendered = _find_rendered(result)
    assertions = _get(test, "assert")
    done = convert(assertions, variables, threshold=_get(test, "threshold"), rendered=rendered)
    expected = expected_answer(assertions, variables, rendered)
    values = {**result, "vars": variables, "prompt": prompt, "expected": expected, "failure": _failure(result)}
    values["stopped"] = "refusal" if _get(result, "response", "isRefusal") is True else None
    output = _get(result, "response", "output")
    if isinstance(output, list) and not is_conversation(output):  # a single answer, such as tool calls
        values["response"] = {**result["response"], "output": json.dumps(output, ensure_ascii=False)}
    question = {**done.question, **({"attachments": [*files]} if files else {})}
    return SourceRow(place, values, question=question, left_out=[*done.left_out, *unread_of_test(test)], files=files)


def _prompt(prompt: Any) -> Mapping[str, Any]:
    """Return a prompt as an object whose `raw` is a string or messages."""
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    raw = as_messages(raw)
    return {**prompt, "raw": raw} if isinstance(prompt, Mapping) else {"raw": raw}


def _failure(result: Mapping[str, Any]) -> Any:
    """Return the reason why a result has no answer, or None if it has an answer or gives no reason."""
    response = result.get("response")
    body = response if isinstance(response, Mapping) else {}
    if body.get("error"):
        return body["error"]
    if _is_stripped(body.get("output")):
        return "the output was left out by promptfoo (PROMPTFOO_STRIP_RESPONSE_OUTPUT)"
    if result.get("failureReason") == _ERROR or body.get("output") is None:
        return result.get("error") or None
    return None


def _is_stripped(value: Any) -> bool:
    """Return whether promptfoo has omitted a string."""
    return isinstance(value, str) and value in _STRIPPED


def _find_rendered(result: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that returns an assertion's value as filled in by promptfoo. The function returns None if the
    result does not contain it.
    """
    graded = _get(result, "gradingResult", "componentResults")
    parts = [part for part in graded if isinstance(part, Mapping)] if isinstance(graded, list) else []

    def find(assertion: Mapping[str, Any]) -> Any:
        """Return the first rendered value of the given assertion, or None."""
        values = (
            _get(part, "metadata", "renderedAssertionValue") for part in parts if part.get("assertion") == assertion
        )
        return next((value for value in values if value is not None), None)

    return find


def _get(value: Any, *keys: str) -> Any:
    """Return the value at a path of keys, or None if a key is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


PROMPTFOO: Final = make_import_format(
    "promptfoo",
    "promptfoo",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("prompt.raw",),
            "raw_answer": (
                "expected",
                *(f"vars.{name}" for name in ANSWERS),
            ),
            "response": ("response.output",),
            "finish_reason": ("stopped", "response.finishReason"),
            "model": ("provider.label", "provider.id", "provider"),
            "error": ("failure",),
        },
        metadata={"description": "testCase.description"},
    ),
)
"""promptfoo results, configurations and tests."""
