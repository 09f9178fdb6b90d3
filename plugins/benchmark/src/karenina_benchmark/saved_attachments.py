"""The paths of attachments in files that are saved: relative ones lead to the same files from another folder."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.errors import BenchmarkFileError
from karenina_core.data.question import Question
from karenina_core.models.attachments import Attachment, read_attachments
from karenina_toolkit.conversations import entries_with_files, has_files, script_entries


def serialize_attachment(attachment: Attachment) -> str | dict[str, str]:
    """Return an attachment as it is written in a file."""
    pages = attachment.pages
    return attachment.source if pages is None else {"file": attachment.source, "pages": pages}


class MovedQuestions(MutableMapping[str, Question]):
    """The questions of a benchmark as they are written to `path`. They are built one at a time, and cannot be changed.

    `outside` contains the relative paths of the questions read so far that lead out of the folder of `path`.
    """

    def __init__(self, benchmark: BenchmarkContent, path: Path) -> None:
        self.outside: list[str] = []
        self._benchmark = benchmark
        self._path = path
        self._before = os.path.abspath(benchmark.path.parent if benchmark.path is not None else Path())  # noqa: PTH100
        self._after = os.path.abspath(path.parent)  # noqa: PTH100 - links stay links

    @classmethod
    def content_for(cls, benchmark: BenchmarkContent, path: Path) -> tuple[BenchmarkContent, MovedQuestions | None]:
        """Return the content to write to `path` and, if the paths of attachments must change for another folder, the
        questions with changed paths, otherwise None.
        """
        questions = cls(benchmark, path)
        if questions._before == questions._after:
            return benchmark, None
        moved = copy.copy(benchmark)
        moved.use_questions(questions)
        return moved, questions

    def __getitem__(self, id: str) -> Question:
        """Return a question with the paths of its files rewritten. Raises `BenchmarkFileError` if a file cannot be
        reached from the new folder, such as one on another drive.
        """
        question = self._benchmark.get(id)
        try:
            return self._move_files(question) if has_files(question) else question
        except ValueError as error:
            what = f"the attachments of question {question.id} have no path relative to {self._after}: {error}"
            raise BenchmarkFileError(self._path, "", what, "save to the same drive, or write absolute paths") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._benchmark.ids)

    def __len__(self) -> int:
        return len(self._benchmark)

    def __setitem__(self, id: str, question: Question) -> NoReturn:
        """Raise `TypeError`."""
        raise TypeError("a benchmark cannot be changed while it is being saved")

    def __delitem__(self, id: str) -> NoReturn:
        """Raise `TypeError`."""
        raise TypeError("a benchmark cannot be changed while it is being saved")

    def _move(self, attachment: Attachment) -> Attachment:
        """Return an attachment with its path relative to the new folder, and add paths that lead out of it to
        `outside`. Absolute paths stay as they are.
        """
        if Path(attachment.source).is_absolute():
            return attachment
        source = Path(os.path.relpath(Path(self._before, attachment.source), self._after)).as_posix()
        if source.startswith("../"):
            self.outside.append(source)
        return replace(attachment, source=source)

    def _move_files(self, question: Question) -> Question:
        """Return the question with the paths of its attachments, and of those of later turns, rewritten for the new
        folder.
        """

        def move_entry(entry: Any) -> Any:
            """Return an entry of `turns` with the paths of its attachments rewritten. An invalid entry is returned
            unchanged.
            """
            if not isinstance(entry, Mapping) or not entry.get("attachments"):
                return entry
            try:
                files = read_attachments(entry["attachments"])
            except ValueError:  # refused by `check`
                return entry
            return {**entry, "attachments": [serialize_attachment(self._move(file)) for file in files]}

        changes: dict[str, Any] = {"attachments": tuple(map(self._move, question.attachments))}
        if entries_with_files(question):
            turns = script_entries(question.extra["turns"])
            assert isinstance(turns, list | tuple), "it has entries"
            changes["extra"] = {**question.extra, "turns": list(map(move_entry, turns))}
        return question.model_copy(update=changes)
