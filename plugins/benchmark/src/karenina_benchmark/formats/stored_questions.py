"""Stores the questions of a large table in a temporary file, so that they do not fill the memory."""

from __future__ import annotations

import json
import tempfile
from array import array
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, Self, cast

from pydantic_core import from_json

from karenina_benchmark.document import Document, Place, Section
from karenina_benchmark.formats.jsonl_format import LineIndex, QuestionLines
from karenina_core.data.question import Question

if TYPE_CHECKING:
    from pathlib import Path

LARGE: Final = 20_000
"""Tables with at least this many rows keep their questions in a file."""


class StoredQuestions(QuestionLines):
    """The questions of a table by id. Each is built when it is accessed, without reading the table again.

    The temporary file has two lines for each question: its fields, and its place in the table. Add questions in a
    `with` block, which raises `OSError` if they cannot be written.
    """

    def __init__(self, path: Path) -> None:
        """Create the temporary file. It is deleted when it is closed."""
        # The object closes the file; it has no name, so nothing is left behind if the process is killed.
        file = cast("IO[bytes]", tempfile.TemporaryFile(prefix="karenina-"))  # noqa: SIM115
        super().__init__(path, file, LineIndex({}, array("Q", [0]), array("L"), bytearray(), []))

    def add(self, place: Section, question: Question) -> None:
        """Add a question with its place in the table. The question's id must be new."""
        fields = question.model_dump_json(exclude_defaults=True).encode()
        location = json.dumps([place.where(), place.document.lines.get(())]).encode()
        self._file.write(b"%b\n%b\n" % (fields, location))
        self._index.positions[question.id] = len(self._index.positions)
        self._index.offsets.append(self._index.offsets[-1] + len(fields) + len(location) + 2)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the remaining content and leave the file open, or close the file if there was an error."""
        complete = False
        try:
            if kind is None:
                self._file.flush()
                complete = True
        finally:
            if not complete:
                with suppress(OSError):  # it would be printed if the file were closed later
                    self._file.close()

    def where(self, question_id: str) -> str | None:
        """Describe the place of an added question in the table, as text that is empty if the question has been
        replaced. Returns None if there is no question with this id.
        """
        if question_id not in self._positions:
            return None
        self._file.flush()
        place = self.place_of(question_id)
        return place.where() if place is not None else ""

    def text_of(self, question_id: str) -> str:
        """Return a question's text without building the question. Raises `KeyError` for an unknown id."""
        position = self._positions[question_id]
        if position is None:
            return self._changed[question_id].question
        text: str = from_json(self._read_line(position))["question"]
        return text

    def place_of(self, question_id: str) -> Section | None:
        """Return a question's row in the table, or None if the question has been replaced."""
        position = self._positions[question_id]
        if position is None:
            return None
        where, line = json.loads(self._read_lines(position)[1])
        lines: dict[Place, int] = {} if line is None else {(): line}
        return Section(Document(self._path, {}, lines, {}, place=where), (), {})

    def _read(self, _id: str, position: int) -> Question:
        return Question.model_validate(from_json(self._read_line(position)))
