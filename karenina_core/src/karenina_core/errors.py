"""The core's exceptions. Their messages describe the problem, its location, and how to fix it."""

from __future__ import annotations

from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage


class KareninaError(Exception):
    """Base class for most of the core's exceptions."""


class PluginError(KareninaError):
    """Raised if a plugin required by the configuration cannot be used."""


class RunError(KareninaError):
    """Raised to abort the whole run instead of a single item. Stages must not catch it."""


class ItemInterrupt(BaseException):
    """Raised to abandon an item without a result or an error. Stages must not catch it."""


class UndeclaredArtifact(KareninaError):
    """Raised if a stage accesses an artifact, or offers a known value, that it has not declared."""

    def __init__(self, stage: str, name: str, does: str, declare: str, kind: str = "artifact") -> None:
        super().__init__(f"stage {stage} {does} the {kind} {name!r} without declaring it; add it to its {declare}")


class UndeclaredSetting(KareninaError):
    """Raised if a stage reads a setting that it neither owns nor lists in `reads`."""


class MissingArtifact(KareninaError):
    """Raised if a stage reads an artifact that no stage has set."""


class NothingToRevise(KareninaError):
    """Raised if a stage revises an artifact that no stage has produced."""


class ArtifactTypeError(KareninaError):
    """Raised if a stage sets an artifact, or offers a known value, of the wrong type."""


class MissingProduct(KareninaError):
    """Raised if a stage has not set all artifacts listed in its `produces`."""


class ItemTimeout(KareninaError):
    """Raised if an item takes longer than `item_timeout`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the item was not judged because it was not finished within {seconds:g} s (including its answer and "
            "waiting); raise item_timeout, or allow more concurrent calls to its models"
        )


class ConfigError(KareninaError):
    """Raised if a configuration cannot be used. `problems` lists everything that is wrong with the configuration."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StructuredError(Exception):
    """Raised if a judge gives no usable reply in any of its `tries`.

    `last_text` is the last reply, and `usage` contains the tokens of all tries. `complete` is true if the last reply
    was complete JSON but was rejected. If it is false, another call may succeed. `filtered` is true if the reply was
    ended by the content filter of the judge's provider.
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
    """Describe an error in one sentence for a result: by its message alone if it is one of Karenina's own, otherwise
    with its class, and with file and line if the traceback passes through a third-party plugin or the package of the
    object `of`. The descriptions in an exception group are joined.

    Errors that Karenina raises on purpose are described without file and line.
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
    """Return ` (FILE:LINE)` for the innermost frame in a third-party plugin or in the package of `of`, or an empty
    string.
    """
    from karenina_core.namespaces import third_parties

    packages, place = {type(of).__module__.partition(".")[0], *third_parties()}, ""
    for frame, number in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] in packages:
            file = Path(frame.f_code.co_filename)
            place = f" ({'/'.join(file.parts[-1 - module.count('.') - (file.stem == '__init__') :])}:{number})"
    return place


def type_and_message(error: BaseException) -> str:
    """Return an error's type, its message if there is one, and its place in a third-party plugin if it has one."""
    return (f"{type(error).__name__}: {error}" if str(error) else type(error).__name__) + _describe_place(error, None)
