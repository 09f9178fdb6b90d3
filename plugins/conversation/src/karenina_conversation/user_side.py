"""The user's side of a conversation: `UserSide`, which supplies the next message, and `Script`, the one in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from karenina_core.errors import describe_error
from karenina_template.templates.primitives import Undecided
from karenina_toolkit.answer_values import plain_tool_name
from karenina_toolkit.conversations import ConversationTurn, assumed_longest

if TYPE_CHECKING:
    from karenina_conversation.fields import Condition, Entry
    from karenina_core.models.attachments import Attachment
    from karenina_toolkit.conversations import EndReason


class NextTurn(NamedTuple):
    """What the user says next, with its attachments, and the number and id of the turn."""

    said: str
    number: int
    id: str | None = None
    attachments: tuple[Attachment, ...] = ()


class End(NamedTuple):
    """Why the user says nothing more."""

    why: EndReason


class UserSide(Protocol):
    """What the user says in one conversation. There is an object for each conversation."""

    async def next_turn(self, history: Sequence[ConversationTurn]) -> NextTurn | End:
        """Return the next message, or why there is none, given the turns that took place so far (at least one)."""

    def not_taken(self, taken: Sequence[ConversationTurn]) -> Sequence[ConversationTurn]:
        """Return the turns that did not take place in the end, each with whether it was left out."""


class NoNextTurn(ValueError):
    """Raised when the user's side cannot go on. The conversation is not judged."""


class ConditionUndecided(NoNextTurn):
    """Raised when a condition of a script cannot be decided."""


@dataclass(slots=True)
class Script:
    """The `turns` of a question. If answers are `recorded`, an estimate assumes nothing about them."""

    entries: Sequence[Entry]
    recorded: bool = False
    _at: int = 0
    _number: int = 1
    _left_out: set[int] = field(default_factory=set)

    async def next_turn(self, history: Sequence[ConversationTurn]) -> NextTurn | End:
        """Return the next message of the script whose condition holds for the last turn in `history`, or the end, and
        advance the script past it. Raises `ConditionUndecided` if a primitive cannot decide.
        """
        return self.advance(history[-1])

    def advance(self, last: ConversationTurn) -> NextTurn | End:
        """Return the next message of the script after the turn `last` whose condition holds, or the end. Unlike
        `next_turn`, this is not a coroutine and needs only the last turn. Raises `ConditionUndecided` if a condition
        cannot be decided.
        """
        while self._at < len(self.entries):
            entry = self.entries[self._at]
            self._at += 1
            if entry.end is not None:
                if self._holds(entry.end, last, goes_on=False):
                    left = sum(entry.say is not None for entry in self.entries[self._at :])
                    self._left_out.update(range(self._number + 1, self._number + 1 + left))
                    return End("end")
                continue
            self._number += 1
            if entry.when is None or self._holds(entry.when, last, goes_on=True):
                assert entry.say is not None
                return NextTurn(entry.say, self._number, entry.id, entry.attachments)
            self._left_out.add(self._number)
        return End("script")

    def _holds(self, condition: Condition, last: ConversationTurn, *, goes_on: bool) -> bool:
        """Return whether a condition holds. In an estimate, it is assumed; `goes_on` is whether it adds a turn."""
        longest = None if self.recorded else assumed_longest()
        return holds(condition, last) if longest is None else longest is goes_on

    def not_taken(self, taken: Sequence[ConversationTurn]) -> Sequence[ConversationTurn]:
        """Return the script's turns that are not in `taken`: those that a condition left out, and those not reached."""
        numbers = {turn.number for turn in taken}
        says = [entry for entry in self.entries if entry.say is not None]
        return [
            ConversationTurn(number, entry.id, left_out=number in self._left_out)
            for number, entry in enumerate(says, 2)
            if number not in numbers
        ]


def holds(condition: Condition, last: ConversationTurn) -> bool:
    """Return whether a condition holds for what the model did in its last turn. Raises `ConditionUndecided` if the
    primitive cannot decide or fails. A text is compared with the turn's answer, which is empty if there is none.
    """
    tool = condition.not_tool if condition.tool is None else condition.tool
    if tool is not None:
        called = [call.name for message in last.trace for call in message.tool_calls]
        return (tool in called or tool in map(plain_tool_name, called)) is (condition.tool is not None)
    primitive, text = condition.not_said if condition.said is None else condition.said, last.final or ""
    assert primitive is not None
    where = f"the condition {primitive!r} on turn {last.number}"
    try:
        answer = primitive.check_trace(text) if primitive.reads_trace else primitive.check(text, None)
    except Exception as error:
        raise ConditionUndecided(f"{where} failed: {describe_error(error, primitive)}") from error
    if isinstance(answer, Undecided):
        raise ConditionUndecided(f"{where} cannot be decided: {answer.why}")
    return bool(answer) is (condition.said is not None)
