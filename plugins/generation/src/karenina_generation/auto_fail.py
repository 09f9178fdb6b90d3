"""The stages for slots 3 and 4, which fail conversations that do not end in an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import ArtifactKeys as Keys
from karenina_core import AutoFailStage
from karenina_toolkit import traces

if TYPE_CHECKING:
    from karenina_core import VerificationContext


class RecursionLimitAutoFail(AutoFailStage):
    """Fails the answers of agents that reached their turn limit.

    The trace and the token usage are preserved.
    """

    name = "RecursionLimitAutoFail"
    requires = frozenset({Keys.RAW_LLM_RESPONSE})
    optional = frozenset({Keys.RECURSION_LIMIT_REACHED})

    def skip_because(self, context: VerificationContext) -> str | None:
        """Return the reason for skipping the stage, or None if the turn limit was reached."""
        return None if context.find_artifact(Keys.RECURSION_LIMIT_REACHED) else "the turn limit was not reached"

    def reason(self, context: VerificationContext) -> str:
        """Return a reason that states that the agent reached its turn limit and, unless the answer is recorded, which
        setting to raise.
        """
        reached = "the agent reached its turn limit before it answered"
        if context.answer_is_recorded():
            return reached
        return f"{reached}; increase agent_max_turns for the model {context.answering_model.id!r}"


class TraceValidationAutoFail(AutoFailStage):
    """Fails conversations with tools that do not end in an assistant message.

    This applies to models with MCP servers. Recorded answers are trusted.
    """

    name = "TraceValidationAutoFail"
    requires = frozenset({Keys.RAW_LLM_RESPONSE})
    optional = frozenset({Keys.TRACE_MESSAGES, Keys.FINAL_AI_MESSAGE, Keys.RECURSION_LIMIT_REACHED})
    produces = frozenset({Keys.TRACE_VALIDATION_FAILED, Keys.TRACE_VALIDATION_ERROR, Keys.MCP_ENABLED})

    def skip_because(self, context: VerificationContext) -> str | None:
        """Return the reason for skipping the stage, or None if it should run. The stage is skipped if there are no MCP
        servers, if the answer is recorded, or if the agent reached its turn limit.
        """
        if not context.answering_model.mcp_urls_dict:
            return "the model has no MCP servers"
        if context.answer_is_recorded():
            return "recorded traces are trusted"
        if context.find_artifact(Keys.RECURSION_LIMIT_REACHED):
            return "the turn limit was reached"
        return None

    def execute(self, context: VerificationContext) -> None:
        """Veto the item if the trace does not end in an answer, and set the artifacts about this."""
        trace = context.find_artifact(Keys.TRACE_MESSAGES)
        verdict = traces.validate_trace(trace or [])
        context.set_artifact(Keys.MCP_ENABLED, True)
        context.set_artifact(Keys.TRACE_VALIDATION_FAILED, not verdict.valid)
        context.set_artifact(Keys.TRACE_VALIDATION_ERROR, verdict.error)
        if not verdict.valid:
            context.set_result_field("trace_extraction_error", verdict.error)
            context.veto(f"the trace does not end in an answer: {verdict.error}", self.veto_outcome)
