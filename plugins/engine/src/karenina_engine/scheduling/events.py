"""What observers are told."""

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
    """A run begins: how many items it has, and under which configuration."""

    items: int
    config: VerificationConfig


@dataclass(frozen=True, slots=True)
class RunFinished:
    """A run is over. `interrupted` where it was stopped before its last item, and `stopped` why, where it is known."""

    summary: Summary
    seconds: float
    interrupted: bool = False
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """A model is about to be asked for one answer. The item has no judge."""

    item: Item


@dataclass(frozen=True, slots=True)
class ItemStarted:
    """One answer before one judge begins."""

    item: Item


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage executes for an item (an answer's has no judge)."""

    stage: str
    item: Item


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A model is about to be called: which, for what, and with which messages."""

    call: Call
