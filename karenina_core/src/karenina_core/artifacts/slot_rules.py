"""The rules of the slots: the modes in which they exist, how many stages they take, and what these create."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from karenina_core.artifacts.artifact import AnyKey
from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.artifacts.slots import EvaluationMode, Slot


@dataclass(frozen=True, slots=True)
class SlotRule:
    """The requirements of the plan on one slot.

    - `modes`: the evaluation modes in which the slot exists.
    - `single`: whether it takes exactly one stage; other slots take any number.
    - `produces`: the artifacts that a stage of the slot must create.
    - `scores_rubric`: whether every rubric trait of a question needs a stage in the slot that scores it.
    """

    modes: frozenset[EvaluationMode]
    single: bool = False
    produces: frozenset[AnyKey] = frozenset()
    scores_rubric: bool = False


_ALL: Final[frozenset[EvaluationMode]] = frozenset({"template_only", "template_and_rubric", "rubric_only"})
_TEMPLATE: Final[frozenset[EvaluationMode]] = frozenset({"template_only", "template_and_rubric"})
_RUBRIC: Final[frozenset[EvaluationMode]] = frozenset({"template_and_rubric", "rubric_only"})

SLOT_RULES: Final[dict[Slot, SlotRule]] = {
    Slot.VALIDATE_TEMPLATE: SlotRule(
        _TEMPLATE, single=True, produces=frozenset({Keys.RAW_ANSWER_CLASS, Keys.ANSWER_CLASS})
    ),
    Slot.GENERATE_ANSWER: SlotRule(_ALL, single=True, produces=frozenset({Keys.RAW_LLM_RESPONSE})),
    Slot.RECURSION_LIMIT_AUTO_FAIL: SlotRule(_ALL),
    Slot.TRACE_VALIDATION_AUTO_FAIL: SlotRule(_ALL),
    Slot.ABSTENTION_CHECK: SlotRule(_ALL),
    Slot.SUFFICIENCY_CHECK: SlotRule(_TEMPLATE),
    Slot.PARSE_TEMPLATE: SlotRule(_TEMPLATE, single=True, produces=frozenset({Keys.PARSED_ANSWER})),
    Slot.VERIFY_TEMPLATE: SlotRule(_TEMPLATE, single=True, produces=frozenset({Keys.FIELD_VERIFICATION_RESULT})),
    Slot.EMBEDDING_CHECK: SlotRule(_TEMPLATE),
    Slot.DEEP_JUDGMENT_AUTO_FAIL: SlotRule(_TEMPLATE),
    Slot.RUBRIC_EVALUATION: SlotRule(_RUBRIC, scores_rubric=True),
    Slot.DEEP_JUDGMENT_RUBRIC_AUTO_FAIL: SlotRule(_RUBRIC),
    Slot.FINALIZE_RESULT: SlotRule(_ALL, single=True),
}
