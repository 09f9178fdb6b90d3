"""Recorded conversations: their turns, and how they differ from the turns in a benchmark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from karenina_conversation.user_side import ConditionUndecided, End, Script
from karenina_core.models.ports import CallInfo, Message, PortError
from karenina_core.text import compose
from karenina_toolkit import traces
from karenina_toolkit.answers.model_turn import ModelTurn
from karenina_toolkit.conversations import ConversationTurn, split_at_user
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of

if TYPE_CHECKING:
    from karenina_conversation.fields import QuestionFields
    from karenina_core import Question, VerificationConfig

_NAMED: Final = 3


def split_recorded(turn: ModelTurn) -> Iterator[tuple[str | None, ModelTurn]]:
    """Yield the turns of a recorded conversation, each with the user's message before it (None for the first).

    How the recording ended, and its usage, belong to the last turn.
    """
    parts = list(split_at_user(turn.trace))
    for number, (said, trace) in enumerate(parts, 1):
        last = number == len(parts)
        part = replace(turn, trace=trace) if last else ModelTurn(trace, is_plain=turn.is_plain)
        yield said, part


def is_same_text(one: str | None, other: str) -> bool:
    """Return whether two messages are equal, ignoring the kind and number of spaces."""
    return one is not None and compose(one).split() == compose(other).split()


def recording_problems(
    config: VerificationConfig, questions: Sequence[tuple[Question, QuestionFields]]
) -> Iterator[str]:
    """Yield a message for each model whose recordings have other or fewer messages of the user than `turns`."""
    for model in config.core.answering_models:
        find = find_adapter(plugins_of(config), model.interface).spec.recording
        if find is None:
            continue
        different: dict[str, str] = {}
        for question, fields in questions:
            for replicate in range(1, config.core.replicate_count + 1):
                try:
                    said = find(model, CallInfo(question.id, question.question, replicate))
                except PortError:
                    continue  # reported with the other missing recordings
                why = _difference(question, fields, said)
                if why is not None:
                    different.setdefault(question.id, f"{question.id!r} ({why})")
        if different:
            named = ", ".join([*different.values()][:_NAMED])
            more = f" and {len(different) - _NAMED} more" if len(different) > _NAMED else ""
            noun = "recorded conversation differs" if len(different) == 1 else "recorded conversations differ"
            yield f"model {model.id!r}: {len(different)} {noun} from `turns`: {named}{more}"


def _difference(question: Question, fields: QuestionFields, said: str | Sequence[Message]) -> str | None:
    """Return how a recording differs from the script, or None if it does not.

    A condition that cannot be decided is no difference: the run reports it.
    """
    messages = [Message.assistant(said)] if isinstance(said, str) else list(said)
    while messages and messages[0].role in ("system", "user"):
        messages.pop(0)
    script, number = Script(fields.turns), 1
    parts = list(split_at_user(messages))
    for at, (_, trace) in enumerate(parts):
        turn = ConversationTurn(number, said=question.question, trace=trace, final=traces.final_ai_message(trace))
        try:
            following = script.advance(turn)
        except ConditionUndecided:
            return None
        recorded = parts[at + 1][0] if at + 1 < len(parts) else None
        if isinstance(following, End):
            return None if recorded is None else f"it has another message of the user after turn {number}"
        number = following.number
        if recorded is None:
            return f"it has no turn {number}"
        if not is_same_text(recorded, following.said):
            return f"turn {number} is another: {recorded[:60]!r}"
    return None
