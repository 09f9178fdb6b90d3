"""Files of outputs without questions, for `karenina judge`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.evaluation import NO_QUESTION, Output
from karenina_benchmark.table_reader import read_rows
from karenina_core.errors import ConfigError
from karenina_toolkit import bounded_files

_LINES: Final = (".jsonl", ".ndjson")
_TABLES: Final = (".csv", ".tsv", ".xlsx")
_RESPONSES: Final = ("response", "output", "answer", "text", "trace", "messages", "completion")


def read_outputs(path: Path) -> Iterator[Output]:
    """Yield the outputs of a file.

    A `.jsonl` file has one output a line: a JSON text, or an object with `response` (or output, answer, text, trace,
    messages, completion), and perhaps `id` and `question`; a table (`.csv`, `.tsv`, `.xlsx`) has columns with these
    names. Any other file is one output, whose id is the file's name. Raises `ConfigError`, naming the line, for
    anything else, and `CheckpointError` for a table that cannot be read.
    """
    try:
        if path.suffix.lower() in _LINES:
            yield from _read_lines(path)
        elif path.suffix.lower() in _TABLES:
            yield from _read_table(path)
        else:
            yield Output(path.name, bounded_files.read_text(path))
    except bounded_files.FileError as error:
        raise ConfigError([f"{error.path} cannot be read: {error.what}; {error.cure}"]) from error


def _read_lines(path: Path) -> Iterator[Output]:
    found = False
    for number, line in enumerate(bounded_files.read_text(path).split("\n"), 1):
        if line.strip():
            found = True
            yield _read_line(line, number, f"{path}, line {number}")
    if not found:
        raise ConfigError([f"{path} holds no outputs"])


def _read_line(line: str, number: int, place: str) -> Output:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{place} is not JSON: {error}"]) from error
    if isinstance(value, str):
        return Output(f"line-{number}", value)
    if not isinstance(value, Mapping):
        raise ConfigError([f"{place} is neither a JSON text nor an object with `response`"])
    return _make_output(value, number, place)


def _read_table(path: Path) -> Iterator[Output]:
    table = read_rows(path)
    columns = {column.lower(): column for column in reversed(table.columns)}
    if not columns.keys() & set(_RESPONSES):
        cure = f"give the column of the outputs this name; the columns are {', '.join(table.columns)}"
        raise ConfigError([f"{path} has no column `response`: {cure}"])
    if not table.rows:
        raise ConfigError([f"{path} holds no outputs"])
    for row in table.rows:
        cells = {name: row.values[column] for name, column in columns.items()}
        values = {name: None if cell is None else str(cell) for name, cell in cells.items()}
        yield _make_output(values, row.line, f"{path}, line {row.line}")


def _make_output(value: Mapping[str, Any], number: int, place: str) -> Output:
    name = next((name for name in _RESPONSES if value.get(name) is not None), None)
    if name is None:
        raise ConfigError([f"{place} holds no output: it needs one of the keys {', '.join(_RESPONSES)}"])
    return Output(_text(value, "id", f"line-{number}"), value[name], _text(value, "question", NO_QUESTION))


def _text(value: Mapping[str, Any], key: str, default: str) -> str:
    found = value.get(key)
    return default if found in (None, "") else str(found)
