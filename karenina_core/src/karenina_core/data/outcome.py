"""`Outcome`: the one word in which every item ends."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Outcome(StrEnum):
    """How an item ended. `stages.md`, "Verdict and outcome", has the rule; every item has exactly one."""

    CORRECT = "correct"
    """All that the template asks for is right."""
    PARTIAL = "partial"
    """Not right, with a granular result above 0."""
    WRONG = "wrong"
    """Judged, and not right."""
    TRUNCATED = "truncated"
    """Not right, and the answer was cut off at its token limit."""
    ABSTAINED = "abstained"
    """The model refused."""
    INSUFFICIENT = "insufficient"
    """The answer does not hold what the template asks for."""
    AUTO_FAILED = "auto_failed"
    """A guard or rule failed it."""
    SCORED = "scored"
    """Has rubric scores and no verdict."""
    TEMPLATE_ERROR = "template_error"
    """Not judged: the template is broken."""
    MODEL_ERROR = "model_error"
    """Not judged: the answering model could not be reached or replied nothing."""
    PARSE_ERROR = "parse_error"
    """Not judged: the judge failed."""
    STAGE_ERROR = "stage_error"
    """Not judged: another stage failed."""
    TIMED_OUT = "timed_out"
    """Not judged: the item's time (`item_timeout`) was out, whichever stage was at work, the judge's too."""
    RUBRIC_ERROR = "rubric_error"
    """Not judged: a rubric trait could not be scored, and there is no verdict. The other traits keep their scores."""

    @property
    def judged(self) -> bool:
        """Whether the item was judged at all; the errors were not."""
        return self not in NOT_JUDGED

    @property
    def has_verdict(self) -> bool:
        """Whether the item counts in a pass rate: judged, and not merely scored."""
        return self not in NO_VERDICT


NOT_JUDGED: Final = frozenset(
    {
        Outcome.TEMPLATE_ERROR,
        Outcome.MODEL_ERROR,
        Outcome.PARSE_ERROR,
        Outcome.STAGE_ERROR,
        Outcome.TIMED_OUT,
        Outcome.RUBRIC_ERROR,
    }
)
NO_VERDICT: Final = NOT_JUDGED | {Outcome.SCORED}
