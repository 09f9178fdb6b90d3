"""`ImportFormat`: another tool's file format, whose rows become questions and recorded answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.format import Format

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.formats.format import CheckPaths
    from karenina_importing.conversion import ChooseMapping
    from karenina_importing.field_mapping import FieldMapping
    from karenina_importing.source_files import FileHead, SourceRow


class Fit(IntEnum):
    """Whether a file has a format: `NO`, `YES`, or `MAYBE` for files that any tool could have written."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True, kw_only=True)
class ImportFormat(Format):
    """A benchmark format that `karenina import` reads; plugins offer it with the hook `karenina_formats`.

    `key` is the name for `--from`. `detect` decides from the beginning of a file whether it has this format. `rows`
    yields the rows of a file without executing anything in it; it raises `BenchmarkFileError`, or yields a row with a
    `problem` if other rows can still be read. `mapping` says which values of a row are the question, truth and answer,
    unless the user changes it. `choose` completes the mapping, based on the first rows, and returns notes for the user.
    `rows_at` yields the rows of a file, given a path in a JSON document, an encoding and a sheet (each may be None); it
    is None if the format has no such options. `suffixes` are only those that always mean this format: `karenina check`
    and `run` read such files without an import. Leave them empty for `.json` and `.jsonl`.
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
    """Return a format that can be read as a benchmark with its own mapping; see `ImportFormat` for the arguments."""

    def read(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
        from karenina_importing.conversion import read_with  # all commands that read a benchmark list the formats

        return read_with(path, rows(path), mapping, choose)

    return ImportFormat(
        name=name,
        suffixes=suffixes,
        read=read,
        key=key,
        detect=detect,
        rows=rows,
        mapping=mapping,
        rows_at=rows_at,
        choose=choose,
        recognizes=lambda path: _is_surely(detect, path),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnloadedFormat(Format):
    """An `ImportFormat` of this distribution, listed by its key and name; `load` imports and returns it.

    All commands that read a benchmark list the formats, but few need one of these.
    """

    key: str
    load: Callable[[], ImportFormat]


def list_unloaded(key: str, name: str, target: str, *suffixes: str) -> UnloadedFormat:
    """Return the format that `target`, a module and an object in it, names."""

    def load() -> ImportFormat:
        found: ImportFormat = resolve_name(target)
        return found

    return UnloadedFormat(
        name=name,
        suffixes=suffixes,
        read=lambda path, check_paths: load().read(path, check_paths),
        recognizes=lambda path: _is_surely(load().detect, path),
        key=key,
        load=load,
    )


def _is_surely(detect: Callable[[FileHead], Fit], path: Path) -> bool:
    from karenina_importing.source_files import head_of

    try:
        return detect(head_of(path)) is Fit.YES
    except BenchmarkFileError:  # the reader that is chosen instead reports it
        return False
