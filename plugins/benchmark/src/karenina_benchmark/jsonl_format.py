"""The form for many questions: JSON lines, read one question at a time.

    {"karenina": 1, "name": "Genes", "rubric": [...]}       optional: what holds for all questions
    {"question": "Which ...?", "raw_answer": "BCL2", "answer": {"gene": {"description": ..., "ground_truth": "BCL2"}}}
    {"question": ..., "template": "class Answer(BaseAnswer): ..."}

The first line may have the keys that the readable form has beside its questions; every other line has the keys of a
question there (see `readable`), and empty lines count for nothing. Reading looks at each line once, for its id, and
keeps ids and places in the file only: a question is made when it is asked for, and checked then. All errors name
the line.
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
from typing import IO, TYPE_CHECKING, Any

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.document import Document, Place, Section
from karenina_benchmark.errors import CheckpointError
from karenina_benchmark.question_ids import make_question_id
from karenina_benchmark.strict_json import parse_object
from karenina_benchmark.text_files import to_checkpoint_error
from karenina_benchmark.yaml_format import (
    HEAD_KEYS,
    check_version,
    read_head,
    read_question,
    serialize_head,
    serialize_question,
)
from karenina_core.data.question import Question
from karenina_toolkit import bounded_files

if TYPE_CHECKING:
    from pathlib import Path

_DIGEST = 16
_MARK = b"\xef\xbb\xbf"
_MOST_BROKEN = 1000
"""A file with more lines that hold no question is of another form."""


def read_jsonl(path: Path) -> tuple[BenchmarkContent, list[str]]:
    """The benchmark in a file of JSON lines, its questions left there; and the ids of those that hold `unread`.

    It is named as its first line says, or as the file. Raises `CheckpointError` for a line that is no JSON object,
    that says no question, or whose id another line has.
    """
    file = _opened(path)
    try:
        index, head, unread = _index(file, path)
        if head is None:
            benchmark = BenchmarkContent(path.stem or "benchmark")
            benchmark.named_by_path = True
        else:
            check_version(head)
            head.check_keys(HEAD_KEYS)
            stated = head.text("name")
            benchmark = read_head(head, stated or path.stem or "benchmark")
            benchmark.named_by_path = not stated
        benchmark.use_questions(QuestionLines(path, file, index))
        benchmark.broken = index.broken
    except BaseException:
        file.close()
        raise
    return benchmark, unread


@dataclass(frozen=True, slots=True)
class _Index:
    """Where the questions stand: by id their place among each other, and by place where the line begins, and which.

    `digests` holds what each line was, so that what a run uses is what was checked before it. `broken` are the errors
    of lines that hold no question.
    """

    places: dict[str, int]
    offsets: array[int]
    numbers: array[int]
    digests: bytearray
    broken: list[CheckpointError]


def _index(file: IO[bytes], path: Path) -> tuple[_Index, Section | None, list[str]]:
    head: Section | None = None
    index = _Index({}, array("Q"), array("L"), bytearray(), [])
    unread: list[str] = []
    end = 0
    for number, line in enumerate(_lines(file, path), 1):
        start, end = end, end + len(line)
        if number == 1:
            start += len(line) - len(line := line.removeprefix(_MARK))
        if not line.strip():
            continue
        try:
            values = _values(line, path, number)
            if "karenina" in values:
                if head is not None or index.places:
                    what = "`karenina` stands in the line of the benchmark, which is the first"
                    raise CheckpointError(path, f"line {number}", what, "remove the key, or move the line to the top")
                head = _section(values, path, number)
                continue
            id = _id(values, path, number, len(index.places) + len(index.broken) + 1)
            if id in index.places:
                what = f"the question of line {index.numbers[index.places[id]]} has the same id {id!r}"
                cure = 'give one of the two another "id"'
                raise CheckpointError(path, f"line {number}", what, cure)
        except CheckpointError as error:
            index.broken.append(error)
            if len(index.broken) > _MOST_BROKEN:
                raise index.broken[0] from error
            continue
        if values.get("unread"):
            unread.append(id)
        index.places[id] = len(index.places)
        index.offsets.append(start)
        index.numbers.append(number)
        index.digests.extend(_digest(line))
    index.offsets.append(end)
    if head is None and not index.places:
        if index.broken:
            raise index.broken[0]
        raise CheckpointError(path, "", "the file is empty", "write a question a line, as JSON")
    return index, head, unread


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line.rstrip(b"\n"), digest_size=_DIGEST).digest()


def _id(values: Mapping[str, Any], path: Path, number: int, place: int) -> str:
    text = values.get("question")
    if text is None or text == "":
        cure = 'write "question": ...; a file with other names is imported with `questions_from` in a YAML file'
        raise CheckpointError(path, f"line {number}", "the line has no question", cure)
    section = _section(values, path, number)
    return section.text("id") or make_question_id(place, section.text("question") or "")


def _values(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        where = f"line {number}, byte {error.start}"
        raise CheckpointError(path, where, "the text is not UTF-8", "save it with the encoding UTF-8") from error
    return parse_object(text, path, number, what="a question")


def _section(values: Mapping[str, Any], path: Path, number: int) -> Section:
    return Section(Document(path, values, {(): number}, _Written(values)), (), values)


@dataclass(frozen=True, slots=True)
class _Written(Mapping[Place, str]):
    """The scalars of a JSON object as texts, by their place."""

    values_of: Mapping[str, Any]

    def __getitem__(self, place: Place) -> str:
        value: Any = self.values_of
        for part in place:
            value = value[part]
        return value if isinstance(value, str) else json.dumps(value)

    def __iter__(self) -> Iterator[Place]:
        return iter([(key,) for key in self.values_of])

    def __len__(self) -> int:
        return len(self.values_of)


class QuestionLines(MutableMapping[str, Question]):
    """The questions of a file by their ids, each made from its line when it is asked for.

    What is put in and taken out stays in memory; the file is never changed. Raises `CheckpointError` for a line that
    is no question, and where the file was written to meanwhile.
    """

    def __init__(self, path: Path, file: IO[bytes], index: _Index) -> None:
        self._path = path
        self._file = file
        self._index = index
        self._places: dict[str, int | None] = index.places  # type: ignore[assignment]  # nobody else has it by now
        self._own: dict[str, Question] = {}
        self._reading = threading.Lock()
        weakref.finalize(self, file.close)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __contains__(self, id: object) -> bool:
        return id in self._places

    def __getitem__(self, id: str) -> Question:
        place = self._places[id]
        return self._own[id] if place is None else self._read(id, place)

    def __setitem__(self, id: str, question: Question) -> None:
        self._places[id] = None
        self._own[id] = question

    def __delitem__(self, id: str) -> None:
        if self._places.pop(id) is None:
            del self._own[id]

    def ids_mentioning(self, words: Collection[str]) -> Iterator[str]:
        """Iterate over the ids of the questions whose line may hold one of `words`, escapes and ligatures included.

        Questions that are kept in memory are always among them.
        """
        if not words:
            return
        found = re.compile("|".join(map(re.escape, sorted(words))))
        in_bytes = re.compile(found.pattern.encode())
        for id, place in list(self._places.items()):
            if place is None:
                yield id
                continue
            line = self._line(place)
            if in_bytes.search(line) or (_may_hide(line) and found.search(_plain(line))):
                yield id

    def _read(self, id: str, place: int) -> Question:
        number = self._index.numbers[place]
        try:
            line = self._line(place)
            if _digest(line) != self._index.digests[place * _DIGEST : (place + 1) * _DIGEST]:
                raise CheckpointError(self._path, f"line {number}", "the line has changed", "")
            values = _values(line, self._path, number)
        except (CheckpointError, OSError) as error:
            what = f"the question {id!r} stood there when the file was loaded, and does no longer: {error}"
            cure = "leave the file alone while it is in use, and load it again"
            raise CheckpointError(self._path, f"line {number}", what, cure) from error
        return read_question(_section(values, self._path, number), id)

    def _line(self, place: int) -> bytes:
        start, end = self._index.offsets[place], self._index.offsets[place + 1]
        if hasattr(os, "pread"):  # processes that were forked share the file's position
            found = os.pread(self._file.fileno(), end - start, start)
        else:
            with self._reading:
                self._file.seek(start)
                found = self._file.read(end - start)
        return found.partition(b"\n")[0]


def _may_hide(line: bytes) -> bool:
    r"""Return whether a line can hold ASCII words that its bytes do not show: as `\u0041`, or as other letters."""
    return b"\\u" in line or not line.isascii()


def _plain(line: bytes) -> str:
    """Return the text of a line with its escapes resolved, in the normal form that Python gives identifiers."""
    with suppress(ValueError, RecursionError):
        return unicodedata.normalize("NFKC", json.dumps(json.loads(line), ensure_ascii=False))
    return line.decode("utf-8", "replace")


def serialize_jsonl(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    """The benchmark as lines. Raises `CheckpointError`; `path` is only named in it."""
    yield _line(serialize_head(benchmark), path, "the benchmark")
    for place, question in enumerate(benchmark, 1):
        yield _line(serialize_question(question, place, path), path, f"question {place} ({question.id})")


def _line(values: Mapping[str, Any], path: Path, where: str) -> str:
    try:
        return json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CheckpointError(path, where, f"it holds what JSON cannot: {error}", "look at its metadata") from error


def _opened(path: Path) -> IO[bytes]:
    try:
        return bounded_files.open_file(path)
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error


def _lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    try:
        yield from bounded_files.lines_of(file, path)
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error
