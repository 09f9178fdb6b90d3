"""The JSON lines format for benchmarks with many questions, which are read one at a time.

    {"karenina": 1, "name": "Genes", "rubric": [...]}       optional: values for all questions
    {"question": "Which ...?", "raw_answer": "BCL2", "answer": {"gene": {"description": ..., "ground_truth": "BCL2"}}}
    {"question": ..., "template": "class Answer(BaseAnswer): ..."}

The first line may contain the top-level keys of the YAML format, except those for questions. Every other line contains
the keys of a question in that format (see `yaml_format`). Empty lines are skipped. Loading reads each line once to find
its id, and only keeps ids and file offsets in memory. A question is built and checked each time it is accessed. Errors
name the line.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
import unicodedata
import weakref
from array import array
from collections.abc import Collection, Iterator, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import IO, TYPE_CHECKING, Any

from pydantic_core import from_json

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.document import Document, Place, Section
from karenina_benchmark.errors import BenchmarkFileError, Problems, to_checkpoint_error
from karenina_benchmark.formats.strict_json import parse_object
from karenina_benchmark.formats.yaml_format import (
    HEAD_KEYS,
    check_version,
    read_head,
    read_question,
    serialize_head,
    serialize_question,
)
from karenina_benchmark.question_ids import make_question_id
from karenina_core.data.question import Question
from karenina_core.text import compose
from karenina_toolkit.files import bounded_files

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST_BYTES = 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_BLOCK = 1 << 16
"""Number of bytes in which words are searched at once."""
_MAX_BROKEN_LINES = 1000
"""Maximum number of broken lines. If there are more, reading stops, because the file probably has another format."""


def read_jsonl(path: Path) -> tuple[BenchmarkContent, list[str]]:
    """Read a benchmark whose questions stay in the file, which remains open. Also returns the ids of questions with
    `unread` content. Only lines are checked; questions are read when they are accessed. Errors in lines are collected
    in `broken`, and errors in the head, the first line, in `problems`. Raises `BenchmarkFileError` if no line can be
    read, or if there are more than 1000 errors.

    The benchmark's name comes from the first line or from the file name. An error in a line is that it is not a JSON
    object, has no question, or has an id that is already used.
    """
    file = _open(path)
    try:
        index, head, unread = _index_lines(file, path)
        if head is None:
            benchmark = BenchmarkContent(path.stem or "benchmark")
            benchmark.named_by_path = True
        else:
            problems = Problems()
            problems.attempt(check_version, head)
            problems.attempt(head.check_keys, HEAD_KEYS)
            stated = problems.attempt(head.text, "name")
            benchmark = read_head(head, stated or path.stem or "benchmark", problems)
            benchmark.named_by_path = not stated
            benchmark.problems = problems.found
        benchmark.use_questions(QuestionLines(path, file, index))
        benchmark.broken = index.broken
    except BaseException:
        file.close()
        raise
    return benchmark, unread


@dataclass(frozen=True, slots=True)
class LineIndex:
    """The position of each question by id, and the offset, number and digest of each line by position.

    The digest shows whether a line has changed since loading. `broken` contains the errors for lines that cannot be
    read.
    """

    positions: dict[str, int]
    offsets: array[int]
    numbers: array[int]
    digests: bytearray
    broken: list[BenchmarkFileError]


def _index_lines(file: IO[bytes], path: Path) -> tuple[LineIndex, Section | None, list[str]]:
    """Return the index of the lines with their errors, the head or None, and the ids of questions with `unread`
    content. Raises `BenchmarkFileError` if no line can be read, or if there are more than `_MAX_BROKEN_LINES` errors.
    """
    head: Section | None = None
    index = LineIndex({}, array("Q"), array("L"), bytearray(), [])
    unread: list[str] = []
    written: dict[str, str] = {}
    end = 0
    for number, line in enumerate(_read_lines(file, path), 1):
        start, end = end, end + len(line)
        if number == 1:
            start += len(line) - len(line := line.removeprefix(_BYTE_ORDER_MARK))
        if not line.strip():
            continue
        try:
            values = _parse_line(line, path, number)
            if "karenina" in values:
                if head is not None or index.positions:
                    what = "the key `karenina` is allowed only on the first line"
                    raise BenchmarkFileError(
                        path, f"line {number}", what, "remove the key, or move the line to the top"
                    )
                head = _make_section(values, path, number)
                continue
            id = _read_id(values, path, number, len(index.positions) + len(index.broken) + 1)
            same = id if id.isascii() else written.setdefault(compose(id), id)
            if same in index.positions:
                what = f"the question in line {index.numbers[index.positions[same]]} has the same id {id!r}"
                cure = 'give one of them a different "id"'
                raise BenchmarkFileError(path, f"line {number}", what, cure)
        except BenchmarkFileError as error:
            index.broken.append(error)
            if len(index.broken) > _MAX_BROKEN_LINES:
                raise index.broken[0] from error
            continue
        if values.get("unread"):
            unread.append(id)
        index.positions[id] = len(index.positions)
        index.offsets.append(start)
        index.numbers.append(number)
        index.digests.extend(_digest(line))
    index.offsets.append(end)
    if head is None and not index.positions:
        if index.broken:
            raise index.broken[0]
        raise BenchmarkFileError(path, "", "the file is empty", "write one question per line, as JSON")
    return index, head, unread


def _digest(line: bytes) -> bytes:
    """Return a digest of a line without its line break, to detect later changes."""
    return hashlib.blake2b(line.rstrip(b"\n"), digest_size=_DIGEST_BYTES).digest()


def _read_id(values: Mapping[str, Any], path: Path, number: int, position: int) -> str:
    """Return a question's id. If it has none, the id is made from the question's position and text. Raises
    `BenchmarkFileError` if the line has no question.
    """
    text = values.get("question")
    if text is None or text == "":
        cure = 'add "question": ...; a file with other keys can be imported with `questions_from` in a YAML file'
        raise BenchmarkFileError(path, f"line {number}", "the line has no question", cure)
    id = values.get("id")
    if id and isinstance(id, str):
        return id
    section = _make_section(values, path, number)
    return section.text("id") or make_question_id(position, section.text("question") or "")


def _parse_line(line: bytes, path: Path, number: int) -> dict[str, Any]:
    """Return the object in a line. Raises `BenchmarkFileError` if the line is not UTF-8 or not a JSON object."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        where = f"line {number}, byte {error.start}"
        raise BenchmarkFileError(path, where, "the text is not valid UTF-8", "save the file as UTF-8") from error
    return parse_object(text, path, number, what="a question")


