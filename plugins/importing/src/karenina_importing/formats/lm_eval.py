"""lm-evaluation-harness samples: `samples_TASK_DATE.jsonl`, written by `--log_samples`.

Each line is a document of the task with its requests and the model's replies, repeated for each filter. The tool writes
the target as text, so a list of correct answers (`['Paris', 'paris']`) is converted back to a list. Each row gets an
additional key `request`, which contains the text of the first request, or its messages if a chat template was applied.
If all targets in a file are labelled strings separated by a delimiter (`PER: Ada $$ LOC: Lima`), each target is read as
a list, and an empty target as an empty list.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.structured_values import as_messages
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, read_lines

_ESCAPE: Final = r"""\\(?:[\\'nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5})"""
_TEXT: Final = rf"""(?:'(?:[^'\\\n]|{_ESCAPE})*'|"(?:[^"\\\n]|{_ESCAPE})*")"""
_LIST: Final = re.compile(rf"\[{_TEXT}(?:, {_TEXT})*\]")
"""Matches a list of strings in Python notation."""
_LABELLED: Final = re.compile(r"[A-Z][A-Z_-]{1,19}: ?\S.*")
_MARK: Final = "$$"
_FIRST_ROWS: Final = 1000
"""The number of rows whose targets decide whether targets are lists of labelled strings."""
_ENTITIES: Final = "All entities that the response names, each once and written as LABEL: entity"
_LISTS: Final = (
    "The targets are lists of labelled strings (`LABEL: entity`); a response is correct only if "
    "it contains exactly the listed items, in any order, with no partial credit"
)
_REQUESTS: Final = (("gen_args_0", "arg_0"), (0, 0))
"""The paths to the first request in files written by new and old versions."""


def _detect(head: FileHead) -> Fit:
    """Return whether the first line of a file is a sample."""
    keys = head.record.keys()
    is_sample = {"doc_id", "doc"} <= keys and bool({"resps", "filtered_resps", "arguments"} & keys)
    return Fit.YES if is_sample else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each document. Lines for other filters are skipped, because they have the same replies."""
    filters: dict[str, object] = {}
    are_lists = _are_labelled([row.values.get("target") for row in islice(read_lines(path), _FIRST_ROWS)])
    for row in read_lines(path):
        id = str(row.values.get("doc_id"))
        name = row.values.get("filter")
        if row.problem:
            yield row
        elif name is None or filters.setdefault(id, name) == name:
            added = {"target": _target(row.values), "request": _request(row.values.get("arguments"))}
            values = {**row.values, **{key: value for key, value in added.items() if value}}
            target = row.values.get("target")
            items = _items(target) if are_lists and isinstance(target, str) else None
            if items is None:
                yield SourceRow(row.place, values)
            else:
                yield SourceRow(row.place, values, question={"answer": _declare(items)}, notes=[_LISTS])


def _are_labelled(targets: Sequence[Any]) -> bool:
    """Return whether all targets that are strings are labelled strings, at least one of them with a delimiter."""
    texts = [target for target in targets if isinstance(target, str)]
    return any(_MARK in text for text in texts) and all(_items(text) is not None for text in texts)


def _items(target: str) -> list[str] | None:
    """Return the distinct labelled strings in a target, or None if it contains any other text. An empty target gives an
    empty list.
    """
    parts = [part.strip() for part in target.split(_MARK) if part.strip()]
    return list(dict.fromkeys(parts)) if all(map(_LABELLED.fullmatch, parts)) else None


def _declare(items: list[str]) -> dict[str, Any]:
    """Return a dict with the single field of a template that requires all labelled strings in `items` to be found."""
    rule = {"type": "SetContainment", "mode": "exact", "normalize": ["lowercase", "strip"]}
    return {
        "entities": {"type": "list[str]", "description": _ENTITIES, "ground_truth": items, "verify_with": rule},
    }


def _target(values: Mapping[str, Any]) -> Any:
    """Return the target. A list in Python notation is parsed, unless the document itself contains it as text."""
    target, document = values.get("target"), values.get("doc")
    if not isinstance(target, str) or not _LIST.fullmatch(target):
        return target
    if isinstance(document, Mapping) and target in document.values():
        return target
    try:
        return ast.literal_eval(target)
    except (ValueError, SyntaxError):  # such as an escape that is not a character
        return target


def _request(arguments: Any) -> Any:
    """Return the text or messages of a sample's first request, or None if it has an unknown form."""
    for first, second in _REQUESTS:
        try:
            request = arguments[first][second]
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(request, list) and len(request) == 1 and isinstance(request[0], str):
            return as_messages(request[0])
        return request if isinstance(request, str) else None
    return None


LM_EVAL: Final = make_import_format(
    "lm-eval",
    "lm-evaluation-harness samples",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": (
                "doc.question",
                "doc.query",
                "doc.problem",
                "doc.prompt",
                "doc.instruction",
                "doc.input",
                "request",
            ),
            "raw_answer": ("target",),
            "id": ("doc-{doc_id}",),
            "choices": ("doc.choices.text", "doc.choices", "doc.options", "doc.endings"),
            "keywords": ("doc.subject", "doc.category"),
            "response": ("resps.0",),
        },
        metadata={"doc_hash": "doc_hash"},
    ),
)
"""lm-evaluation-harness samples."""
