"""The thirteen slots, and the table of their rules."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from karenina_core.artifacts.artifact import AnyKey
from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.errors import PluginError

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


def find_slot(name: str) -> Slot | None:
    """Return the slot with this name in configurations; None if there is no such slot."""
    return Slot.__members__.get(name.upper())


def name_of_stage(stage: Any, hook: str, plugin: object) -> str:
    """Return the name of a stage that `plugin` offers through `hook`. Raises `PluginError` if the slot is another."""
    name = getattr(stage, "name", None)
    if name is None:
        raise PluginError(f"{plugin!r} offers {stage!r} through {hook}, but it is not a stage class with a name")
    if stage.slot is not STAGE_HOOKS[hook]:
        home = "karenina_extra_stages" if stage.slot is None else stage.slot.hook
        raise PluginError(f"stage {name} is offered through {hook}, but declares slot = {stage.slot}: use {home}")
    return str(name)
