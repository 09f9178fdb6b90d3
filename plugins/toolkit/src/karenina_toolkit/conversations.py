"""Conversations of several turns, as stages pass them on: `CONVERSATION`, and which turn a field or trait reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from karenina_core.artifacts.artifact import ArtifactKey
from karenina_core.models.ports import Message

EndReason = Literal["script", "goal", "gave_up", "end", "limit"]
"""Why a conversation ended: the script was over, the user reached the goal or gave up, an `end` held, or it became too
long (`max_turns`)."""


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """A message of the user and the model's reply.

    `number` counts all messages of a script, left out or not, from 1 (the question); `id` is a name for it. `said` is
    the message, or None for a turn that did not take place: because of a `when` or `end` (`left_out`), or because the
    conversation broke off. `trace` contains the messages of the model and its tools, and `final` the text of the last
    of them, if it is an answer.
    """

    number: int
    id: str | None = None
    said: str | None = None
    trace: tuple[Message, ...] = ()
    final: str | None = None
    left_out: bool = False

    @property
    def text(self) -> str:
        """The text of the assistant in this turn, without tool calls and results."""
        said = [message.content for message in self.trace if message.role == "assistant" and message.content]
        return "\n\n".join(said)


@dataclass(frozen=True, slots=True)
class Conversation:
    """The turns of a conversation in order, with those that did not take place, and why it `ended`."""

    turns: tuple[ConversationTurn, ...]
    ended: EndReason = "script"

    @property
    def taken(self) -> tuple[ConversationTurn, ...]:
        """The turns that took place."""
        return tuple(turn for turn in self.turns if turn.said is not None)

    def find(self, turn: int | str) -> ConversationTurn | None:
        """Return the turn with a number or id, or the last that took place for "last", or None if there is none."""
        if turn == "last":
            return self.taken[-1]
        return next((one for one in self.turns if turn in (one.number, one.id)), None)

    def to_json(self) -> dict[str, Any]:
        """Return the result field: why the conversation ended, and the number, id and state of each turn."""
        return {"ended": self.ended, "turns": [_describe(turn) for turn in self.turns]}


def _describe(turn: ConversationTurn) -> dict[str, Any]:
    """Return a turn's number, id and state; what was said is in the trace."""
    state = "taken" if turn.said is not None else "left_out" if turn.left_out else "missing"
    return {"turn": turn.number, **({"id": turn.id} if turn.id else {}), "state": state}


CONVERSATION: Final = ArtifactKey("conversation", Conversation)
"""The conversation of an answer, from `Converse` of karenina-conversation. Questions with one turn have none."""
