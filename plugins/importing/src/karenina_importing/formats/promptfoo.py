"""Results of promptfoo in JSON, of versions 2 and 3: `promptfoo eval -o results.json`.

A row is one result, a test with one prompt and one provider. `expected` is added: the value of the first assertion
that compares the output with a text. A prompt that is the JSON of messages is converted to messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import CheckpointError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.file_head import FileHead
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import read_json
from karenina_importing.source_row import SourceRow
from karenina_importing.texts import is_conversation

_COMPARING: Final = (
    "equals",
    "iequals",
    "contains",
    "icontains",
    "factuality",
    "model-graded-factuality",
    "similar",
    "levenshtein",
)


def _detect(head: FileHead) -> Fit:
    return Fit.YES if _results(head.document) is not None else Fit.NO


def _results(document: Any) -> list[Any] | None:
    """Return the list of results of a file, which is one or two levels deep by its version; None if it has none."""
    found = document.get("results") if isinstance(document, Mapping) else None
    if isinstance(found, Mapping):
        found = found.get("results")
    is_result = isinstance(found, list) and all(isinstance(one, Mapping) and "prompt" in one for one in found)
    return found if is_result and found else None


def _rows(path: Path) -> Iterator[SourceRow]:
    found = _results(read_json(path))
    if found is None:
        what = "it is not a file of results of promptfoo: it has no `results.results`"
        raise CheckpointError(path, "", what, "write it with `promptfoo eval -o results.json`")
    for number, result in enumerate(found, 1):
        yield SourceRow(f"result {number}", {**result, "prompt": _prompt(result), "expected": _expected(result)})


def _prompt(result: Mapping[str, Any]) -> Any:
    prompt = result["prompt"]
    raw = prompt.get("raw") if isinstance(prompt, Mapping) else prompt
    if isinstance(raw, str) and raw.lstrip().startswith("["):
        try:
            messages = json.loads(raw)
        except (ValueError, RecursionError):
            messages = None
        raw = messages if is_conversation(messages) else raw
    return {**prompt, "raw": raw} if isinstance(prompt, Mapping) else {"raw": raw}


def _expected(result: Mapping[str, Any]) -> Any:
    test = result.get("testCase")
    asserted = test.get("assert") if isinstance(test, Mapping) else None
    for one in asserted if isinstance(asserted, list) else ():
        value = one.get("value") if isinstance(one, Mapping) and one.get("type") in _COMPARING else None
        if isinstance(value, str | int | float):
            return value
    return None


PROMPTFOO: Final = make_import_format(
    "promptfoo",
    "results of promptfoo",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("prompt.raw",),
            "raw_answer": ("expected", "vars.expected", "vars.answer", "vars.__expected"),
            "response": ("response.output",),
            "model": ("provider.label", "provider.id", "provider"),
            "error": ("response.error",),
        },
        metadata={"description": "testCase.description"},
    ),
)
"""Results of promptfoo."""
