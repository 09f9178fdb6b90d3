"""Converse, slot 2: holds a conversation with the model under test, turn by turn."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Final, cast
from uuid import uuid4

from karenina_conversation.fields import Entry, QuestionFields, TurnFields
from karenina_conversation.recorded import ends_conversation, is_same_text, recording_problems, split_recorded
from karenina_conversation.settings import ConversationSettings
from karenina_conversation.simulated_user import (
    SIMULATED_USER,
    SimulatedUser,
    SimulatedUserFailed,
    refuse_recorded,
)
from karenina_conversation.user_side import End, NextTurn, NoNextTurn, Script, UserSide
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Skip, Stage, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AgentTier
from karenina_core.models.attachments import Attachment
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import Message
from karenina_core.namespaces import read_owned
from karenina_core.stages.stage import ModelNeed
from karenina_toolkit.agent_work import AGENT_WORK
from karenina_toolkit.answer_values import ANSWER_VALUES, uncounted_turns
from karenina_toolkit.answers.few_shot import check_examples
from karenina_toolkit.answers.model_turn import (
    ANSWER_KEYS,
    FEW_SHOT_GENERATION,
    GENERATION,
    ModelTurn,
    first_messages,
    record_turns,
    take_turn,
)
from karenina_toolkit.conversations import (
    CONVERSATION,
    INCOMPLETE,
    STAGE,
    USER_ENDS,
    Conversation,
    ConversationTurn,
    EndReason,
    RecordedEnd,
)
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of
from karenina_toolkit.printable import is_blank

if TYPE_CHECKING:
    from karenina_core import VerificationContext

logger = logging.getLogger("karenina")

_UNKNOWN_ENDS: Final[Mapping[str | None, str]] = {
    "not_recorded": "a recording does not state why its user stopped",
    **INCOMPLETE,
    "no_recorded_answer": "there is no recorded answer",
}


class Converse(Stage):
    """The stage that answers questions with `turns` or a `user`: after each answer, the user says the next message.

    Each turn is a call with all messages so far. The artifacts are those of `GenerateAnswer`, and CONVERSATION. If a
    call fails or an answer is empty, the item ends with MODEL_ERROR, and the turns before it are stored. If the user
    cannot go on, it ends with STAGE_ERROR, which is not the fault of the model under test.
    """

    name = STAGE
    scope = "answer"
    optional = frozenset({Keys.ANSWER_CLASS, Keys.WORKSPACE_PATH, AGENT_WORK})
    produces = ANSWER_KEYS | {CONVERSATION}
    offers = MappingProxyType(
        {**ANSWER_VALUES, "conversation.turns": int, "conversation.ended": EndReason, "conversation.reached": bool}
    )
    usage_key = "answer_generation"
    reads: ClassVar[Mapping[str, object]] = {
        "abstention_enabled": False,
        "strip_reasoning": True,
        "few_shot_config": None,
    }
    settings = ConversationSettings
    prompts = (GENERATION, FEW_SHOT_GENERATION, SIMULATED_USER)
    question_settings = QuestionFields
    field_settings = TurnFields
    trait_settings = TurnFields
    precedence = 10
    error_outcome = Outcome.MODEL_ERROR

    def included(self, config: VerificationConfig, question: Question) -> bool | Skip:
        """Include the stage for questions with several turns."""
        has_turns = "turns" in question.extra or "user" in question.extra
        return has_turns or Skip("the question has neither `turns` nor `user`")

    def needs_judge(self, config: VerificationConfig, question: Question, trust: Trust) -> bool:
        """Return False, because the stage calls only the model under test."""
        return False

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Raise `ConfigError` for problems with the models, the few-shot examples and the recordings, and return the
        model that plays the users, if any.

        Problems are models under test whose sessions cannot be continued, a simulated user without a model for it, and
        recordings that differ from `turns` or in which the user sends an empty message. If `partial_recordings` is set,
        those of recordings are only logged.
        """
        check_examples(config, questions)
        problems = [
            f"model {model.id!r}: {model.interface} holds a session of its own, which cannot be continued after an "
            f"answer, but question {questions[0].id} has several turns; choose a model with another interface"
            for model in config.core.answering_models
            if questions and find_adapter(plugins_of(config), model.interface).spec.tier is AgentTier.DEEP_AGENT
        ]
        asked = [(question, turns_of(question)) for question in questions]
        different = list(recording_problems(config, asked))
        if different and not (config.has("partial_recordings") and config.setting("partial_recordings")):
            cure = "correct the recordings, or use --partial (partial_recordings = true) to judge the turns that match"
            problems += [*different, cure]
        played = [question.id for question, fields in asked if fields.user is not None]
        if all(
            find_adapter(plugins_of(config), model.interface).spec.recorded for model in config.core.answering_models
        ):
            played = []
        user = config.section(ConversationSettings).simulated_user if played else None
        if played and user is None:
            problems.append(
                f"{len(played)} of {len(questions)} questions have a simulated user (the first is {played[0]!r}), but "
                "no model plays it; add one, for example with --user openai:NAME (in a configuration: simulated_user)"
            )
        if problems:
            raise ConfigError(problems)
        for problem in different:
            logger.warning("%s", problem)
        return [ModelNeed("simulated user", user, frozenset({"parser"}))] if user is not None else []

    async def execute(self, context: VerificationContext) -> None:
        """Hold the conversation, and record it. Raises `PortError` if a call fails or an answer is empty."""
        session = None
        if context.answering_model.mcp_urls_dict and not context.answering_model.stateless_tools:
            session = Path(f"conversation-{uuid4()}")
            context.enter_workspace(session)
        try:
            await self._converse(context, make_user_side(context), session)
        finally:
            if session is not None:
                await context.leave_workspace(session)

    @staticmethod
    async def _converse(context: VerificationContext, user: UserSide, session: Path | None) -> None:
        """Alternate between the model, or its recorded turns, and the user until one side ends or fails, and record the
        conversation. The item gets an error if the user's side fails, and fails if a limit of turns says so.

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
            taken[-1] = replace(taken[-1], trace=turn.trace, final=turn.final)
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


def turns_of(question: Question) -> QuestionFields:
    """Return the question's fields for conversations. Raises pydantic's `ValidationError` if they are invalid."""
    return read_owned(QuestionFields, question.extra)


def _as_sent(message: Message) -> Message:
    """Return a message of the model as it is sent back to it: without its thoughts."""
    return replace(message, reasoning=None, notes=())