def _parse_again(line: bytes) -> dict[str, Any]:
    """Return the object in a line that `_parse_line` has accepted before."""
    try:
        values: dict[str, Any] = from_json(line)
    except ValueError:  # it is stricter than `json`: with lone surrogates and deep nesting
        values = json.loads(line.decode())
    return values


def _make_section(values: Mapping[str, Any], path: Path, number: int) -> Section:
    """Return the object in a line as a section. All places in it have the line's number."""
    return Section(Document(path, values, {(): number}, _ScalarTexts(values)), (), values)


@dataclass(slots=True)
class _ScalarTexts(Mapping[Place, str]):
    """The scalars in a JSON object as strings, keyed by place."""

    json_object: Mapping[str, Any]

    def __getitem__(self, place: Place) -> str:
        """Return the scalar at `place`. A string is returned unchanged, and anything else as JSON."""
        value: Any = self.json_object
        for part in place:
            value = value[part]
        return value if isinstance(value, str) else json.dumps(value)

    def __iter__(self) -> Iterator[Place]:
        return iter([(key,) for key in self.json_object])

    def __len__(self) -> int:
        return len(self.json_object)


class QuestionLines(MutableMapping[str, Question]):
    """The questions in a file by id. Each question is built from its line when it is accessed.

    Changes stay in memory and are never written to the file. Access raises `BenchmarkFileError` if the line is not a
    valid question or has changed since loading.
    """

    def __init__(self, path: Path, file: IO[bytes], index: LineIndex) -> None:
        self._path = path
        self._file = file
        self._index = index
        self._positions: dict[str, int | None] = index.positions  # type: ignore[assignment]  # not shared with others
        self._changed: dict[str, Question] = {}
        self._seek_lock = threading.Lock()
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[str]:
        return iter(self._positions)

    def __contains__(self, id: object) -> bool:
        return id in self._positions

    def __getitem__(self, id: str) -> Question:
        """Return the question with the given id, built from its line unless it has been replaced."""
        position = self._positions[id]
        return self._changed[id] if position is None else self._read(id, position)

    def __setitem__(self, id: str, question: Question) -> None:
        """Add or replace a question in memory."""
        self._positions[id] = None
        self._changed[id] = question

    def __delitem__(self, id: str) -> None:
        """Remove a question from memory. Raises `KeyError` for an unknown id."""
        if self._positions.pop(id) is None:
            del self._changed[id]

    def place_of(self, question_id: str) -> Section | None:
        """Return a question's line in the file, or None if the question has been replaced. Raises `KeyError` for an
        unknown id.
        """
        position = self._positions[question_id]
        return None if position is None else _make_section({}, self._path, self._index.numbers[position])

    def ids_mentioning(self, words: Collection[str]) -> Iterator[str]:
        """Yield the ids of questions whose line may contain one of `words`, also with escapes or ligatures. Questions
        that have been replaced are always included, whether they do or not.
        """
        if not words:
            return
        pattern = re.compile("|".join(map(re.escape, sorted(words))))
        in_bytes = re.compile(pattern.pattern.encode())
        offsets = self._index.offsets

        def block_of(entry: tuple[str, int | None]) -> int:
            """Return the number of the block in which a question's line starts, or -1 if it has been replaced."""
            return -1 if entry[1] is None else offsets[entry[1]] // _BLOCK

        for _, group in groupby(list(self._positions.items()), block_of):
            entries = list(group)
            first, last = entries[0][1], entries[-1][1]
            if first is None or last is None:
                yield from (id for id, _ in entries)
                continue
            block = self._read_bytes(offsets[first], offsets[last + 1])
            for id, position in entries if in_bytes.search(block) or _may_hide_words(block) else ():
                line = self._read_line(position or 0)
                if in_bytes.search(line) or (_may_hide_words(line) and pattern.search(_normalize(line))):
                    yield id

    def text_of(self, question_id: str) -> str:
        """Return a question's text. Raises `BenchmarkFileError` if its line has changed."""
        position = self._positions[question_id]
        if position is None:
            return self._changed[question_id].question
        return self._section(question_id, position).text("question") or ""

    def _read(self, id: str, position: int) -> Question:
        """Build the question in a line. Raises `BenchmarkFileError` if the line has changed since the file was loaded,
        or is not a valid question.
        """
        return read_question(self._section(id, position), id)

    def _section(self, id: str, position: int) -> Section:
        """Read the question at `position` from the file a second time, and return the object on its line. Raises
        `BenchmarkFileError`, which names the question `id`, if the line has changed or cannot be read.
        """
        number = self._index.numbers[position]
        try:
            line = self._read_line(position)
            if _digest(line) != self._index.digests[position * _DIGEST_BYTES : (position + 1) * _DIGEST_BYTES]:
                raise BenchmarkFileError(self._path, f"line {number}", "the line has changed", "")
            values = _parse_again(line)
        except (BenchmarkFileError, OSError) as error:
            what = f"the question {id!r} cannot be read again: {error}"
            cure = "do not change the file while it is in use; load it again"
            raise BenchmarkFileError(self._path, f"line {number}", what, cure) from error
        return _make_section(values, self._path, number)

    def _read_line(self, position: int) -> bytes:
        return self._read_lines(position)[0]

    def _read_lines(self, position: int) -> list[bytes]:
        """Return the lines from one question to the next."""
        return self._read_bytes(self._index.offsets[position], self._index.offsets[position + 1]).split(b"\n")

    def _read_bytes(self, start: int, end: int) -> bytes:
        """Return the bytes of the file from `start` to `end`. This is safe in threads and forked processes."""
        if hasattr(os, "pread"):  # forked processes share the file position, so they must not seek
            return os.pread(self._file.fileno(), end - start, start)
        with self._seek_lock:
            self._file.seek(start)
            return self._file.read(end - start)


