"""Checking that a journal contains every result in a file, so that the file can be replaced."""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from karenina_engine.results.result_file import is_header
from karenina_engine.results.result_lines import LineReader, LineWriter, ResultFileError, dump_result, parse_result

if TYPE_CHECKING:
    import sqlite3
    from pathlib import Path

    from karenina_engine.journal.compression import TextReader

_QUESTION_ID: Final = re.compile(rb'"question_id":("(?:[^"\\]|\\.)*")')
_OF_LAST_RUN: Final = (
    "SELECT result FROM results WHERE run = (SELECT max(id) FROM runs) AND question_id = ifnull(?, question_id)"
)


def holds_all_lines(database: sqlite3.Connection, texts: TextReader, file: Path) -> bool:
    """Return whether a journal's last run contains every result in `file`. Of a last line that is incomplete, only the
    start of a result must match. Raises `sqlite3.Error` or `OSError` if the journal or the file cannot be read.
    """
    reader, cut_off = LineReader(), b""
    values = database.execute(_OF_LAST_RUN, (None,))
    stored = {_digest(text) for (value,) in values if (text := _as_dumped(texts.read(value), value))}
    with file.open("rb") as lines:
        for line in lines:
            if is_header(line):
                reader.add_rows(line)
            elif not line.endswith(b"\n"):
                cut_off = line
            elif (read := _dump_line(reader, line)) is None or _digest(read) not in stored:
                return False
    return not cut_off or _is_start_of_result(database, texts, cut_off)


def _is_start_of_result(database: sqlite3.Connection, texts: TextReader, start: bytes) -> bool:
    """Return whether an incomplete line that begins with `start` can be a result of the last run."""
    named = _QUESTION_ID.search(start)
    try:
        question_id = json.loads(named[1]) if named is not None else None
    except ValueError:  # a text that is not JSON, so no result begins like this
        return False
    for (value,) in database.execute(_OF_LAST_RUN, (question_id,)):
        stored = texts.read(value)
        lines = [stored, LineWriter().lines(_as_dumped(stored, value).decode())[-1]]
        with suppress(ResultFileError):
            lines.append(parse_result(stored, "the result").model_dump_json())
        if any(line.encode("utf-8", "replace").startswith(start) for line in lines):
            return True
    return False


def _as_dumped(text: str, value: object) -> bytes:
    """Return `text`, encoded, in the form that `dump_result` writes, or empty bytes if it is not a result. `value` is
    the text as it is stored: if it is compressed, which earlier versions did not do, the text already has this form.
    """
    data = text.encode("utf-8", "replace")
    return data if isinstance(value, bytes) else _dump_line(LineReader(), data) or b""


def _dump_line(reader: LineReader, line: bytes) -> bytes | None:
    """Return the result in a line, encoded, in the form that `dump_result` writes, or None if there is none or it lacks
    names of models.
    """
    try:
        result = reader.read(line, "the line")
    except ResultFileError:
        return None
    return dump_result(result).encode() if not reader.nameless else None


def _digest(text: bytes) -> bytes:
    """Return the first 16 bytes of a string's digest. This saves memory."""
    return hashlib.sha256(text).digest()[:16]
