"""promptfoo tests: in a configuration, in test files, and in tables with `__expected` columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.document import Document
from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.formats.promptfoo.files import FILE, Folder, NotRead, is_table

EXPECTED: Final = "__expected"
_CONFIG: Final = re.compile(r"__config:(__expected[0-9]*):(\w+)")
_ASSERTION: Final = re.compile(
    r"(?P<type>(?:not-)?[a-z][a-z0-9:-]*?)(?:\((?P<threshold>[0-9.]+)\))?(?::(?P<value>.*))?", re.DOTALL
)
_SHORT: Final = {"grade": "llm-rubric", "fn": "javascript", "eval": "javascript"}
_TYPES: Final = frozenset(
    (
        *("answer-relevance", "bleu", "classifier", "contains", "contains-all", "contains-any"),
        *("contains-html", "contains-json", "contains-sql", "contains-xml", "context-faithfulness"),
        *("context-recall", "context-relevance", "cost", "ends-with", "equals", "factuality", "finish-reason"),
        *("g-eval", "gleu", "guardrails", "icontains", "icontains-all", "icontains-any", "is-html", "is-json"),
        *("is-refusal", "is-sql", "is-xml", "javascript", "latency", "levenshtein", "llm-rubric", "meteor"),
        *("model-graded-closedqa", "model-graded-factuality", "moderation", "perplexity", "perplexity-score"),
        *("python", "regex", "rouge-n", "ruby", "similar", "similar:cosine", "similar:dot"),
        *("similar:euclidean", "starts-with", "search-rubric", "webhook", "word-count", "grade", "fn", "eval"),
        *("agent-rubric", "conversation-relevance", "human", "is-valid-function-call", "max-score", "pi"),
        *("is-valid-openai-function-call", "is-valid-openai-tools-call", "rouge-l", "rouge-s", "select-best"),
        *("skill-used", "tool-call-f1", "trace-error-spans", "trace-span-count", "trace-span-duration"),
        *("trajectory:goal-success", "trajectory:step-count", "trajectory:tool-args-match"),
        *("trajectory:tool-sequence", "trajectory:tool-used"),
    )
)
"""The types that a cell may start with; any other cell is the string that the response must equal."""
_THRESHOLDS: Final = {"similar": 0.8, "levenshtein": 0.75}
"""The default thresholds for cells, which differ from those for configurations."""
_PROGRAM: Final = re.compile(r"\.(?:c?js|mjs|c?ts|mts|py|rb)(?::\w+)?\Z")
_MOST_TESTS: Final = 25_000
RUN_IT: Final = "run `promptfoo eval -o results.json`, and import the results"


@dataclass(frozen=True, slots=True)
class Test:
    """A test and its location, or the problem that prevents it from being read."""

    place: str
    values: Mapping[str, Any]
    problem: str = ""


def read_tests(given: Any, document: Document, path: tuple[str | int, ...], folder: Folder) -> Iterator[Test]:
    """Yield the tests in a configuration's value: a list of tests and file names, or a single test or file name.

    `path` is the value's path in `document`, from which the tests' lines are found. An entry that cannot be read
    yields a test with a problem.
    """
    for position, entry in enumerate(given if isinstance(given, list) else [] if given is None else [given]):
        line = document.line((*path, position) if isinstance(given, list) else path)
        place = f"line {line}" if line is not None else f"test {position + 1}"
        if isinstance(entry, str):
            yield from _read_files(entry, place, folder)
        elif isinstance(entry, Mapping) and isinstance(entry.get("path"), str) and "vars" not in entry:
            yield from _read_files(entry["path"], place, folder)
        elif isinstance(entry, Mapping):
            yield Test(place, entry)
        else:
            yield Test(place, {}, "the test is not an object")


def _read_files(name: str, place: str, folder: Folder) -> Iterator[Test]:
    """Yield the tests in the files matching a name. A file that cannot be read yields a test with a problem."""
    if _PROGRAM.search(name):
        yield Test(place, {}, f"a program generates the tests ({name!r:.80}): {RUN_IT}")
        return
    if name.startswith("huggingface://"):
        yield Test(place, {}, f"the tests are in the dataset {name!r:.80}: import it as hf:OWNER/NAME")
        return
    if name.startswith(("http://", "https://", "az://", "s3://")):
        yield Test(place, {}, f"the tests are at {name!r:.80}: download them, and name the file")
        return
    try:
        paths = folder.find(name.partition("#")[0])
    except NotRead as error:
        yield Test(place, {}, str(error))
        return
    for file in paths:
        try:
            for test in read_test_file(file, folder):
                named = f"{file.name}, {test.place}" if test.place else file.name
                yield Test(named, test.values, test.problem)
        except BenchmarkFileError as error:
            yield Test(place, {}, str(error))


def read_test_file(file: Path, folder: Folder) -> Iterator[Test]:
    """Yield the tests in a file: a table, JSON lines, or YAML or JSON.

    A row without keys of a test, such as `vars`, is converted like a table row. Raises `BenchmarkFileError` if the
    file cannot be read.
    """
    if is_table(file):
        for where, cells in folder.rows(file):
            yield Test(where, cells if "vars" in cells or isinstance(cells.get("assert"), list) else row_test(cells))
        return
    document = folder.document(file)
    content = document.value
    if isinstance(content, Mapping) and "tests" in content:
        yield from read_tests(content["tests"], document, ("tests",), folder)
    elif isinstance(content, Mapping):
        yield Test("", content)
    elif isinstance(content, list):
        for test in read_tests(content, document, (), folder):
            values = test.values if test.problem or _is_test(test.values) else row_test(test.values)
            yield Test(test.place, values, test.problem)
    else:
        yield Test("", {}, "the file does not contain a list of tests")


def _is_test(values: Mapping[str, Any]) -> bool:
    """Return whether an object is a test rather than a row whose keys are variables."""
    return bool(values.keys() & {"vars", "assert", "description", "options", "metadata"})


def row_test(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Return the test in a table row. Columns are variables, unless their names start with `__`.

    Each `__expected` column that is not empty becomes an assertion, `__config:` columns set keys of assertions, and
    `__metadata:` columns set metadata. Other columns with `__` set keys or options of the test.
    """
    test: dict[str, Any] = {"vars": {}, "assert": [], "metadata": {}}
    numbered: dict[str, dict[str, Any]] = {}
    for key, cell in cells.items():
        text = "" if cell is None else str(cell)
        if key.startswith(EXPECTED):
            if text.strip():
                numbered[key] = parse_assertion(text)
        elif key in ("__prefix", "__suffix") and text:
            test.setdefault("options", {})[key.removeprefix("__")] = text
        elif key in ("__description", "__threshold", "__providerOutput", "__metric") and text:
            test[key.removeprefix("__")] = text
        elif key.startswith("__metadata:") and text:
            name = key.removeprefix("__metadata:")
            is_list = name.endswith("[]")
            test["metadata"][name.removesuffix("[]")] = [part.strip() for part in text.split(",")] if is_list else text
        elif not key.startswith("__"):
            test["vars"][key] = "" if cell is None else cell
        elif text and not _CONFIG.fullmatch(key):
            test[key] = cell
    for key, cell in cells.items():
        if (match := _CONFIG.fullmatch(key)) and cell not in (None, ""):
            for name, assertion in numbered.items():
                if match[1] in (EXPECTED, name):
                    assertion[match[2]] = cell
    metric = test.pop("metric", None)
    test["assert"] = [{**asserted, **({"metric": metric} if metric else {})} for asserted in numbered.values()]
    return test


