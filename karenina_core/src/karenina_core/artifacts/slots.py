"""The thirteen slots. Their rules are in `planning.selection`, so that listing plugins imports no artifacts."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal

EvaluationMode = Literal["template_only", "template_and_rubric", "rubric_only"]


class Slot(Enum):
    """The slots of the pipeline, in the reference order. The value is the rank, which only breaks ties in the plan."""

    VALIDATE_TEMPLATE = 1
    GENERATE_ANSWER = 2
    RECURSION_LIMIT_AUTO_FAIL = 3
    TRACE_VALIDATION_AUTO_FAIL = 4
    ABSTENTION_CHECK = 5
    SUFFICIENCY_CHECK = 6
    PARSE_TEMPLATE = 7
    VERIFY_TEMPLATE = 8
    EMBEDDING_CHECK = 9
    DEEP_JUDGMENT_AUTO_FAIL = 10
    RUBRIC_EVALUATION = 11
    DEEP_JUDGMENT_RUBRIC_AUTO_FAIL = 12
    FINALIZE_RESULT = 13

    @property
    def config_name(self) -> str:
        """The slot's name in the `[slots]` table of a configuration, such as `parse_template`."""
        return self.name.lower()

    @property
    def hook(self) -> str:
        """The name of the hook through which plugins offer stages for this slot."""
        return f"karenina_{self.config_name}"


STAGE_HOOKS: Final[dict[str, Slot | None]] = {**{slot.hook: slot for slot in Slot}, "karenina_extra_stages": None}


def find_slot(name: str) -> Slot | None:
    """Return the slot with this configuration name; None if there is none."""
    return Slot.__members__.get(name.upper())
