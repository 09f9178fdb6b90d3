"""The stage for slot 2, which queries the model under test. Examples are sent as earlier turns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from karenina_core import ArtifactKeys as Keys
from karenina_core import Outcome, Question, Stage, VerificationConfig
from karenina_core.data.trust import Trust
from karenina_generation.settings import GenerationSettings
from karenina_toolkit.agent_work import AGENT_WORK
from karenina_toolkit.answer_values import ANSWER_VALUES
from karenina_toolkit.answers.answer_keys import ANSWER_KEYS, FEW_SHOT_GENERATION, GENERATION
from karenina_toolkit.answers.few_shot import check_examples

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_core.stages.stage import ModelNeed


class GenerateAnswer(Stage):
    """Sends the question to the answering model, once for all judges.

    Agents, models with MCP servers, and recorded conversations use the agent port, and their whole trace is stored. All
    other answers are stored unchanged. With `strip_reasoning`, reasoning at the start of an answer is moved to the
    result field `reasoning` in the extensions. The field `notes` names parts of the answer that are not text.

    If the call fails or the answer is empty, the item ends with MODEL_ERROR, and an agent's work so far is stored.
    Empty answers are allowed if the agent has a workspace, which may contain its answer, or MCP servers, because slot 4
    checks the trace. An answer that the provider stopped (a refusal or a content filter) ends with ABSTAINED, either
    here or in the abstention check.
    """

    name = "GenerateAnswer"
    scope = "answer"
    optional = frozenset({Keys.ANSWER_CLASS, Keys.WORKSPACE_PATH, AGENT_WORK})
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
        """Raise `ConfigError` if a selected example does not exist. Returns no models, since the stage only needs the
        answering ones. A warning is logged about unknown questions.
        """
        check_examples(config, questions)
        return ()

    async def execute(self, context: VerificationContext) -> None:
        """Query the model and record its reply. Raises `PortError` if the call fails or the answer is empty.

        The class docstring describes which empty answers are allowed. If the provider stopped the answer and no
        abstention check follows, the item is vetoed.
        """
        from karenina_toolkit.answers.model_turn import first_messages, record_turns, take_turn

        record_turns(context, [await take_turn(context, first_messages(context))])
