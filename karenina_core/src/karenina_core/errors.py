"""Errors that a stage author or a user of the core can meet. Each message says what, where and what to do."""

from __future__ import annotations

from pathlib import Path
from traceback import walk_tb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage


class KareninaError(Exception):
    """The base of the core's own errors."""


class PluginError(KareninaError):
    """Something that the configuration needs comes from a plugin that cannot be used."""


class RunError(KareninaError):
    """An error that ends the whole run, and not one item: a stage lets it pass."""


class ItemInterrupt(BaseException):
    """What leaves an item without a result and is no error of it: stages let it pass, and the run knows what it is."""


class UndeclaredArtifact(KareninaError):
    """A stage touched an artifact that it did not declare."""

    def __init__(self, stage: str, artifact: str, does: str, declare: str) -> None:
        super().__init__(
            f"stage {stage} {does} the artifact {artifact!r} without declaring it: add the key to its {declare}"
        )
        self.stage = stage
        self.artifact = artifact


class UndeclaredSetting(KareninaError):
    """A stage read a configuration name that it neither owns nor lists in `reads`."""


class MissingArtifact(KareninaError):
    """A stage asked for an artifact that nobody has set."""


class NothingToRevise(KareninaError):
    """A stage revised an artifact that nobody has produced."""


class ArtifactTypeError(KareninaError):
    """A stage set an artifact to a value of another type than its key says."""

    def __init__(self, stage: str, distribution: str, artifact: str, wanted: str, got: str) -> None:
        super().__init__(
            f"stage {stage} of {distribution} set the artifact {artifact!r} to a {got}; its key says {wanted}"
        )
        self.stage = stage
        self.artifact = artifact


class MissingProduct(KareninaError):
    """A stage ran and left out artifacts that it declares to produce."""

    def __init__(self, stage: str, artifacts: list[str], distribution: str) -> None:
        super().__init__(
            f"stage {stage} of {distribution} ran without setting {', '.join(artifacts)}; a stage that runs sets all "
            "that it produces, to None where there is nothing"
        )
        self.stage = stage
        self.artifacts = artifacts


class ItemTimeout(KareninaError):
    """An item that took longer than it may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the item was not done after {seconds:g} s, its answer and all waiting included; it is not judged: raise "
            "item_timeout, or give its models more calls at once"
        )
        self.seconds = seconds


class ConfigError(KareninaError):
    """A configuration that cannot be used; all problems of it at once."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class StructuredError(Exception):
    """A judge that gave no usable reply in all its tries: the last one is in `last_text`, the cost in `usage`.

    `complete` says whether that one held a whole JSON object, which was not accepted. Else it was cut off or none at
    all, and the same call may bring another.
    """

    def __init__(self, message: str, tries: int, usage: Usage, last_text: str, *, complete: bool = True) -> None:
        super().__init__(message)
        self.tries = tries
        self.usage = usage
        self.last_text = last_text
        self.complete = complete


def describe_error(error: BaseException, of: object = None) -> str:
    """What an error says, in one sentence that may stand in a result.

    One of Karenina's own says all that there is to know; before that of others stands its class, because they are often
    too short to be told. The line of the package of the object `of` that raised it is added, except for errors that
    Karenina's own packages raise on purpose. Of a group it is what its parts say.
    """
    from karenina_core.models.ports import PortError
    from karenina_core.text import replace_surrogates

    if isinstance(error, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(describe_error(one, of) for one in error.exceptions))
    try:
        text = replace_surrogates(str(error))
    except Exception:
        text = "its text cannot be had"
    if text and isinstance(error, (PortError, StructuredError)):
        return text
    if text and isinstance(error, KareninaError):
        return text if type(of).__module__.startswith("karenina_") else text + _line(error, of)
    return (f"{type(error).__name__}: {text}" if text else type(error).__name__) + _line(error, of)


def _line(error: BaseException, of: object) -> str:
    package, found = type(of).__module__.partition(".")[0], ""
    for frame, number in walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] == package:
            file = Path(frame.f_code.co_filename)
            found = f" ({'/'.join(file.parts[-1 - module.count('.') - (file.stem == '__init__') :])}:{number})"
    return found


def type_and_message(error: BaseException) -> str:
    """Return an error as a failure shows it: its type, and its message if it has one."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
