"""The built-in file formats: YAML, JSON-LD checkpoints, JSON lines, and tables of questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from karenina_benchmark.errors import BenchmarkFileError, read_text
from karenina_benchmark.formats.checkpoint_format import read_checkpoint, serialize_checkpoint
from karenina_benchmark.formats.format import Format
from karenina_benchmark.formats.load_warnings import find_warnings
from karenina_benchmark.formats.row_files import has_rows

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark.content import BenchmarkContent
    from karenina_benchmark.formats.format import CheckPaths
    from karenina_core.data.question import Question


def _read_checkpoint(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    if has_rows(path):
        return _read_columns(path, {})
    benchmark = read_checkpoint(_read_nonempty(path), path)
    _keep_warnings(benchmark, benchmark)
    return benchmark


def _keep_warnings(benchmark: BenchmarkContent, questions: Iterable[Question], unread: Iterable[str] = ()) -> None:
    benchmark.load_warnings, benchmark.unscorable = find_warnings(benchmark, questions, unread)


def _read_yaml(path: Path, check_paths: CheckPaths) -> BenchmarkContent:
    from karenina_benchmark.formats.yaml_format import read_yaml

    benchmark = read_yaml(_read_nonempty(path), path, check_paths)
    _keep_warnings(benchmark, benchmark)
    return benchmark


def _read_jsonl(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    from karenina_benchmark.formats.jsonl_format import read_jsonl

    if has_rows(path):
        return _read_columns(path, {})
    benchmark, ids = read_jsonl(path)
    _keep_warnings(benchmark, (), ids)
    return benchmark


def _read_table(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    return _read_columns(path, {})


def _read_columns(path: Path, columns: Mapping[str, str]) -> BenchmarkContent:
    from karenina_benchmark.formats.table_format import read_table

    return read_table(path, columns)


def _read_columns_of_json(path: Path, columns: Mapping[str, str]) -> BenchmarkContent:
    if not has_rows(path):
        what = "columns cannot be mapped, because the file is a benchmark, which has no columns"
        raise BenchmarkFileError(path, "", what, "leave --columns, --rows, --sheet and --encoding out")
    return _read_columns(path, columns)


def _write_checkpoint(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    yield serialize_checkpoint(benchmark, path)


def _write_yaml(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    from karenina_benchmark.formats.yaml_format import serialize_yaml

    yield serialize_yaml(benchmark, path)


def _write_jsonl(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    from karenina_benchmark.formats.jsonl_format import serialize_jsonl

    yield from serialize_jsonl(benchmark, path)


def _read_nonempty(path: Path) -> str:
    text = read_text(path)
    if not text.strip():
        raise BenchmarkFileError(path, "", "the file is empty", "save a benchmark to it, or write one in YAML by hand")
    return text


FORMATS: Final = (
    Format("a checkpoint", (".jsonld", ".json"), _read_checkpoint, _write_checkpoint, _read_columns_of_json),
    Format("YAML", (".yaml", ".yml"), _read_yaml, _write_yaml),
    Format("JSON lines", (".jsonl", ".ndjson"), _read_jsonl, _write_jsonl, _read_columns_of_json),
    Format("a table", (".csv", ".tsv"), _read_table, read_columns=_read_columns),
    Format("an Excel table", (".xlsx",), _read_table, read_columns=_read_columns),
    Format("a Parquet table", (".parquet",), _read_table, read_columns=_read_columns),
)
