"""Inspect logs (`.eval` archives and JSON), and datasets of Inspect tasks.

A row is a sample in one epoch, together with the log's `eval` (task and model). In an archive, a sample is either a
single file (`samples/ID_epoch_N.json`), or a folder in which messages, metadata and long texts have their own files.
Each of these files is named after the position of its first item (`messages/START.json`). A row of a dataset is a
record with `input`, `target` and other fields of a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.errors import BenchmarkFileError
from karenina_importing.field_mapping import FieldMapping
from karenina_importing.formats.inspect_samples import dataset_row, describe_log, make_row
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SizeLimit, SourceRow, bounded, open_archive, read_entry, read_json
from karenina_toolkit.files import LINES, TABLES, Records, read_records
from karenina_toolkit.files.archives import Archive
from karenina_toolkit.files.bounded_files import max_file_bytes, size_limit_cure

_ZIP: Final = b"PK\x03\x04"
_HEADERS: Final = ("header.json", "_journal/start.json", "start.json")
_SAMPLE: Final = re.compile(r"(samples/.+_epoch_[0-9]+)(?:/sample)?\.json")
_PARTS: Final = re.compile(r"(samples/.+_epoch_[0-9]+)/(attachments|messages)/([0-9]{1,9})\.json")
_FIELDS: Final = frozenset({"id", "input", "target", "choices", "metadata", "sandbox", "files", "setup"})
_OWN_FIELDS: Final = _FIELDS - {"id", "input", "target"}
"""The fields that distinguish an Inspect dataset from other tables with questions and answers."""
_MOST_MESSAGES: Final = 100_000
_ATTACHMENT: Final = "attachment://"
_UNUSED: Final = ("attachments", "events", "store")
"""The parts of a sample that may be large and are not searched for attachments."""


def _detect(head: FileHead) -> Fit:
    """Return `Fit.YES` for Inspect logs, as archives or JSON, and for datasets of Inspect tasks, else `Fit.NO`."""
    if head.start.startswith(_ZIP):
        with open_archive(head.path) as archive:
            return Fit.YES if any(_SAMPLE.fullmatch(name) for name in archive.names) or _headers(archive) else Fit.NO
    document = head.document
    if isinstance(document, Mapping) and isinstance(document.get("eval"), Mapping):
        return Fit.YES if "samples" in document or "plan" in document else Fit.NO
    records = document if isinstance(document, list) else head.lines
    if head.path.suffix.lower() in TABLES:
        names = head.start.partition(b"\n")[0].decode("utf-8-sig", "replace").strip().split(",")
        records = [dict.fromkeys(name.strip(' "') for name in names)]
    return Fit.YES if records and _is_dataset(records) else Fit.NO


def _is_dataset(records: Sequence[Any]) -> bool:
    """Return whether all records have only sample fields, and at least one has a field specific to Inspect."""
    names = [record.keys() for record in records if isinstance(record, Mapping)]
    are_samples = len(names) == len(records) and all({"input"} <= name <= _FIELDS for name in names)
    return are_samples and any(name & _OWN_FIELDS for name in names)


def _headers(archive: Archive) -> list[str]:
    """Return the files in an archive that may contain the header, with the most complete one first."""
    return [name for name in _HEADERS if name in archive]


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each sample or record. Raises `BenchmarkFileError` if a log has no samples, or if the file is
    neither a log nor a dataset.
    """
    if FileHead(path).start.startswith(_ZIP):
        yield from _archived(path)
        return
    if path.suffix.lower() in (*TABLES, *LINES) or len(FileHead(path).lines) > 1:
        with bounded(path), _open_records(path) as records:
            for record in records:
                yield _dataset_row(record.where, record.value)
        return
    log = read_json(path)
    if isinstance(log, list):
        for number, record in enumerate(log, 1):
            yield _dataset_row(f"row {number}", record)
        return
    if not isinstance(log, Mapping) or not isinstance(log.get("samples") or [], list):
        what = "the file is neither an Inspect log (an object with a `samples` list) nor a list of samples"
        raise BenchmarkFileError(path, "", what, "choose another format with --from")
    samples = log.get("samples") or []
    _check_samples(path, log, len(samples))
    ids = {str(entry["id"]) for entry in samples if isinstance(entry, Mapping) and "id" in entry}
    notes = describe_log(log, len(ids))
    references = _References(path)
    for number, sample in enumerate(samples, 1):
        yield _row(f"sample {number}", sample, log.get("eval"), notes, references)


