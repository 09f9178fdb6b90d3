"""Logs of Inspect: `.eval` archives, and logs in JSON.

A row is a sample of one epoch, with the log's `eval` (its task and model) beside it. In an archive, a sample is one
file (`samples/ID_epoch_N.json`) or, in logs of version 3, a folder with its long texts in `attachments/START.json`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from zipfile import ZipFile

from karenina_benchmark.errors import CheckpointError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.file_head import FileHead
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import open_archive, read_entry, read_json
from karenina_importing.source_row import SourceRow

_ZIP: Final = b"PK\x03\x04"
_HEADERS: Final = ("header.json", "_journal/start.json", "start.json")
_SAMPLE: Final = re.compile(r"(samples/.+_epoch_[0-9]+)(?:/sample)?\.json")
_TEXTS: Final = re.compile(r"(samples/.+_epoch_[0-9]+)/attachments/([0-9]{1,9})\.json")
_ATTACHMENT: Final = "attachment://"
_UNUSED: Final = ("attachments", "events", "store")
"""The parts of a sample that are not searched for attachments; they can be large."""


def _detect(head: FileHead) -> Fit:
    if head.start.startswith(_ZIP):
        with open_archive(head.path) as archive:
            names = archive.namelist()
            return Fit.YES if any(_SAMPLE.fullmatch(name) for name in names) or _headers(archive) else Fit.NO
    found = head.document
    is_log = isinstance(found, Mapping) and isinstance(found.get("eval"), Mapping)
    return Fit.YES if is_log and ("samples" in found or "plan" in found) else Fit.NO


def _headers(archive: ZipFile) -> list[str]:
    names = set(archive.namelist())
    return [name for name in _HEADERS if name in names]


def _rows(path: Path) -> Iterator[SourceRow]:
    if FileHead(path).start.startswith(_ZIP):
        yield from _archived(path)
        return
    log = read_json(path)
    if not isinstance(log, Mapping) or not isinstance(log.get("samples") or [], list):
        raise CheckpointError(path, "", "it is not a log of Inspect: it has no list `samples`", "choose another --from")
    for number, sample in enumerate(log.get("samples") or (), 1):
        yield _row(f"sample {number}", sample, log.get("eval"))


def _archived(path: Path) -> Iterator[SourceRow]:
    with open_archive(path) as archive:
        head: Any = {}
        for name in _headers(archive)[:1]:
            head = read_entry(archive, name, path)
        names = archive.namelist()
        texts: dict[str, list[tuple[int, str]]] = {}
        for found in filter(None, map(_TEXTS.fullmatch, names)):
            texts.setdefault(found[1], []).append((int(found[2]), found[0]))
        for match in filter(None, map(_SAMPLE.fullmatch, names)):
            name = match[0]
            try:
                sample = read_entry(archive, name, path)
                if match[1] in texts and isinstance(sample, Mapping):
                    sample = {**sample, "attachments": _attachments(archive, texts[match[1]], path)}
            except CheckpointError as error:
                yield SourceRow(name, {}, error.what)
            else:
                yield _row(name, sample, head.get("eval") if isinstance(head, Mapping) else None)


def _attachments(archive: ZipFile, chunks: list[tuple[int, str]], path: Path) -> dict[str, Any]:
    """Return the texts of a sample in a folder by their positions. Each file is named after that of its first text."""
    found: dict[str, Any] = {}
    for start, name in chunks:
        texts = read_entry(archive, name, path)
        found.update((str(number), text) for number, text in enumerate(texts if isinstance(texts, list) else (), start))
    return found


def _row(place: str, sample: Any, about: Any) -> SourceRow:
    if not isinstance(sample, Mapping):
        return SourceRow(place, {}, "the sample is not an object")
    id = sample.get("id")
    named = f"{place} (id {id}, epoch {sample.get('epoch', 1)})" if id is not None else place
    attachments = sample.get("attachments")
    if isinstance(attachments, Mapping) and attachments:
        sample = {key: _attach(value, attachments) for key, value in sample.items() if key not in _UNUSED}
    return SourceRow(named, {**sample, "eval": about})


def _attach(value: Any, attachments: Mapping[str, Any]) -> Any:
    """Replace references to long texts, which logs store apart, by the texts."""
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return attachments.get(value.removeprefix(_ATTACHMENT), value)
    if isinstance(value, Mapping):
        return {key: _attach(one, attachments) for key, one in value.items()}
    if isinstance(value, list):
        return [_attach(one, attachments) for one in value]
    return value


INSPECT: Final = make_import_format(
    "inspect",
    "a log of Inspect",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("input",),
            "raw_answer": ("target",),
            "id": ("id",),
            "choices": ("choices",),
            "response": ("output.completion", "output.choices.0.message.content"),
            "model": ("eval.model", "output.model"),
            "replicate": ("epoch",),
            "error": ("error.message", "output.error"),
        }
    ),
    suffixes=(".eval",),
)
"""Logs of Inspect."""
