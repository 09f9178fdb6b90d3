"""Recorded conversations: their turns, and how they differ from the turns in a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from karenina_conversation.user_side import ConditionUndecided, End, Script
from karenina_core.models.ports import AgentReply, CallInfo, ErrorCategory, PortError
from karenina_core.text import compose, did_you_mean
from karenina_toolkit import traces
from karenina_toolkit.answers.model_turn import ModelTurn
from karenina_toolkit.conversations import USER_ENDS, ConversationTurn, split_at_user
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of
from karenina_toolkit.printable import is_blank
from karenina_toolkit.structured.reply_checks import ends_empty

if TYPE_CHECKING:
    from karenina_conversation.fields import QuestionFields
    from karenina_core import Question, VerificationConfig

_NAMED: Final = 3
_ENDS: Final = (None, *USER_ENDS)
"""How a recorded user may have ended. None is unknown."""


def split_recorded(turn: ModelTurn) -> Iterator[tuple[str | None, ModelTurn]]:
    """Yield the turns of a recorded conversation, each with the user's message before it (None for the first). If a
    message of the user follows the last answer, the last turn is empty.

    How the recording ended, and its usage, belong to the last turn with an answer. An earlier turn without an answer
    has an error, as in a run, unless it may have been cut off or its agent may have done its work with tools.
    """
    parts = list(split_at_user(turn.trace))
    last = len(parts) - 1 if parts[-1][1] or len(parts) == 1 else len(parts) - 2
    for at, (said, trace) in enumerate(parts):
        if at == last:
            yield said, replace(turn, trace=trace)
            continue
        error = None
        if (
            trace
            and ends_empty(trace)
            and turn.finish_reason != "length"
            and not any(one.role == "tool" for one in trace)
        ):
            error = PortError(f"the recorded answer in turn {at + 1} is empty", category=ErrorCategory.EMPTY)
        yield said, ModelTurn(trace, is_plain=turn.is_plain, error=error)


def ends_conversation(reply: AgentReply | ModelTurn) -> bool:
    """Return whether a conversation breaks off after a reply: the provider stopped it, or an agent reached a limit."""
    return reply.limit_reached or reply.finish_reason == "content_filter"


def is_same_text(one: str | None, other: str) -> bool:
    """Return whether two messages are equal, ignoring the kind and number of spaces."""
    return one is not None and compose(one).split() == compose(other).split()


def recording_problems(
    config: VerificationConfig, questions: Sequence[tuple[Question, QuestionFields]]
) -> Iterator[str]:
    """Yield messages about models whose recordings do not fit the user's side of the questions. The recorded messages
    of a user must be those of `turns`. A simulated user may have said anything, except an empty message, and must have
    ended in a known way.
    """
    for model in config.core.answering_models:
        find = find_adapter(plugins_of(config), model.interface).spec.recording
        if find is None:
            continue
        scripted: dict[str, str] = {}
        played: dict[str, str] = {}
        ended: dict[str, str] = {}
        for question, fields in questions:
            for replicate in range(1, config.core.replicate_count + 1):
                try:
                    said = find(model, CallInfo(question.id, question.question, replicate))
                except PortError:
                    continue  # reported with the other missing recordings, or a failed call
                if fields.turns and (why := _difference(question, fields, said)):
                    scripted.setdefault(question.id, f"{question.id!r} ({why})")
                elif fields.user is not None and (number := _empty_turn(said)):
                    played.setdefault(question.id, f"{question.id!r} (turn {number})")
                if fields.user is not None and (end := (said.conversation or {}).get("ended")) not in _ENDS:
                    ended.setdefault(question.id, f"{question.id!r} ({end!r}{did_you_mean(str(end), USER_ENDS)})")
        for found, one, several in (
            (scripted, "recorded conversation differs from `turns`", "recorded conversations differ from `turns`"),
            (played, "recorded user sends an empty message", "recorded users send an empty message"),
            (ended, "recorded user ends in an unknown way", "recorded users end in an unknown way"),
        ):
            if found:
                named = ", ".join([*found.values()][:_NAMED])
                more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
                yield f"model {model.id!r}: {len(found)} {one if len(found) == 1 else several}: {named}{more}"


def _difference(question: Question, fields: QuestionFields, said: AgentReply) -> str | None:
    """Return how the user's messages in a recording differ from the question's script, or None if they do not. A
    condition that cannot be decided is not a difference: the run reports it. Neither is the end of a conversation whose
    last answer was refused, or whose agent reached its limit.
    """
    script, number = Script(fields.turns), 1
    parts = list(split_at_user(said.trace))
    for at, (_, trace) in enumerate(parts):
        turn = ConversationTurn(number, said=question.question, trace=trace, final=traces.final_ai_message(trace))
        try:
            following = script.advance(turn)
        except ConditionUndecided:
            return None
        recorded, answer = parts[at + 1] if at + 1 < len(parts) else (None, ())
        if isinstance(following, End):
            return None if recorded is None else f"it has another message of the user after turn {number}"
        number = following.number
        if recorded is None:
            return None if ends_conversation(said) else f"it has no turn {number}"
        if not is_same_text(recorded, following.said):
            return f"turn {number} is another: {recorded[:60]!r}"
        if not answer:
            return f"turn {number} has no answer"
    return None


def _empty_turn(said: AgentReply) -> int | None:
    """Return the first turn of a recording in which the user sends an empty message, or None."""
    turns = enumerate(split_at_user(said.trace), 1)
    return next((at for at, (text, _) in turns if at > 1 and is_blank(text or "")), None)
