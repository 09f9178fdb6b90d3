"""The artifacts and prompt tasks that every stage that produces answers declares, and the question of other answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.models.prompts import PromptTask

if TYPE_CHECKING:
    from karenina_core.artifacts.artifact import AnyKey

GENERATION: Final = PromptTask("generation", "")
"""The prompt apart from the question: the model's system prompt and the user's `prompt_config`."""

FEW_SHOT_GENERATION: Final = PromptTask("few_shot_generation", "", shows_truth=True, family=GENERATION.name)
"""The prompt with few-shot examples before the question. The examples contain the ground truth of other questions."""

NO_QUESTION: Final = "What does the text say?"
"""The question used for outputs without one. Small judges extract nothing if they are told that there is none."""

ANSWER_KEYS: Final[frozenset[AnyKey]] = frozenset(
    {
        Keys.RAW_LLM_RESPONSE,
        Keys.TRACE_MESSAGES,
        Keys.FINAL_AI_MESSAGE,
        Keys.RECURSION_LIMIT_REACHED,
        Keys.RESPONSE_TRUNCATED,
        Keys.RESPONSE_REFUSED,
        Keys.ANSWERING_MCP_SERVERS,
        Keys.AGENT_METRICS,
    }
)
"""The artifacts that describe an answer."""