def parse_assertion(text: str) -> dict[str, Any]:
    """Return the assertion in a cell such as `contains: Paris` or `similar(0.8): Hello`.

    A `file://` name of a program becomes a `python` or `javascript` assertion. Any other text means `equals`,
    including a single word that is also a type, such as `cost`.
    """
    text = text.strip()
    if text.startswith(FILE):
        if _PROGRAM.search(text):
            return {"type": "python" if ".py" in text else "javascript", "value": text}
        return {"type": "equals", "value": text}
    match = _ASSERTION.fullmatch(text)
    base = "" if match is None else match["type"].removeprefix("not-")
    if match is None or base not in _TYPES:
        return {"type": "equals", "value": text}
    if match["value"] is None and match["threshold"] is None and "-" not in base:
        return {"type": "equals", "value": text}  # a word such as *cost* or *python*, which is also a type
    kind, value = _SHORT.get(match["type"], match["type"]), (match["value"] or "").strip()
    least = float(match["threshold"]) if _is_number(match["threshold"]) else 0
    least = least or _THRESHOLDS.get(base, 0)
    return {"type": kind, **({"value": value} if value else {}), **({"threshold": least} if least else {})}


def _is_number(text: str | None) -> bool:
    """Return whether a string is a decimal number without a sign. Return False for None."""
    return text is not None and re.fullmatch(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", text) is not None


def expand(variables: Mapping[str, Any], *, whole: bool) -> Iterator[dict[str, Any]]:
    """Yield all combinations of the items in variables that are lists. With `whole`, lists are not expanded.

    Raises `NotRead` if there are too many combinations.
    """
    lists = {} if whole else {name: value for name, value in variables.items() if isinstance(value, list) and value}
    count = prod(map(len, lists.values()))
    if count > _MOST_TESTS:
        raise NotRead(f"the lists of variables have {count:,} combinations, more than {_MOST_TESTS:,}")
    for chosen in product(*lists.values()):
        yield {**variables, **dict(zip(lists, chosen, strict=True))}
