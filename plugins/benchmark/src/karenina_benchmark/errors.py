"""The error for a problem in a question file, with its place and a fix."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from karenina_core.errors import KareninaError
from karenina_core.text import did_you_mean, join_problems
from karenina_toolkit.files import bounded_files

if TYPE_CHECKING:
    from pydantic import ValidationError


P = ParamSpec("P")
T = TypeVar("T")


class BenchmarkFileError(KareninaError, ValueError):
    """Raised if a file cannot be read or written as a benchmark or a table of questions.

    `where` is the place in `file`: a line, a row, the number and id of a question, or empty for the whole file. `what`
    describes the problem, and `cure` says how to fix it. `others` contains more errors that are not in the message.
    `cause` sets the original exception if the error is created outside its `except` block. The file is unchanged.
    """

    def __init__(
        self,
        file: str | Path,
        where: str,
        what: str,
        cure: str,
        others: Iterable[BenchmarkFileError] = (),
        *,
        cause: BaseException | None = None,
    ) -> None:
        place = f"{file}, {where}" if where else str(file)
        super().__init__(f"{place}: {what}; {cure}" if cure else f"{place}: {what}")
        self.file = Path(file)
        self.where = where
        self.what = what
        self.cure = cure
        self.others = tuple(others)
        self.__cause__ = cause

    def each(self) -> Iterator[BenchmarkFileError]:
        """Yield this error and all other errors found at the same time."""
        yield self
        for other in self.others:
            yield from other.each()


class Problems:
    """Collects the errors in a file, so that reading can continue after an error."""

    def __init__(self) -> None:
        self.found: list[BenchmarkFileError] = []

    def attempt(self, read: Callable[P, T | None], *arguments: P.args, **options: P.kwargs) -> T | None:
        """Call `read` and return its result. If it raises `BenchmarkFileError`, collect the error and return None."""
        try:
            return read(*arguments, **options)
        except BenchmarkFileError as error:
            self.found.append(error)
            return None

    def raise_all(self) -> None:
        """Raise the first error, with all further errors as its `others`. Does nothing if there are no errors."""
        if not self.found:
            return
        first, *others = [each for error in self.found for each in error.each()]
        if not others:
            raise first
        alone = [
            BenchmarkFileError(other.file, other.where, other.what, other.cure) if other.others else other
            for other in others
        ]
        raise BenchmarkFileError(first.file, first.where, first.what, first.cure, alone) from first.__cause__


def describe_version(version: object, newest: int) -> tuple[str, str]:
    """Return what is wrong with a file's format version, and how to fix it. `newest` is the last supported version."""
    readable = f"version {newest}" if newest == 1 else f"versions up to {newest}"
    major = str(version).partition(".")[0]
    newer = not isinstance(version, bool) and major.isdecimal() and int(major) > newest
    cure = "update Karenina: pip install -U karenina" if newer else f"set the format version to {newest}"
    return f"the file has format version {version!r}, but the installed version of Karenina supports {readable}", cure


def explain_error(error: ValueError | ValidationError, known: Collection[str] = ()) -> str:
    """Return an error as one line. For a `ValidationError`, this names each field and its problem, and for an unknown
    field the most similar of the `known` names.
    """
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    problems = []
    for problem in error.errors(include_url=False):
        field = ".".join(str(part) for part in problem["loc"])
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = f"there is no such field{did_you_mean(str(problem['loc'][-1]), known)}"
        elif problem["type"] == "missing":
            problems.append(f"{field!r} is missing")
            continue
        elif problem["type"] == "literal_error":
            message += _suggest_word(problem["input"], problem["ctx"]["expected"])
        problems.append(f"{field}: {message}" if field else message)
    return join_problems(problems)


def _suggest_word(value: object, expected: str) -> str:
    """Suggest the expected word that is most similar to `value`, or return an empty string."""
    near = get_close_matches(value, re.findall(r"'([^']*)'", expected), n=1) if isinstance(value, str) else []
    return f"; did you mean {near[0]!r}?" if near else ""


def nearest_key(key: str, known: Collection[str]) -> str | None:
    """Return the most similar of the `known` keys, or None."""
    return next(iter(get_close_matches(key, known, n=1)), None)


def suggest_key(key: str, known: Collection[str], otherwise: str) -> str:
    """Return "did you mean ...?" with the most similar of the `known` keys, or `otherwise` if none is similar."""
    nearest = nearest_key(key, known)
    return f"did you mean {nearest!r}?" if nearest is not None else otherwise


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte-order mark. Raises `BenchmarkFileError` if it cannot be read."""
    try:
        return bounded_files.read_text(path)
    except bounded_files.FileError as error:
        raise to_checkpoint_error(error) from error


def to_checkpoint_error(error: bounded_files.FileError) -> BenchmarkFileError:
    """Convert a file-reading error to a `BenchmarkFileError`."""
    return BenchmarkFileError(error.path, error.where, error.what, error.cure)
