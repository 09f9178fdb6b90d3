"""Conversations for the stage `Converse`: the model under test and the user take turns until one of them ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast
from uuid import uuid4

from karenina_conversation.fields import Entry
from karenina_conversation.recorded import ends_conversation, is_same_text, split_recorded
from karenina_conversation.simulated_user import SimulatedUser, SimulatedUserFailed, refuse_recorded
from karenina_conversation.user_side import End, NextTurn, NoNextTurn, Script, UserSide
from karenina_core import Outcome
from karenina_core.models.attachments import Attachment
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message
from karenina_toolkit.answer_values import uncounted_turns
from karenina_toolkit.answers.model_turn import ModelTurn, first_messages, record_turns, take_turn
from karenina_toolkit.conversations import (
    CONVERSATION,
    INCOMPLETE,
    USER_ENDS,
    Conversation,
    ConversationTurn,
    EndReason,
    RecordedEnd,
)
from karenina_toolkit.printable import is_blank

if TYPE_CHECKING:
    from karenina_conversation.fields import QuestionFields
    from karenina_conversation.settings import ConversationSettings
    from karenina_core import VerificationContext

_UNKNOWN_ENDS: Final[Mapping[str | None, str]] = {
    "not_recorded": "a recording does not state why its user stopped",
    **INCOMPLETE,
    "no_recorded_answer": "there is no recorded answer",
}


async def hold_conversation(context: VerificationContext) -> None:
    """Hold the conversation, and record it. Raises `PortError` if a call fails or an answer is empty."""
    session = None
    if context.answering_model.mcp_urls_dict and not context.answering_model.stateless_tools:
        session = Path(f"conversation-{uuid4()}")
        context.enter_workspace(session)
    try:
        await _converse(context, make_user_side(context), session)
    finally:
        if session is not None:
            await context.leave_workspace(session)


async def _converse(context: VerificationContext, user: UserSide, session: Path | None) -> None:
    """Alternate between the model, or its recorded turns, and the user until one side ends or fails, and record the
    conversation. The item gets an error if the user's side fails. It fails at the limit of turns if the brief says so.
    Recorded answers are replayed as long as the user's messages match. What a simulated user said is taken from the
    recording, too.
    """
    messages = first_messages(context)
    turns: list[ModelTurn] = []
    taken = [ConversationTurn(1, said=context.question.question)]
    ended: EndReason | RecordedEnd | None = None
    turn = await take_turn(context, messages, session)
    recorded: list[tuple[str | None, ModelTurn]] = []
    files: list[tuple[Attachment, ...]] = []
    brief = cast("QuestionFields", context.question_settings).user
    stated = turn.conversation or {}
    stopped: EndReason | RecordedEnd | None = None
    failed = False
    if context.answer_is_recorded():
        (_, turn), *recorded = split_recorded(turn)
        if brief is not None:  # what the user said is recorded, too, and in exports of ours also why it stopped
            user = Script([Entry(say="(nothing)" if is_blank(said or "") else said) for said, _ in recorded])
            stopped = stated["ended"] if stated.get("ended") in USER_ENDS else "not_recorded"
    while True:
        turns.append(turn)
        taken[-1] = taken[-1]._replace(trace=turn.trace, final=turn.final)
        if turn.error is not None or ends_conversation(turn):
            if turn.error is not None and context.answer_is_recorded() and not turn.trace:
                ended = "no_recorded_answer"
            break
        try:
            following = await user.next_turn(taken)
            if brief is not None and isinstance(user, Script) and isinstance(following, NextTurn):
                refuse_recorded(following.said, taken[-1])
        except NoNextTurn as error:
            failed = True
            context.mark_error(str(error), Outcome.STAGE_ERROR)
            if isinstance(error, SimulatedUserFailed):
                context.set_result_field("user_fault", error.fault)
            break
        if isinstance(following, End):
            ended = "recording_differs" if recorded else stopped or following.why
            break
        if context.answer_is_recorded():
            if not recorded or not recorded[0][1].trace or not is_same_text(recorded[0][0], following.said):
                ended = "recording_differs" if recorded and recorded[0][1].trace else "recording_ends"
                break
            _, turn = recorded.pop(0)
        else:
            asked = Message("user", following.said, attachments=following.attachments)
            messages += [*map(_as_sent, turn.trace), asked]
            turn = await take_turn(context, messages, session)
        taken.append(ConversationTurn(following.number, following.id, following.said))
        files.append(following.attachments)
    every = sorted([*taken, *user.not_taken(taken)], key=lambda turn: turn.number)
    conversation = Conversation(tuple(every), ended)
    context.set_artifact(CONVERSATION, conversation)
    reached = user.reached if isinstance(user, SimulatedUser) else stated.get("reached")
    reached = reached if isinstance(reached, bool) else None
    described = conversation.to_json()
    if brief is not None and reached is not None:
        described["reached"] = reached
    if not context.answer_is_recorded() and (missing := uncounted_turns([turn.usage for turn in turns])):
        described["uncounted_turns"] = missing
    context.set_result_field("conversation", described)
    said = zip(taken[1:], files, strict=True)
    sent = [Message("user", turn.said or "", attachments=attached) for turn, attached in said]
    incomplete = _UNKNOWN_ENDS[ended] if ended in INCOMPLETE else None
    record_turns(context, turns, sent, incomplete)
    context.offer_value("conversation.turns", None if incomplete else len(taken), why=incomplete)
    if ended in _UNKNOWN_ENDS:
        context.offer_value("conversation.ended", None, why=_UNKNOWN_ENDS[ended])
    else:
        context.offer_value("conversation.ended", ended, why="the conversation broke off")
    if brief is None:
        context.offer_value("conversation.reached", None, why="a script has no goal")
        return
    broke_off = ended is None and not failed
    why = "the conversation broke off" if broke_off else "the simulated user gave no usable reply"
    if context.answer_is_recorded():
        why = "the recording does not state whether its user reached the goal"
    context.offer_value("conversation.reached", reached, why=why)
    if ended == "limit" and brief.at_limit == "fail":
        context.veto(f"the conversation was stopped after {len(taken)} turns (max_turns)", Outcome.AUTO_FAILED)


def make_user_side(context: VerificationContext) -> UserSide:
    """Return the user's side of the conversation. In a preview without models, a placeholder plays the user."""
    fields = cast("QuestionFields", context.question_settings)
    if fields.user is None:
        return Script(fields.turns, recorded=context.answer_is_recorded())
    model = cast("ConversationSettings", context.settings).simulated_user
    if model is None:
        model = ModelConfig(id="simulated_user", interface="none", model_name="(simulated user)")
    return SimulatedUser(context, fields.user, model)


def _as_sent(message: Message) -> Message:
    """Return a message of the model as it is sent back to it: without its thoughts."""
    return replace(message, reasoning=None, notes=())
