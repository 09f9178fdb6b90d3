"""`CheckpointError`: what is wrong with a file of questions, where, and how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.errors import KareninaError
from karenina_core.text import join_problems

if TYPE_CHECKING:
    from pydantic import ValidationError


class CheckpointError(KareninaError, ValueError):
    """A file that cannot be read or written as a benchmark or as a table of questions.

    `file` is the file, `where` the place in it (a line, a row, a question's number and id; empty for the file as a
    whole), `what` the problem and `cure` what to do about it. Nothing was changed by the attempt.
    """

    def __init__(self, file: str | Path, where: str, what: str, cure: str) -> None:
        place = f"{file}, {where}" if where else str(file)
        super().__init__(f"{place}: {what}; {cure}" if cure else f"{place}: {what}")
        self.file = Path(file)
        self.where = where
        self.what = what
        self.cure = cure


def explain(error: ValueError | ValidationError) -> str:
    """What a validation error says, in one line: field, complaint, and nothing about the library that found it."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    complaints = []
    for problem in error.errors(include_url=False, include_input=False):
        field = ".".join(str(part) for part in problem["loc"])
        said = problem["msg"].removeprefix("Value error, ")
        complaints.append(f"{field}: {said}" if field else said)
    return join_problems(complaints)
