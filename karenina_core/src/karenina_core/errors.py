"""The core's exceptions. Each message states what is wrong, where, and what to do about it."""

from __future__ import annotations

from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage


class KareninaError(Exception):
    """The base class for most exceptions of the core."""


class PluginError(KareninaError):
    """Raised when a plugin needed by the configuration cannot be used."""


class RunError(KareninaError):
    """Raised to end the whole run, not just one item. Stages must not catch it."""


class ItemInterrupt(BaseException):
    """Raised to abandon an item without a result, which is not an error of the item. Stages must not catch it."""


class UndeclaredArtifact(KareninaError):
    """Raised when a stage accesses an artifact, or offers a known value, that it has not declared."""

    def __init__(self, stage: str, name: str, does: str, declare: str, kind: str = "artifact") -> None:
        super().__init__(f"stage {stage} {does} the {kind} {name!r} without declaring it; add it to its {declare}")


class UndeclaredSetting(KareninaError):
    """Raised when a stage reads a setting that it neither owns nor lists in `reads`."""


class MissingArtifact(KareninaError):
    """Raised when a stage reads an artifact that no stage has set."""


class NothingToRevise(KareninaError):
    """Raised when a stage revises an artifact that no stage has produced."""


class ArtifactTypeError(KareninaError):
    """Raised when a stage sets an artifact to a value that does not have the key's type."""


class MissingProduct(KareninaError):
    """Raised when a stage has run without setting all the artifacts declared in its `produces`."""


class ItemTimeout(KareninaError):
    """Raised when an item takes longer than `item_timeout`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the item was not judged because it was not finished within {seconds:g} s (including its answer and "
            "waiting); raise item_timeout, or allow more concurrent calls to its models"
        )


class ConfigError(KareninaError):
    """Raised when a configuration cannot be used. `problems` lists everything that is wrong with it."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StructuredError(Exception):
    """Raised when a judge returns no usable reply in any of its `tries`.

    `last_text` is the last reply, and `usage` contains the tokens of all tries. `complete` states whether the last
    reply contained a complete JSON object, which was rejected; otherwise the JSON was cut off or missing, and the call
    may succeed later. `filtered` states whether the reply was ended by the content filter of the judge's provider.
    """

    def __init__(
        self, message: str, tries: int, usage: Usage, last_text: str, *, complete: bool = True, filtered: bool = False
    ) -> None:
        super().__init__(message)
        self.tries = tries
        self.usage = usage
        self.last_text = last_text
        self.complete = complete
        self.filtered = filtered


def describe_error(error: BaseException, of: object = None) -> str:
    """Return an error as one sentence for a result.

    For Karenina's own errors, only the message is shown. For other errors, the class is included, because their
    messages are often too short to be understood without it. If the traceback passes through the package of the object
    `of`, the file and line in that package are added, except for errors that Karenina's own packages raise on purpose.
    The errors in an exception group are joined.
    """
    from karenina_core.models.ports import PortError
    from karenina_core.text import replace_surrogates

    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe_error(exception, of) for exception in error.exceptions))
    try:
        text = replace_surrogates(str(error))
    except Exception:
        text = "the error message is not available"
    if text and isinstance(error, (PortError, StructuredError)):
        return text
    if text and isinstance(error, KareninaError):
        return text if type(of).__module__.startswith("karenina_") else text + _describe_place(error, of)
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__) + _describe_place(error, of)


def _describe_place(error: BaseException, of: object) -> str:
    """Return ` (FILE:LINE)` for the innermost traceback frame in the package of `of`, or an empty string."""
    package, place = type(of).__module__.partition(".")[0], ""
    for frame, number in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] == package:
            file = Path(frame.f_code.co_filename)
            place = f" ({'/'.join(file.parts[-1 - module.count('.') - (file.stem == '__init__') :])}:{number})"
    return place


def type_and_message(error: BaseException) -> str:
    """Return the type of an error and, if it has one, its message."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
