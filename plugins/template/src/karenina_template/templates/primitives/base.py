"""The base class of primitives, which compare a field with its ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field

from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.namespaces import namespace_of
from karenina_template.templates.primitives.values import stands_in

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

_LONGEST_REASON: Final = 2_000


@dataclass(frozen=True, slots=True)
class Undecided:
    """The result of a primitive that cannot decide. `why` is the reason, such as "01/02/2024 can be two dates".

    `bool()` raises `TypeError`, so that an undecided result never counts as wrong by accident. `why` is limited to
    2,000 characters.
    """

    why: str

    def __post_init__(self) -> None:
        why = str(self.why)
        if len(why) > _LONGEST_REASON:
            note = f" ... (truncated from {len(why):,} characters)"
            why = why[: _LONGEST_REASON - len(note)] + note
        object.__setattr__(self, "why", why)

    def __bool__(self) -> NoReturn:
        raise TypeError(f"{self!r} is neither true nor false; compare it with `is True`, or use isinstance")


@dataclass(frozen=True, slots=True)
class Unreadable(Undecided):
    """The result for a value that the primitive cannot read at all, such as "a low dose" instead of a quantity.

    `ReadingPrimitive` decides whether such a value counts as wrong.
    """


class Primitive(BaseModel):
    """Compares the value that the judge extracted with the ground truth, without calling a model.

    Parameters are pydantic fields, and primitives are immutable. Implement `check`, and `score` for partial credit. If
    you set `reads_trace`, implement `check_trace` for the raw response instead. No judge is needed then.

    `check` and `score` must not raise an exception because of an extracted value. A value of the wrong type simply
    fails. A ground truth of the wrong type is a mistake in the template, so `check_expected` should raise `ValueError`.
    Enum members are compared by their values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads_trace: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False
    """Whether comparisons may take more than a few milliseconds, so that they have to run in a thread."""
    needs_model: ClassVar[bool] = False
    """Whether comparisons need a model, so that `karenina check` does not try them."""
    field_type: ClassVar[str | None] = None
    """The `type` used in files for text fields that this primitive compares, such as "quantity", or None."""

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether `extracted` passes for the ground truth `expected`, or `Undecided` if this is unclear, for
        example if a date can be read in two ways. None never passes. Raises `ValueError` if `expected` is not a valid
        ground truth.

        An undecided item is not judged, and counts as wrong in the lower pass rate. Raises `TypeError` if the primitive
        reads the raw response.
        """
        raise TypeError(f"{type(self).__name__} does not compare values; it reads the response")

    def check_extracted(self, extracted: object, expected: object, response: str) -> bool | Undecided:
        """Return the result of `check` for a value that a judge extracted from the raw `response`, which the default
        implementation ignores. Verification calls this method. `response` is empty if the value comes from somewhere
        else.
        """
        return self.check(extracted, expected)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit for `extracted` from 0 to 1. By default, it is 1 for a pass and 0 for a failure. This is
        not called if `check` returns `Undecided`.
        """
        return 1.0 if self.check(extracted, expected) is True else 0.0

    def check_trace(self, text: str) -> bool | Undecided:
        """Return whether the raw response passes, or `Undecided` if this is unclear. Raises `TypeError` if the
        primitive does not read the raw response.
        """
        raise TypeError(f"{type(self).__name__} compares values; it does not read the response")

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` if `expected` is not a valid ground truth. By default, any value is valid."""

    def check_files(self, expected: object) -> None:
        """Raise `ValueError` if a file that the primitive reads is missing, or does not fit the ground truth. Does
        nothing by default.

        Called by `karenina check` and before a run for each field, but not when a template is loaded, because then the
        file may not be there, or the user may not trust its path. Use `find_file` for the path.
        """

    def accept(self, expected: object) -> object:
        """Return a value that passes for `expected`, which is `expected` itself by default. Override this if the ground
        truth itself does not pass, such as an excluded bound. `karenina check` uses it.
        """
        return expected

    def mutate(self, expected: object) -> object:
        """Return a wrong value of the same kind as `expected`, or None (the default) if there is none, for `karenina
        check`, which reports templates that accept it. Must not raise an exception for a valid ground truth.

        The value must be outside every tolerance. If this returns None, the field is listed as one that cannot be
        checked.
        """
        return None

    def before_run(self, config: VerificationConfig) -> None:
        """Raise `RuntimeError` with a fix if the primitive cannot work with `config`. Does nothing by default.

        This is called before a run, once for each distinct primitive.
        """

    @classmethod
    def full_name(cls) -> str:
        """Return the name used in files: the class name, with the package for third parties (`my_package.Close`)."""
        return namespace_of(cls) + cls.__name__

    def to_json(self) -> dict[str, Any]:
        """Convert the primitive to JSON: `{"type": name, ...parameters}`. Use `primitive_from_json` to read it."""
        return {"type": self.full_name(), **self.model_dump(mode="json")}

    def _wrong_truth(self, needed: str, expected: object) -> ValueError:
        """Return the error for an invalid ground truth. `needed` describes what would be valid."""
        return ValueError(f"{type(self).__name__} requires {needed} as the ground truth, not {expected!r:.200}")


class ReadingPrimitive(Primitive, defer_build=True):
    """Base class of primitives that read a value from text. `check` returns `Unreadable` if this fails.

    `unreadable` sets whether an unreadable value counts as wrong. A value that does not occur in the response never
    does, because the judge made it up.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    unreadable: Literal["not_judged", "wrong"] = Field(
        default="not_judged",
        description="What a value means that is in the response but cannot be read: the item is not judged, or is "
        "wrong.",
        json_schema_extra={"allowed_in_files": "any"},
    )

    def check_extracted(self, extracted: object, expected: object, response: str) -> bool | Undecided:
        """Return the result of `check`, but False instead of `Unreadable` if `unreadable` is "wrong" and the value
        occurs in `response`.
        """
        result = self.check(extracted, expected)
        if isinstance(result, Unreadable) and self.unreadable == "wrong" and stands_in(extracted, response):
            return False
        return result
