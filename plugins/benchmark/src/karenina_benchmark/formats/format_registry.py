"""The registry of file formats, which are selected by a file's suffix.

The built-in formats are YAML, JSON-LD checkpoints, JSON lines, and question tables. A JSON file that contains rows with
arbitrary keys, as written by other programs, is a table.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.errors import BenchmarkFileError, nearest_key, read_text, to_checkpoint_error
from karenina_benchmark.formats.format import Format
from karenina_benchmark.formats.hookspecs import karenina_formats
from karenina_benchmark.formats.load_warnings import find_warnings
from karenina_benchmark.formats.yaml_format import QUESTION_KEYS
from karenina_benchmark.tables.column_roles import is_for_answers
from karenina_core.catalog import official_first
from karenina_core.config.setting_owners import not_loaded
from karenina_core.namespaces import is_owned
from karenina_core.plugins import Offer
from karenina_toolkit.files import LINES, bounded_files

if TYPE_CHECKING:
    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.formats.format import CheckPaths
    from karenina_core.data.question import Question
    from karenina_core.plugins import Plugins

_CHECKPOINT_KEYS: Final = (b"dataFeedElement", b'"@context"', b'"@type"', b'"answer_template"', b'"global_rubric"')
_BLANK: Final = b" \t\r\n\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_LONGEST_FIRST_LINE: Final = 1 << 20


def _read_checkpoint(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    """Return the benchmark in a checkpoint, or in a table if the JSON file contains rows."""
    from karenina_benchmark.formats.checkpoint_format import read_checkpoint

    if has_rows(path):
        return _read_columns(path, {})
    benchmark = read_checkpoint(_read_nonempty(path), path)
    _keep_warnings(benchmark, benchmark)
    return benchmark


def _keep_warnings(benchmark: BenchmarkContent, questions: Iterable[Question], unread: Iterable[str] = ()) -> None:
    """Set the benchmark's warnings about its content. See `find_warnings`."""
    benchmark.load_warnings, benchmark.unscorable = find_warnings(benchmark, questions, unread)


def _read_yaml(path: Path, check_paths: CheckPaths) -> BenchmarkContent:
    """Read a benchmark in YAML, with warnings about its content. Raises `BenchmarkFileError` if the file is empty or
    not YAML.
    """
    from karenina_benchmark.formats.yaml_format import read_yaml

    benchmark = read_yaml(_read_nonempty(path), path, check_paths)
    _keep_warnings(benchmark, benchmark)
    return benchmark


