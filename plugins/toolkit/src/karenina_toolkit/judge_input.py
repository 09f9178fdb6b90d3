"""The part of an answer that a judge gets: the whole conversation, or only the final message."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_toolkit.traces import render_trace

if TYPE_CHECKING:
    from karenina_core.stages.context import VerificationContext


@dataclass(slots=True)
class JudgeInput:
    """The text for a judge; or `error`, the reason why there is no final message."""

    text: str
    used_full_trace: bool
    error: str | None = None


def make_judge_input(context: VerificationContext, *, full_trace: bool) -> JudgeInput:
    """Return the input of a judge, and set the result's root fields about it (the first stage that calls this sets
    them).

    A plain answer is both the conversation and its final message. The calling stage declares RAW_LLM_RESPONSE,
    TRACE_MESSAGES and FINAL_AI_MESSAGE.
    """
    trace = context.find_artifact(Keys.TRACE_MESSAGES) or []
    raw = context.get_artifact(Keys.RAW_LLM_RESPONSE)
    if not trace:
        found = JudgeInput(raw, full_trace)
    elif full_trace:
        found = JudgeInput(render_trace(trace), True)
    else:
        final = context.find_artifact(Keys.FINAL_AI_MESSAGE)
        if final is None:
            found = JudgeInput("", False, "the conversation does not end with an assistant message that has text")
        else:
            found = JudgeInput(final, False)
    context.offer_result_field("used_full_trace", found.used_full_trace)
    context.offer_result_field("evaluation_input", found.text if found.error is None else None)
    context.offer_result_field("trace_extraction_error", found.error)
    return found
