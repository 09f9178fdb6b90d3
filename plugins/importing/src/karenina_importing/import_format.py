"""`ImportFormat`: a format of another tool, whose rows become questions and recorded answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.format import Format
from karenina_importing.conversion import ChooseMapping, read_with
from karenina_importing.field_mapping import FieldMapping

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_importing.source_files import FileHead, SourceRow


class Fit(IntEnum):
    """Whether a file has a format: `NO`, `MAYBE` for files that any tool could have written, or `YES`."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True, kw_only=True)
class ImportFormat(Format):
    """A benchmark format that `karenina import` reads, offered by the hook `karenina_formats` as other formats are.

    `key` is its name for `--from`. `detect` decides from the beginning of a file whether it has this format. `rows`
    yields the rows of a file and executes nothing in it; it raises `BenchmarkFileError`, or yields a row with a
    `problem` if the others can still be read. `mapping` says which values of a row are its question, truth and answer,
    unless the user changes it; `choose` completes it by the first rows, and returns notes for the user. `rows_at`
    yields the rows at a path of a JSON document, in an encoding. `suffixes` are those of files that have this format
    only, so that `karenina check` and `run` take them without an import; leave them empty for `.json` and `.jsonl`.
    """

    key: str
    detect: Callable[[FileHead], Fit]
    rows: Callable[[Path], Iterable[SourceRow]]
    mapping: FieldMapping
    rows_at: Callable[[Path, str | None, str | None, str | None], Iterable[SourceRow]] | None = None
    choose: ChooseMapping | None = None


def make_import_format(
    key: str,
    name: str,
    detect: Callable[[FileHead], Fit],
    rows: Callable[[Path], Iterable[SourceRow]],
    mapping: FieldMapping,
    suffixes: tuple[str, ...] = (),
    rows_at: Callable[[Path, str | None, str | None, str | None], Iterable[SourceRow]] | None = None,
    choose: ChooseMapping | None = None,
) -> ImportFormat:
    """Return a format whose `read` uses its own mapping."""
    return ImportFormat(
        name=name,
        suffixes=suffixes,
        read=lambda path, _check_paths: read_with(path, rows(path), mapping, choose),
        key=key,
        detect=detect,
        rows=rows,
        mapping=mapping,
        rows_at=rows_at,
        choose=choose,
        recognizes=lambda path: _is_surely(detect, path),
    )


def _is_surely(detect: Callable[[FileHead], Fit], path: Path) -> bool:
    from karenina_importing.source_files import head_of

    try:
        return detect(head_of(path)) is Fit.YES
    except BenchmarkFileError:  # the reader that is chosen then reports it
        return False
