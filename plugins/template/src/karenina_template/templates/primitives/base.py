"""`Primitive`, the base class of all comparisons of a field with its ground truth."""

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
    """The result of a primitive that cannot decide, with the reason `why`, such as "01/02/2024 can be two dates".

    It is neither true nor false: `bool()` raises `TypeError` for it, so that it never counts as wrong by accident.
    `why` is converted to a string and cut to 2,000 characters.
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
    """The result for a value that the primitive cannot read at all, such as "a low dose" where a quantity is needed.

    `ReadingPrimitive` decides whether such a value counts as wrong.
    """


class Primitive(BaseModel):
    """An immutable comparison that never calls a model. Its parameters are pydantic fields.

    A primitive compares the value that the judge extracted with the ground truth (`check`, and `score` for partial
    credit). If `reads_trace` is set, it checks the raw response instead (`check_trace`) and needs no judge.

    `check` and `score` never raise an exception because of an extracted value: a value of the wrong type fails. A
    ground truth of the wrong type is the author's mistake, and `check_expected` raises `ValueError` for it when the
    template is built. Enum members are compared by their values.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads_trace: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False
    """Whether a comparison may take longer than a few milliseconds, so that it must run in a thread."""

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether `extracted` passes for the ground truth `expected`. None (nothing was extracted) never
        passes.

        Return `Undecided` if `extracted` alone does not settle this, such as a date that can be read as two dates. An
        item that has no verdict for this reason is not judged, and counts as wrong in the lower pass rate. Raises
        `ValueError` if `expected` is not a valid ground truth, and `TypeError` if the primitive reads the raw response.
        """
        raise TypeError(f"{type(self).__name__} does not compare values; it reads the response")

    def check_extracted(self, extracted: object, expected: object, response: str) -> bool | Undecided:
        """Return the result of `check` for a value that a judge extracted from the raw `response`.

        Verification calls this method. By default, the response makes no difference. `response` is empty if the value
        comes from elsewhere.
        """
        return self.check(extracted, expected)

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit for `extracted`, from 0 to 1; by default, 1 if it passes and 0 if not.

        Not called if `check` returns `Undecided` for the value.
        """
        return 1.0 if self.check(extracted, expected) is True else 0.0

    def check_trace(self, text: str) -> bool | Undecided:
        """Return whether the raw response `text` passes, or `Undecided`, as in `check`.

        Raises `TypeError` if the primitive does not read the raw response.
        """
        raise TypeError(f"{type(self).__name__} compares values; it does not read the response")

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` if `expected` is not a valid ground truth. By default, accept any ground truth."""

    def accept(self, expected: object) -> object:
        """Return a value that a judge may extract and that passes for `expected`;
        by default, this is `expected` itself.

        Override this if the ground truth itself does not pass, such as an excluded bound. Used by `karenina check`.
        """
        return expected

    def mutate(self, expected: object) -> object:
        """Return a wrong value of the same kind as the ground truth `expected`.

        It must be outside every tolerance and not pass. `karenina check` reports templates that accept this value.
        None, the default, means that there is no such value, and the field is listed as one that cannot be checked.
        Must not raise an exception for a valid ground truth.
        """
        return None

    def before_run(self, config: VerificationConfig) -> None:
        """Raise `RuntimeError`, explaining how to fix the problem,
        if the primitive cannot work with this configuration.

        Called once for each different primitive in a run, before any call to a model. Does nothing by default.
        """

    @classmethod
    def full_name(cls) -> str:
        """Return the name used in files: the class name, preceded by the package
        for third parties (`my_package.Close`).
        """
        return namespace_of(cls) + cls.__name__

    def to_json(self) -> dict[str, Any]:
        """Return the primitive as JSON: `{"type": name, ...parameters}`. `primitive_from_json` reads this form."""
        return {"type": self.full_name(), **self.model_dump(mode="json")}

    def _wrong_truth(self, needed: str, expected: object) -> ValueError:
        """Return (but do not raise) the error for an invalid ground truth. `needed` describes a valid ground truth."""
        return ValueError(f"{type(self).__name__} requires {needed} as the ground truth, not {expected!r:.200}")


class ReadingPrimitive(Primitive, defer_build=True):
    """The base class of primitives that read a value from text. `check` returns `Unreadable` if it cannot.

    `unreadable` says whether an unreadable value counts as wrong. It never does if it is not in the response, because
    then the judge made it up.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    unreadable: Literal["not_judged", "wrong"] = Field(
        default="not_judged",
        description="What a value means that is in the response but cannot be read: the item is not judged, or is "
        "wrong.",
    )

    def check_extracted(self, extracted: object, expected: object, response: str) -> bool | Undecided:
        """Return the result of `check`, or False for an unreadable value in the `response` if the rule says so."""
        result = self.check(extracted, expected)
        if isinstance(result, Unreadable) and self.unreadable == "wrong" and stands_in(extracted, response):
            return False
        return result
