"""GenerateAnswer, slot 2: calls the model under test, with few-shot examples as earlier turns in the conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Stage, VerificationConfig, VerificationContext
from karenina_core.data.trust import Trust
from karenina_generation.settings import GenerationSettings
from karenina_toolkit.answer_values import ANSWER_VALUES
from karenina_toolkit.answers.few_shot import check_examples
from karenina_toolkit.answers.model_turn import (
    ANSWER_KEYS,
    FEW_SHOT_GENERATION,
    GENERATION,
    first_messages,
    record_turns,
    take_turn,
)

if TYPE_CHECKING:
    from karenina_core.stages.stage import ModelNeed


class GenerateAnswer(Stage):
    """The stage that sends the question to the answering model, once for all judges.

    Models with MCP servers, agents and recorded conversations use the agent port, and their whole trace is stored. Any
    other answer is stored unchanged, except that reasoning at its start is separated (`strip_reasoning`) and becomes
    the result field `reasoning` in the extensions. The result field `notes` names parts of an answer that are not text.
    A failed call or an empty answer ends the item with MODEL_ERROR; an agent's work up to that point is stored. An
    empty answer is allowed if the agent has a workspace, which may contain the answer, or MCP servers, because slot 4
    checks the trace. An answer that was stopped by the provider (a refusal or a content filter) ends with ABSTAINED,
    either here or in the abstention check.
    """

    name = "GenerateAnswer"
    scope = "answer"
    optional = frozenset({Keys.ANSWER_CLASS, Keys.WORKSPACE_PATH})
    produces = ANSWER_KEYS
    offers = ANSWER_VALUES
    usage_key = "answer_generation"
    reads: ClassVar[Mapping[str, object]] = {"abstention_enabled": False}
    prompts = (GENERATION, FEW_SHOT_GENERATION)
    settings = GenerationSettings
    fallback = True
    error_outcome = Outcome.MODEL_ERROR

    def before_run(
        self, config: VerificationConfig, questions: Sequence[Question], trust: Trust
    ) -> Iterable[ModelNeed]:
        """Raise `ConfigError` if the selected examples include one that a question lacks. Returns no needs.

        Logs a warning for unknown questions.
        """
        check_examples(config, questions)
        return ()

    async def execute(self, context: VerificationContext) -> None:
        """Send the question to the model and record the reply. Raises `PortError` if the call fails or the answer is
        empty.

        Which empty answers are allowed is described in the class. If the provider stopped the answer and no abstention
        check follows, the item is vetoed.
        """
        record_turns(context, [await take_turn(context, first_messages(context))])