def _may_hide_words(line: bytes) -> bool:
    r"""Return whether a line may contain ASCII words as escapes (`\u0041`) or in the form of other characters."""
    return b"\\u" in line or not line.isascii()


def _normalize(line: bytes) -> str:
    """Return a line with its escapes resolved, normalized to NFKC, as for Python identifiers. A line that is not JSON
    is only decoded.
    """
    with suppress(ValueError, RecursionError):
        return unicodedata.normalize("NFKC", json.dumps(json.loads(line), ensure_ascii=False))
    return line.decode("utf-8", "replace")


def serialize_jsonl(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    """Yield the benchmark as JSON lines. Raises `BenchmarkFileError` for `path` if a template has no source or a value
    is not JSON; earlier lines have been yielded by then.
    """
    yield _serialize_line(serialize_head(benchmark), path, "the benchmark")
    for number, question in enumerate(benchmark, 1):
        where = f"question {number} ({question.id})"
        yield _serialize_line(serialize_question(question, number, path), path, where)


def _serialize_line(values: Mapping[str, Any], path: Path, where: str) -> str:
    """Return the values as a line of JSON. Raises `BenchmarkFileError` at `where` if one of them is not JSON."""
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        what = f"a value cannot be saved as JSON: {error}"
        raise BenchmarkFileError(path, where, what, "check the metadata") from error


def _open(path: Path) -> IO[bytes]:
    """Open the file for reading. Raises `BenchmarkFileError` if it is missing, too large or unreadable."""
    try:
        return bounded_files.open_file(path)
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error


def _read_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of the file. Raises `BenchmarkFileError` if reading fails."""
    try:
        yield from bounded_files.iter_lines(file, path)
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
