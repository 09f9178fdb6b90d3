"""`Outcome`: the classification of every item."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, Self

OutcomeGroup = Literal["right", "partial", "wrong", "failed", "scored", "not_judged", "undecided"]
"""The groups in which outcomes are counted. `failed` means not correct for a reason other than the field values."""


class Outcome(StrEnum):
    """The outcome of an item. Every item has exactly one, set in `karenina_core.stages.finalize.outcome`."""

    _value_: str
    group: OutcomeGroup
    """The group in which reports and statistics count the outcome."""
    judged: bool
    """Whether the item was judged. This is false for errors and undecided items."""
    has_verdict: bool
    """Whether the item counts towards a pass rate, which means that it was judged and not just scored."""

    def __new__(cls, value: str, group: OutcomeGroup = "not_judged") -> Self:
        """Create a member. `Outcome(value)` looks up a member by its value alone."""
        outcome = str.__new__(cls, value)
        outcome._value_, outcome.group = value, group
        outcome.judged = group not in ("not_judged", "undecided")
        outcome.has_verdict = outcome.judged and group != "scored"
        return outcome

    CORRECT = "correct", "right"
    """Everything that the template verifies is correct."""
    PARTIAL = "partial", "partial"
    """Not correct, but with a granular result above 0."""
    WRONG = "wrong", "wrong"
    """Judged and not correct."""
    TRUNCATED = "truncated", "failed"
    """Not correct, and the answer was cut off at its token limit."""
    ABSTAINED = "abstained", "failed"
    """The model refused to answer."""
    INSUFFICIENT = "insufficient", "failed"
    """The answer lacks information that the template needs."""
    AUTO_FAILED = "auto_failed", "failed"
    """A guard or rule failed the item."""
    SCORED = "scored", "scored"
    """The item has rubric scores but no verdict."""
    TEMPLATE_ERROR = "template_error", "not_judged"
    """Not judged: the template is invalid."""
    MODEL_ERROR = "model_error", "not_judged"
    """Not judged: the answering model could not be reached or sent an empty reply."""
    PARSE_ERROR = "parse_error", "not_judged"
    """Not judged: the judge failed."""
    STAGE_ERROR = "stage_error", "not_judged"
    """Not judged: another stage failed."""
    TIMED_OUT = "timed_out", "not_judged"
    """Not judged: the item took longer than `item_timeout`, in any stage."""
    RUBRIC_ERROR = "rubric_error", "not_judged"
    """Not judged: a rubric trait could not be scored, and there is no verdict. Other traits keep their scores."""
    UNDECIDED = "undecided", "undecided"
    """Not judged: a value in the answer, such as an ambiguous date, cannot be compared with the ground truth."""

    @property
    def unjudgeable(self) -> bool:
        """Whether no judge could have judged the item, because the answer, a valid template or time was missing."""
        return self in (Outcome.MODEL_ERROR, Outcome.TEMPLATE_ERROR, Outcome.TIMED_OUT)

    @property
    def passes(self) -> bool:
        """Whether a test of the item passes. Items that were only scored pass too."""
        return self.group in ("right", "scored")
