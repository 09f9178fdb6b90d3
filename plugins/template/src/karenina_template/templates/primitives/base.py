"""`Primitive`: how one field's extracted value is compared with the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import BaseModel, ConfigDict

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig


class Primitive(BaseModel):
    """One way of comparing. Immutable; its parameters are its pydantic fields; it never asks a model.

    A primitive either compares the value that the judge extracted with the truth (`check`, and `score` for partial
    credit), or, where `reads_trace` is set, looks at the raw response itself (`check_trace`) and needs no judge.

    What the judge extracted never makes `check` or `score` raise: a value of the wrong type fails. A truth of the wrong
    type is the author's mistake: ValueError, which `check_expected` raises when the template is built. Wherever a value
    is an enum's member, its value counts.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    reads_trace: ClassVar[bool] = False
    is_slow: ClassVar[bool] = False
    """Whether a comparison may take more than some milliseconds: then it is made in a thread, and others go on."""

    def check(self, extracted: object, expected: object) -> bool:
        """Return whether `extracted` passes for `expected`. None (the judge found nothing) never passes."""
        raise TypeError(f"{type(self).__name__} does not compare values; it reads the response")

    def score(self, extracted: object, expected: object) -> float:
        """Return the credit for `extracted`, 0 to 1; 1 and 0 for what passes and fails, unless the primitive grades."""
        return 1.0 if self.check(extracted, expected) else 0.0

    def check_trace(self, text: str) -> bool:
        """Return whether the raw response `text` has what the primitive looks for."""
        raise TypeError(f"{type(self).__name__} compares values; it does not read the response")

    def check_expected(self, expected: object) -> None:
        """Raise ValueError where `expected` cannot be the truth of this primitive. Most that ignore it accept all."""

    def before_run(self, config: VerificationConfig) -> None:
        """Raise RuntimeError, with what to do about it, where the checks of a run under `config` could not work.

        Asked once for each primitive of a run, before anything is paid for. Most need nothing.
        """

    def to_json(self) -> dict[str, Any]:
        """Return the primitive as JSON: `{"type": name, ...parameters}`. `primitive_from_json` is the inverse."""
        return {"type": type(self).__name__, **self.model_dump(mode="json")}

    def _wrong_truth(self, needed: str, expected: object) -> ValueError:
        return ValueError(f"{type(self).__name__} needs {needed} as ground truth, not {expected!r:.200}")
