"""The thirteen slots, and the table that says what each of them takes and asks for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from karenina_core.artifacts.artifact import AnyKey
from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.errors import PluginError

EvaluationMode = Literal["template_only", "template_and_rubric", "rubric_only"]


class Slot(Enum):
    """The places of the pipeline, in the reference order. The value is the rank, which breaks ties and does no more."""

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
        """The slot as `[slots]` in a configuration names it: `parse_template`."""
        return self.name.lower()

    @property
    def hook(self) -> str:
        """The hook through which stages for this slot are offered."""
        return f"karenina_{self.config_name}"


STAGE_HOOKS: Final[dict[str, Slot | None]] = {**{slot.hook: slot for slot in Slot}, "karenina_extra_stages": None}


@dataclass(frozen=True, slots=True)
class SlotRule:
    """What the plan asks of one slot.

    `single`: it takes exactly one stage, in the evaluation modes in which it exists (`modes`); other slots take any
    number. `produces`: what a stage of it must at least create. `scores_rubric`: it may not stay empty where the
    question has rubric traits, else they would drop out in silence.
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
    """The slot that a configuration calls `name`, or None."""
    return Slot.__members__.get(name.upper())


def name_of_stage(stage: Any, hook: str, plugin: object) -> str:
    """Return the name of a stage that `plugin` offers through `hook`. Raises `PluginError` if it is not its slot's."""
    name = getattr(stage, "name", None)
    if name is None:
        raise PluginError(f"{plugin!r} offers {stage!r} through {hook}, which is no stage with a name")
    if stage.slot is not STAGE_HOOKS[hook]:
        home = "karenina_extra_stages" if stage.slot is None else stage.slot.hook
        raise PluginError(f"stage {name} is offered through {hook}, but says slot = {stage.slot}: use {home}")
    return str(name)
