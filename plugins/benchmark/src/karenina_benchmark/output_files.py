"""Files of outputs without questions, for `karenina judge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.evaluation import NO_QUESTION, Output
from karenina_core.errors import ConfigError
from karenina_toolkit import bounded_files
from karenina_toolkit.files import LINES, TABLES, Record, find_column, plain_cell, read_records

_RESPONSES: Final = ("response", "output", "answer", "text", "trace", "messages", "completion")


def read_outputs(path: Path) -> Iterator[Output]:
    """Yield the outputs of a file.

    A `.jsonl` file has one output a line: a JSON text, or an object with `response` (or output, answer, text, trace,
    messages, completion), and perhaps `id` and `question`; a table (`.csv`, `.tsv`, `.xlsx`) has columns with these
    names. The names may be in upper or lower case. Any other file is one output, whose id is the file's name. Raises
    `ConfigError`, naming the line, for anything else.
    """
    try:
        if path.suffix.lower() in (*LINES, *TABLES):
            yield from _read_rows(path)
        else:
            yield Output(path.name, bounded_files.read_text(path))
    except bounded_files.FileError as error:
        raise ConfigError([str(error)]) from error


def _read_rows(path: Path) -> Iterator[Output]:
    with read_records(path, surrogates=True, package="karenina-benchmark") as records:
        if records.columns and not any(find_column(records.columns, name) for name in _RESPONSES):
            cure = f"give the column of the outputs this name; the columns are {', '.join(records.columns)}"
            raise ConfigError([f"{path} has no column `response`: {cure}"])
        found = False
        for record in records:
            found = True
            yield _make_output(record, is_table=bool(records.columns))
        if not found:
            raise ConfigError([f"{path} holds no outputs"])


def _make_output(record: Record, *, is_table: bool) -> Output:
    default = f"line-{record.number}"
    if isinstance(record.value, str):
        return Output(default, record.value)
    if not isinstance(record.value, Mapping):
        raise ConfigError([f"{record} is neither a JSON text nor an object with `response`"])

    def get(name: str) -> Any:
        found = record.get(name)
        return str(plain_cell(found)) if is_table and found is not None else found

    response = next((found for name in _RESPONSES if (found := get(name)) is not None), None)
    if response is None:
        raise ConfigError([f"{record} holds no output: it needs one of the keys {', '.join(_RESPONSES)}"])
    id, question = get("id"), get("question")
    return Output(
        default if id in (None, "") else str(id),
        response,
        NO_QUESTION if question in (None, "") else str(question),
    )
