"""Results of promptfoo, of the versions 1 to 3: `promptfoo eval -o results.json` or `-o results.jsonl`.

A row is one result, a test with one prompt and one provider. `expected` is added: the value of the first assertion
that compares the output with a text, as promptfoo filled it in. `failure` is added if the provider gave no answer; the
`error` of a result can also be the reason of a failed assertion. A prompt that is the JSON of messages is converted to
messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import CheckpointError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.file_head import FileHead
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import read_json, read_lines
from karenina_importing.source_row import SourceRow
from karenina_importing.texts import is_conversation

_COMPARING: Final = (
    *("equals", "contains", "icontains", "contains-any", "icontains-any", "levenshtein"),
    *("similar", "similar:cosine", "similar:dot", "similar:euclidean"),
    *("factuality", "model-graded-factuality", "rouge-n", "bleu", "gleu", "meteor"),
)
"""The assertions whose value is a right answer; of a list, any item is."""
_RESULT: Final = {"prompt", "success"}
_LINE: Final = {"prompt", "success", "testIdx", "promptIdx"}
_ERROR: Final = 2
"""The `failureReason` of a result without an answer; 1 is a failed assertion."""
_STRIPPED: Final = {"[prompt stripped]": "prompt", "[output stripped]": "output"}
"""The texts that promptfoo writes in place of others if it is configured to leave them out."""
_VARIABLE: Final = re.compile(r"\{\{-?\s*([A-Za-z_]\w*)\s*-?\}\}")
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"
_UNFILLED: Final = ("{{", "{%", "file://")


def _detect(head: FileHead) -> Fit:
    found = _results(head.document)
    is_summary = bool(found) and all(isinstance(one, Mapping) and one.keys() >= _RESULT for one in found or ())
    return Fit.YES if is_summary or head.record.keys() >= _LINE else Fit.NO


def _results(document: Any) -> list[Any] | None:
    """Return the list of results of a file, which is one or two levels deep by its version; None if it has none."""
    found = document.get("results") if isinstance(document, Mapping) else None
    if isinstance(found, Mapping):
        found = found.get("results")
    return found if isinstance(found, list) else None


def _rows(path: Path) -> Iterator[SourceRow]:
    head = FileHead(path)
    if head.record.keys() >= _LINE:
        for row in read_lines(path):
            yield row if row.problem else _row(row.place, row.values)
        return
    found = _results(read_json(path)) if head.start.lstrip(_BLANK).startswith(b"{") else None
    if found is None:
        what = "it is not JSON with the results of promptfoo in `results.results`"
        raise CheckpointError(path, "", what, "write it with `promptfoo eval -o results.json`")
    for number, result in enumerate(found, 1):
        yield _row(f"result {number}", result)


def _row(place: str, result: Any) -> SourceRow:
    if not isinstance(result, Mapping) or "prompt" not in result:
        return SourceRow(place, {}, "the result is not an object with `prompt`")
    added = {"prompt": _prompt(result["prompt"]), "expected": _expected(result), "failure": _failure(result)}
    if _is_stripped(added["prompt"]["raw"]):
        return SourceRow(place, {}, "the prompt was left out by promptfoo (PROMPTFOO_STRIP_PROMPT_TEXT)")
    return SourceRow(place, {**result, **added})


def _prompt(prompt: Any) -> Mapping[str, Any]:
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    if isinstance(raw, str) and raw.lstrip().startswith("["):
        try:
            messages = json.loads(raw)
        except (ValueError, RecursionError):
            messages = None
        raw = messages if is_conversation(messages) else raw
    return {**prompt, "raw": raw} if isinstance(prompt, Mapping) else {"raw": raw}


def _failure(result: Mapping[str, Any]) -> Any:
    """Return why a result has no answer; None if it has one."""
    response = result.get("response")
    given = response if isinstance(response, Mapping) else {}
    if given.get("error"):
        return given["error"]
    if _is_stripped(given.get("output")):
        return "the output was left out by promptfoo (PROMPTFOO_STRIP_RESPONSE_OUTPUT)"
    if result.get("failureReason") == _ERROR or given.get("output") is None:
        return result.get("error") or None
    return None


def _is_stripped(value: Any) -> bool:
    return isinstance(value, str) and value in _STRIPPED


def _expected(result: Mapping[str, Any]) -> Any:
    """Return the first right answer among the assertions of a result: a text, a number or a list of them."""
    graded = _get(result, "gradingResult", "componentResults")
    rendered = [one for one in graded if isinstance(one, Mapping)] if isinstance(graded, list) else []
    variables = result.get("vars")
    for assertion in _assertions(_get(result, "testCase", "assert")):
        value = next(
            (found for one in rendered if one.get("assertion") == assertion and (found := _rendered(one)) is not None),
            assertion.get("value"),
        )
        several = value if isinstance(value, list) else [value]
        filled = [_fill(one, variables if isinstance(variables, Mapping) else {}) for one in several]
        if filled and None not in filled:
            return filled if isinstance(value, list) else filled[0]
    return None


def _assertions(found: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the assertions that compare with a right answer, also those in sets."""
    for one in found if isinstance(found, list) else ():
        if not isinstance(one, Mapping):
            continue
        if one.get("type") == "assert-set":
            inner = one.get("assert")
            yield from (
                other
                for other in (inner if isinstance(inner, list) else ())
                if isinstance(other, Mapping) and other.get("type") in _COMPARING
            )
        elif one.get("type") in _COMPARING:
            yield one


def _rendered(graded: Mapping[str, Any]) -> Any:
    return _get(graded, "metadata", "renderedAssertionValue")


def _fill(value: Any, variables: Mapping[str, Any]) -> Any:
    """Return a text with the values of its variables, or a number; None for what only promptfoo can resolve."""
    if not isinstance(value, str):
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None
    text = _VARIABLE.sub(lambda match: str(variables.get(match[1], match[0])), value)
    return None if not text or any(mark in text for mark in _UNFILLED) else text


def _get(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


PROMPTFOO: Final = make_import_format(
    "promptfoo",
    "results of promptfoo",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("prompt.raw",),
            "raw_answer": (
                *("expected", "vars.expected", "vars.expected_answer", "vars.ground_truth"),
                *("vars.reference", "vars.answer", "vars.__expected"),
            ),
            "response": ("response.output",),
            "model": ("provider.label", "provider.id", "provider"),
            "error": ("failure",),
        },
        metadata={"description": "testCase.description"},
    ),
)
"""Results of promptfoo."""
