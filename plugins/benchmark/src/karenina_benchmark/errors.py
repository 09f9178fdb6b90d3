"""`CheckpointError`: the problem of a file of questions, its place and its cure."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.errors import KareninaError
from karenina_core.text import join_problems

if TYPE_CHECKING:
    from pydantic import ValidationError


class CheckpointError(KareninaError, ValueError):
    """An error of a file that cannot be read or written as a benchmark or as a table of questions.

    `file` is the file, `where` the place in it (a line, a row, or the number and id of a question; empty for the file
    as a whole), `what` the problem and `cure` the way to solve it. The file is unchanged.
    """

    def __init__(self, file: str | Path, where: str, what: str, cure: str) -> None:
        place = f"{file}, {where}" if where else str(file)
        super().__init__(f"{place}: {what}; {cure}" if cure else f"{place}: {what}")
        self.file = Path(file)
        self.where = where
        self.what = what
        self.cure = cure


def explain_error(error: ValueError | ValidationError) -> str:
    """Return the message of a validation error in one line: each field with its problem, without pydantic's details."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    problems = []
    for problem in error.errors(include_url=False, include_input=False):
        field = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        problems.append(f"{field}: {message}" if field else message)
    return join_problems(problems)
