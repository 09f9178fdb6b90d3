"""The formats of other tools, whose rows become questions and recorded answers."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Final

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.document import Document, Section
from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.format import Format
from karenina_core.data.question import Question
from karenina_core.errors import ConfigError, KareninaError, type_and_message

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_importing.conversion import ChooseMapping
    from karenina_importing.field_mapping import FieldMapping
    from karenina_importing.source_files import FileHead, SourceRow

logger = logging.getLogger("karenina")

_LINE: Final = re.compile(r"line ([0-9]+)")


class Fit(IntEnum):
    """How well a file matches a format. `MAYBE` is for files that any tool could have written."""

    NO = 0
    MAYBE = 1
    YES = 2


@dataclass(frozen=True, kw_only=True)
class ImportFormat(Format):
    """A file format that `karenina import` can read.

    Return your formats from the hook `karenina_formats`.

    `key` is the name for `--from`. `detect` looks at the start of a file and decides whether it has this format. `rows`
    yields the rows of a file, without executing anything in it. It raises `BenchmarkFileError`, or yields a row with a
    `problem` if other rows can still be read. `mapping` defines which values in a row are the question, the correct
    answer and the response, unless the user changes this. `choose` completes it with the first rows, and returns notes
    for the user. `rows_at` yields the rows of a file, given a path in JSON, an encoding and a sheet, each of which may
    be None. Set it to None if the format has no such options.

    `suffixes` is for suffixes that always mean this format. `karenina check` and `run` can read such files without an
    import. Do not use `.json` and `.jsonl`.
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
    """Make a format that can also be read as a benchmark. See `ImportFormat` for the arguments. If `detect` fails, a
    warning is logged, and the file does not have the format. If `rows` fails, it raises a `ConfigError` that names the
    format.
    """
    detect, rows = _detecting(key, detect), _reading(key, rows)
    return ImportFormat(
        name=name,
        suffixes=suffixes,
        read=lambda path, _check_paths: _read_with(path, rows(path), mapping, choose),
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
    """An `ImportFormat` of this distribution that is only imported when `load` is called.

    All commands that read a benchmark list the formats, but only a few need one.
    """

    key: str
    load: Callable[[], ImportFormat]


def list_unloaded(key: str, name: str, target: str, *suffixes: str) -> UnloadedFormat:
    """Return a format with this key, name and suffixes that can be listed without importing it. It is imported when it
    is used. `target` is the full name of an `ImportFormat`, such as `karenina_importing.formats.tables:HUGGINGFACE`.
    """

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


def _detecting(key: str, detect: Callable[[FileHead], Fit]) -> Callable[[FileHead], Fit]:
    """Return `detect` of the format `key` as a function that, instead of failing or returning anything but a `Fit`,
    logs a warning and returns `Fit.NO`. `BenchmarkFileError` is still raised.
    """

    def find(head: FileHead) -> Fit:
        try:
            found: object = detect(head)
            if isinstance(found, Fit):
                return found
            problem = f"detect returned {found!r:.80}; return Fit.YES, Fit.MAYBE or Fit.NO"
        except BenchmarkFileError:
            raise
        except Exception as error:
            problem = type_and_message(error)
        logger.warning("the format %r is not considered for this file: %s", key, problem)
        return Fit.NO

    return find


def _reading(key: str, rows: Callable[[Path], Iterable[SourceRow]]) -> Callable[[Path], Iterator[SourceRow]]:
    """Return `rows` of the format `key` as a generator function that raises `ConfigError` if `rows` yields anything but
    rows, or raises anything but a `KareninaError` or an `OSError`.
    """

    def read(path: Path) -> Iterator[SourceRow]:
        from karenina_importing.source_files import SourceRow  # slow, and most commands list only the formats

        try:
            for row in rows(path):
                if not isinstance(row, SourceRow):
                    raise TypeError(f"a row must be a SourceRow, not {row!r:.80}")
                yield row
        except (KareninaError, OSError):
            raise
        except (Exception, SystemExit) as error:
            logger.debug("the traceback of the format %s:", key, exc_info=True)
            raise ConfigError([f"the format {key!r} failed to read {path}: {type_and_message(error)}"]) from error

    return read


def _read_with(
    path: Path, rows: Iterable[SourceRow], mapping: FieldMapping, choose: ChooseMapping | None
) -> BenchmarkContent:
    """Return the rows of another tool's file as a benchmark named after `path`, without its recorded answers. Rows that
    cannot be converted are in `broken`, and notes for the user in `load_notes`.
    """
    from karenina_importing.conversion import convert, question_values  # slow, and most commands list only the formats

    done = convert(rows, mapping, choose)
    benchmark = BenchmarkContent(path.stem or "benchmark")
    benchmark.named_by_path = True
    benchmark.add_questions(Question.model_validate(question_values(data)) for data in done.questions.values())
    benchmark.date_modified = None
    benchmark.run_config = done.config
    benchmark.origins = {
        id: Section(Document(path, row.values, {(): int(line[1])}, {}), (), row.values)
        for id, row in done.origins.items()
        if (line := _LINE.fullmatch(row.place))
    }
    benchmark.load_notes = list(done.notes)
    benchmark.broken = [BenchmarkFileError(path, problem.place, problem.what, "") for problem in done.problems]
    return benchmark


def _is_surely(detect: Callable[[FileHead], Fit], path: Path) -> bool:
    """Return whether a file certainly has a format. Returns False if the file cannot be read."""
    from karenina_importing.source_files import head_of

    try:
        return detect(head_of(path)) is Fit.YES
    except BenchmarkFileError:  # the reader that is chosen instead reports it
        return False
