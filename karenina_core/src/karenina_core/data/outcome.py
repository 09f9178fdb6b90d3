"""`Outcome`: the classification of every item."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """The outcome of an item. Every item has exactly one; `karenina_core.stages.finalize.outcome` has the rule."""

    CORRECT = "correct"
    """Everything that the template verifies is correct."""
    PARTIAL = "partial"
    """Not correct, with a granular result above 0."""
    WRONG = "wrong"
    """Judged, and not correct."""
    TRUNCATED = "truncated"
    """Not correct, and the answer was cut off at its token limit."""
    ABSTAINED = "abstained"
    """The model refused to answer."""
    INSUFFICIENT = "insufficient"
    """The answer lacks what the template needs."""
    AUTO_FAILED = "auto_failed"
    """A guard or rule failed the item."""
    SCORED = "scored"
    """Has rubric scores and no verdict."""
    TEMPLATE_ERROR = "template_error"
    """Not judged: the template is invalid."""
    MODEL_ERROR = "model_error"
    """Not judged: the answering model could not be reached or sent an empty reply."""
    PARSE_ERROR = "parse_error"
    """Not judged: the judge failed."""
    STAGE_ERROR = "stage_error"
    """Not judged: another stage failed."""
    TIMED_OUT = "timed_out"
    """Not judged: the item took longer than `item_timeout`, in any stage."""
    RUBRIC_ERROR = "rubric_error"
    """Not judged: a rubric trait could not be scored, and there is no verdict. Other traits keep their scores."""
    UNDECIDED = "undecided"
    """Not judged: what the answer says cannot be compared with the truth, such as a date that can be two dates."""

    @property
    def judged(self) -> bool:
        """Whether the item was judged; items with errors, and undecided ones, were not."""
        return self not in NOT_JUDGED

    @property
    def has_verdict(self) -> bool:
        """Whether the item counts in a pass rate: it was judged, and not only scored."""
        return self not in NO_VERDICT


NOT_JUDGED: Final = frozenset(
    {
        Outcome.TEMPLATE_ERROR,
        Outcome.MODEL_ERROR,
        Outcome.PARSE_ERROR,
        Outcome.STAGE_ERROR,
        Outcome.TIMED_OUT,
        Outcome.RUBRIC_ERROR,
        Outcome.UNDECIDED,
    }
)
NO_VERDICT: Final = NOT_JUDGED | {Outcome.SCORED}