def _read_jsonl(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    """Return the benchmark in JSON lines, or in a table if the lines are rows with other keys."""
    from karenina_benchmark.formats.jsonl_format import read_jsonl

    if has_rows(path):
        return _read_columns(path, {})
    benchmark, ids = read_jsonl(path)
    _keep_warnings(benchmark, (), ids)
    return benchmark


def _read_table(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    """Read a table whose columns are recognized by their names."""
    return _read_columns(path, {})


def _read_columns(path: Path, columns: Mapping[str, str]) -> BenchmarkContent:
    """Read a table. Columns that `columns` does not map are recognized by their names."""
    from karenina_benchmark.formats.table_format import read_table

    return read_table(path, columns)


def _read_columns_of_json(path: Path, columns: Mapping[str, str]) -> BenchmarkContent:
    """Return the benchmark in a table in JSON. Raises `BenchmarkFileError` if the file is a benchmark, which has no
    columns.
    """
    if not has_rows(path):
        what = "columns cannot be mapped because the file is a benchmark, which has no columns"
        raise BenchmarkFileError(path, "", what, "remove --columns, --rows, --sheet and --encoding")
    return _read_columns(path, columns)


def _write_checkpoint(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    from karenina_benchmark.formats.checkpoint_format import serialize_checkpoint

    yield serialize_checkpoint(benchmark, path)


def _write_yaml(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    from karenina_benchmark.formats.yaml_format import serialize_yaml

    yield serialize_yaml(benchmark, path)


def _write_jsonl(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    from karenina_benchmark.formats.jsonl_format import serialize_jsonl

    yield from serialize_jsonl(benchmark, path)


def _read_nonempty(path: Path) -> str:
    """Return the text of a file. Raises `BenchmarkFileError` if it is empty or cannot be read."""
    text = read_text(path)
    if not text.strip():
        raise BenchmarkFileError(
            path, "", "the file is empty", "save a benchmark to the file, or write a benchmark in YAML"
        )
    return text


FORMATS: Final = (
    Format("a checkpoint", (".jsonld", ".json"), _read_checkpoint, _write_checkpoint, _read_columns_of_json),
    Format("YAML", (".yaml", ".yml"), _read_yaml, _write_yaml),
    Format("JSON lines", (".jsonl", ".ndjson"), _read_jsonl, _write_jsonl, _read_columns_of_json),
    Format("a table", (".csv", ".tsv"), _read_table, read_columns=_read_columns),
    Format("an Excel table", (".xlsx",), _read_table, read_columns=_read_columns),
    Format("a Parquet table", (".parquet",), _read_table, read_columns=_read_columns),
)

OWNER: Final = "karenina-benchmark"
"""The distribution that provides the built-in formats."""


def list_formats(plugins: Plugins) -> list[Offer[Format]]:
    """Return the formats of all plugins, including the built-in ones."""
    from karenina_core.catalog import __version__

    offered = plugins.offers(karenina_formats, Format)
    present = [offer.value for offer in offered]
    return [*offered, *(Offer(built_in, OWNER, __version__, None) for built_in in FORMATS if built_in not in present)]


def suffix_of(plugins: Plugins, path: Path) -> str:
    """Return the longest suffix of an installed format that `path` ends with, such as `.bench.json`. If there is none,
    returns `path.suffix`. The result is in lower case.
    """
    name = path.name.lower()
    suffixes = [suffix for offer in list_formats(plugins) for suffix in offer.value.suffixes]
    return max(
        (suffix for suffix in suffixes if name.endswith(suffix) and name != suffix),
        key=len,
        default=path.suffix.lower(),
    )


def find_format(plugins: Plugins, path: Path, suffix: str, *, writes: bool = False) -> Offer[Format]:
    """Return the offer of the format for the given suffix, which must be one that can be written if `writes` is set.
    Raises `BenchmarkFileError` for `path` if no format has this suffix, or if two distributions provide one.
    """
    offered = [offer for offer in list_formats(plugins) if offer.value.write is not None or not writes]
    matching = [offer for offer in offered if suffix in offer.value.suffixes]
    if len(matching) == 1:
        return matching[0]
    if matching:
        matching.sort(key=lambda offer: official_first(offer.distribution))
        names = " and ".join(f"{offer.distribution} {offer.version}" for offer in matching)
        raise BenchmarkFileError(
            path,
            "",
            f"more than one plugin provides a format with the suffix {suffix!r}: {names}",
            f'block one of them with `[plugins] block = ["{matching[-1].distribution}"]`',
        )
    purpose = "saving" if writes else "loading"
    cure = f"use one of {describe_suffixes(offered)}{not_loaded(plugins)}"
    raise BenchmarkFileError(path, "", f"the file extension {suffix!r} is not supported for {purpose}", cure)


def describe_suffixes(offered: Iterable[Offer[Format]]) -> str:
    """Return the suffixes and names of the formats as one string, for messages. Formats without suffixes are
    omitted.
    """
    return "; ".join(
        f"{', '.join(offer.value.suffixes)} ({offer.value.name})" for offer in offered if offer.value.suffixes
    )


def has_rows(path: Path) -> bool:
    """Return whether a JSON or JSON lines file contains rows with arbitrary keys, as written by other programs: a
    `.json` document is a list or has no keys of a checkpoint, and the first of JSON lines is an object that is not part
    of a benchmark (`_is_row`). Raises `BenchmarkFileError` if the file cannot be read.

    Empty files and files with other suffixes contain no rows.
    """
    try:
        if path.suffix.lower() not in LINES:
            data = bounded_files.read_bytes(path)
            start = data.lstrip(_BLANK)[:1]
            is_json = bool(start) and path.suffix.lower() == ".json"
            return is_json and (start == b"[" or not any(map(data.count, _CHECKPOINT_KEYS)))
        with bounded_files.open_file(path) as file:
            start = file.read(_LONGEST_FIRST_LINE) or b""
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
    if start.startswith(_UTF16_MARKS) or b"\0" in start[:4]:
        return True
    first = start.strip(_BLANK).partition(b"\n")[0]
    try:
        values = json.loads(first)
    except (ValueError, RecursionError):  # the benchmark reader reports the error with its location
        return False
    return isinstance(values, Mapping) and _is_row(values)


def _is_row(values: Mapping[str, Any]) -> bool:
    """Return whether an object is a row from another program. It is not if it has the key `karenina`, like the head of
    a benchmark, or if it is a question: its `question` is not an object or a list, its `answer`, if any, is a mapping,
    and its other keys are those of questions, misspellings of these, or keys of mappings. Keys for correct answers and
    options are those of a row, unless it declares fields.
    """
    if "karenina" in values:
        return False
    answer = values.get("answer")
    if isinstance(values.get("question", []), Mapping | list) or not isinstance(answer, Mapping | None):
        return True
    keys = [*QUESTION_KEYS, *(key for key in values if is_owned(key, "question_fields"))]
    unknown = [key for key in values if key not in keys]
    answers = [key for key in unknown if is_for_answers(key)]
    if answers and not any(_declares_fields(values[key]) for key in answers) and not _declares_fields(answer):
        return True
    return any(nearest_key(key, QUESTION_KEYS) is None for key in unknown if not isinstance(values[key], Mapping))


def _declares_fields(value: object) -> bool:
    """Return whether a value consists of objects with names, as the fields of a template."""
    return isinstance(value, Mapping) and bool(value) and all(isinstance(one, Mapping) for one in value.values())
