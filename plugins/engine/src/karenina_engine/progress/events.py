"""The events that observers receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.stages.context import Item
    from karenina_engine.calls.call import Call
    from karenina_engine.results.aggregate import Summary


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The start of a run with this number of items, under this configuration."""

    items: int
    config: VerificationConfig


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The end of a run. `interrupted`: it was stopped before its last item; `stopped`: the reason, if known."""

    summary: Summary
    seconds: float
    interrupted: bool = False
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The start of one answer, before the model is called. The item has no judge."""

    item: Item


@dataclass(frozen=True, slots=True)
class ItemStarted:
    """The start of an item: the evaluation of one answer by one judge."""

    item: Item


@dataclass(frozen=True, slots=True)
class StageStarted:
    """The start of a stage for an item (the item of an answer stage has no judge)."""

    stage: str
    item: Item


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The start of a call: its model, its purpose and its messages."""

    call: Call
