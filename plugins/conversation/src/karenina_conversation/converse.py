"""Converse, slot 2: holds a conversation with the model under test, turn by turn."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from karenina_conversation.fields import QuestionFields, TurnFields
from karenina_conversation.settings import ConversationSettings
from karenina_conversation.simulated_user import SIMULATED_USER
from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Skip, Stage, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AgentTier
from karenina_core.namespaces import read_owned
from karenina_core.stages.stage import ModelNeed
from karenina_toolkit.agent_work import AGENT_WORK
from karenina_toolkit.answer_values import ANSWER_VALUES
from karenina_toolkit.answers.answer_keys import ANSWER_KEYS, FEW_SHOT_GENERATION, GENERATION
from karenina_toolkit.answers.few_shot import check_examples
from karenina_toolkit.conversations import CONVERSATION, STAGE, EndReason
from karenina_toolkit.plugin_lookup import find_adapter, plugins_of

if TYPE_CHECKING:
    from karenina_core import VerificationContext

logger = logging.getLogger("karenina")


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
        model that plays the users, if any. With `partial_recordings`, those of recordings are only logged.

        Problems are models under test whose sessions cannot be continued, a simulated user without a model for it, and
        recordings that differ from `turns` or in which the user sends an empty message. If `partial_recordings` is set,
        those of recordings are only logged.
        """
        from karenina_conversation.recorded import recording_problems

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
        from karenina_conversation.conversing import hold_conversation

        await hold_conversation(context)


def turns_of(question: Question) -> QuestionFields:
    """Return the question's fields for conversations. Raises pydantic's `ValidationError` if they are invalid."""
    return read_owned(QuestionFields, question.extra)
