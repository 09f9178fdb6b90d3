"""The thirteen slots. Their rules are in `slot_rules`, so that plugins can be listed without importing artifacts."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Literal

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