def _check_samples(path: Path, log: Any, count: int) -> None:
    """Raise `BenchmarkFileError` if a log has no samples. `count` is the number of samples."""
    if count:
        return
    status = log.get("status") if isinstance(log, Mapping) else None
    state = f" (status {status!r:.40})" if status else ""
    raise BenchmarkFileError(
        path,
        "",
        f"the log has no samples{state}, either because it is only a header or because the run ended "
        "early or did not save samples",
        "import a log with samples (`inspect log dump LOG.eval` prints one), or run `inspect eval-retry` on the log",
    )


def _open_records(path: Path) -> Records:
    """Open a dataset to read its records. Files with an unknown suffix are read as JSON lines."""
    suffix = path.suffix.lower() if path.suffix.lower() in (*TABLES, *LINES) else ".jsonl"
    return read_records(path, suffix=suffix, surrogates=True, package="karenina-importing")


def _dataset_row(place: str, record: Any) -> SourceRow:
    """Make the row for a record, without nulls. If the record is not an object, the row has a problem."""
    if not isinstance(record, Mapping):
        return SourceRow(place, {}, "the record is not an object")
    return dataset_row(place, {key: value for key, value in record.items() if value is not None})


def _archived(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each sample in an archive. If a sample cannot be read, its row has a problem. Raises
    `BenchmarkFileError` if there are no samples, or if their parts exceed the size limit.
    """
    with open_archive(path) as archive:
        head: Any = {}
        for name in _headers(archive)[:1]:
            head = read_entry(archive, name, path)
        names = archive.names
        parts: dict[tuple[str, str], list[tuple[int, str]]] = {}
        for part in filter(None, map(_PARTS.fullmatch, names)):
            parts.setdefault((part[1], part[2]), []).append((int(part[3]), part[0]))
        matches = [match for match in map(_SAMPLE.fullmatch, names) if match is not None]
        _check_samples(path, head, len(matches))
        notes = describe_log(head, len({match[1].rpartition("_epoch_")[0] for match in matches}))
        references = _References(path)
        for match in matches:
            name = match[0]
            try:
                sample = read_entry(archive, name, path)
                if isinstance(sample, Mapping):
                    sample = {**sample, **_read_parts(archive, match[1], sample, parts, references)}
            except _TooLarge:
                raise
            except BenchmarkFileError as error:
                yield SourceRow(name, {}, error.what)
            else:
                yield _row(name, sample, head.get("eval") if isinstance(head, Mapping) else None, notes, references)


def _read_parts(
    archive: Archive,
    folder: str,
    sample: Mapping[str, Any],
    parts: Mapping[tuple[str, str], list[tuple[int, str]]],
    references: _References,
) -> dict[str, Any]:
    """Return the parts of a sample that are in separate files in `folder`: attachments, messages and metadata. Messages
    and metadata in the sample itself take precedence.
    """
    values: dict[str, Any] = {}
    path = references.path
    if (folder, "attachments") in parts:
        texts = _read_sequence(archive, parts[folder, "attachments"], path)
        values["attachments"] = {str(number): text for number, text in texts.items()}
    if (folder, "messages") in parts and "messages" not in sample:
        pool = _read_sequence(archive, parts[folder, "messages"], path)
        positions = _positions(sample.get("message_refs"), len(pool))
        values["messages"] = [references.count(folder, pool[number]) for number in positions if number in pool]
    if f"{folder}/metadata.json" in archive and "metadata" not in sample:
        values["metadata"] = read_entry(archive, f"{folder}/metadata.json", path)
    return values


def _read_sequence(archive: Archive, chunks: list[tuple[int, str]], path: Path) -> dict[int, Any]:
    """Read the items in several files, and return them by position. Files that are not lists are skipped. `chunks`
    contains the position of the first item and the name of each file.
    """
    by_position: dict[int, Any] = {}
    for start, name in chunks:
        items = read_entry(archive, name, path)
        by_position.update(enumerate(items if isinstance(items, list) else (), start))
    return by_position


def _positions(ranges: Any, count: int) -> Iterator[int]:
    """Yield the positions in ranges such as `[[0, 2], [5, 6]]`, excluding the end of each range. Only positions below
    `count` are yielded, and at most `_MOST_MESSAGES` of them.
    """
    left = _MOST_MESSAGES
    for bounds in ranges if isinstance(ranges, list) else ():
        if isinstance(bounds, list) and len(bounds) == 2 and all(type(place) is int for place in bounds):
            for position in range(max(0, bounds[0]), min(bounds[1], count)):
                left -= 1
                if left < 0:
                    return
                yield position


class _References:
    """Counts the parts of a log that samples refer to, including repetitions.

    Their size is limited, because a few bytes could otherwise expand to any number of messages and long texts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = SizeLimit()

    def count(self, place: str, part: Any) -> Any:
        """Return `part` after counting its size. Raises `BenchmarkFileError` if all parts together exceed the limit."""
        if not self._size.allows(part):
            what = "the samples up to this point, including the parts they refer to, exceed the file size limit"
            raise _TooLarge(self.path, place, what, size_limit_cure(max_file_bytes()))
        return part


class _TooLarge(BenchmarkFileError):
    """Raised if a log is too large, including the parts that its samples refer to."""


def _row(place: str, sample: Any, about: Any, notes: Sequence[str], references: _References) -> SourceRow:
    """Make the row for a sample, with these notes and with references replaced by texts. `about` is the log's `eval`.
    If the sample is not an object, the row has a problem.
    """
    if not isinstance(sample, Mapping):
        return SourceRow(place, {}, "the sample is not an object")
    id = sample.get("id")
    named = f"{place} (id {id}, epoch {sample.get('epoch', 1)})" if id is not None else place
    attachments = sample.get("attachments")
    if isinstance(attachments, Mapping) and attachments:
        sample = {
            key: _attach(value, attachments, place, references) for key, value in sample.items() if key not in _UNUSED
        }
    return make_row(named, sample, about, notes)


def _attach(value: Any, attachments: Mapping[str, Any], place: str, references: _References) -> Any:
    """Return a value in which references are replaced by the texts in `attachments`. References to unknown texts are
    kept. Raises `BenchmarkFileError` if the size limit is exceeded.
    """
    if isinstance(value, str) and value.startswith(_ATTACHMENT):
        return references.count(place, attachments.get(value.removeprefix(_ATTACHMENT), value))
    if isinstance(value, Mapping):
        return {key: _attach(item, attachments, place, references) for key, item in value.items()}
    if isinstance(value, list):
        return [_attach(item, attachments, place, references) for item in value]
    return value


INSPECT: Final = make_import_format(
    "inspect",
    "an Inspect log or dataset",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": ("input",),
            "raw_answer": ("target",),
            "id": ("id",),
            "choices": ("choices",),
            "response": ("recorded", "output.completion", "output.choices.0.message.content"),
            "model": ("eval.model", "output.model"),
            "replicate": ("epoch",),
            "finish_reason": ("stopped", "output.choices.0.stop_reason"),
            "error": ("error.message", "output.error", "invalid"),
        }
    ),
    suffixes=(".eval",),
)
"""Inspect logs, and datasets of Inspect tasks."""
