"""Helpers for stages: judge input, skipping, concurrent calls and services.

Commands that run nothing load this module with the stages, so the functions that wait import asyncio themselves.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.data.outcome import Outcome
from karenina_core.errors import ItemInterrupt, RunError
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.stages.stage import Skip
from karenina_toolkit import traces

if TYPE_CHECKING:
    from karenina_core.artifacts.artifact import AnyKey
    from karenina_core.stages.context import VerificationContext
    from karenina_core.stages.state import Ask


T = TypeVar("T")


async def gather_all(works: Iterable[Awaitable[T]]) -> list[T]:
    """Run awaitables concurrently and return their results in order. If any of them raise, the others still finish,
    because their calls have to be paid for and their replies are stored, and then the first exception is raised. A
    `RunError` or `ItemInterrupt` takes precedence, because it affects more than the stage.

    A task group would cancel the others. If the caller is cancelled, all awaitables are cancelled.
    """
    import asyncio

    ended = await asyncio.gather(*works, return_exceptions=True)
    errors = [outcome for outcome in ended if isinstance(outcome, BaseException)]
    if errors:
        raise next((error for error in errors if isinstance(error, RunError | ItemInterrupt)), errors[0])
    return [outcome for outcome in ended if not isinstance(outcome, BaseException)]


@dataclass(slots=True)
class JudgeInput:
    """The text for a judge. If there is no final message, `error` contains the reason."""

    text: str
    used_full_trace: bool
    error: str | None = None


def make_judge_input(context: VerificationContext, *, full_trace: bool) -> JudgeInput:
    """Return the input for a judge, and record it in the result unless an earlier stage has done so: the final message,
    or with `full_trace` the whole conversation. Without a trace, it is the raw answer. If the trace has no final
    message, the input has an `error` instead of text.

    The stage must declare RAW_LLM_RESPONSE, TRACE_MESSAGES and FINAL_AI_MESSAGE.
    """
    trace = context.find_artifact(Keys.TRACE_MESSAGES) or []
    raw = context.get_artifact(Keys.RAW_LLM_RESPONSE)
    if not trace:
        judge_input = JudgeInput(raw, full_trace)
    elif full_trace:
        judge_input = JudgeInput(traces.render_trace(trace), True)
    else:
        final = context.find_artifact(Keys.FINAL_AI_MESSAGE)
        if final is None:
            judge_input = JudgeInput("", False, "the conversation does not end with an assistant message that has text")
        else:
            judge_input = JudgeInput(final, False)
    context.offer_result_field("used_full_trace", judge_input.used_full_trace)
    context.offer_result_field("evaluation_input", judge_input.text if judge_input.error is None else None)
    context.offer_result_field("trace_extraction_error", judge_input.error)
    return judge_input


def fail_without_answer(context: VerificationContext, why: str) -> None:
    """Veto the item because the trace has no final message to judge, as `why` states: the model ended so. A recording
    may lack it, so a recorded answer ends with PARSE_ERROR instead.
    """
    if context.answer_is_recorded():
        context.mark_error(why, Outcome.PARSE_ERROR)
    else:
        context.veto(f"the trace does not end in an answer: {why}")


async def call_service(ask: Ask, limit: float) -> str:
    """Call `ask`, a plain or async function, and return its result as a string. Raises `PortError` with category
    `timeout` after `limit` seconds, and a permanent one in place of any exception that is not a `PortError` itself.

    A plain function runs in a thread, which is abandoned if it hangs.
    """
    import asyncio

    from anyio import to_thread

    time_out = asyncio.timeout(limit)
    try:
        async with time_out:
            waiting = await to_thread.run_sync(ask, abandon_on_cancel=True)
            return str(await waiting if inspect.isawaitable(waiting) else waiting)
    except PortError:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and time_out.expired():
            message = f"TimeoutError: the service did not answer within {limit:g} s (request_timeout)"
            raise PortError(message, category=ErrorCategory.TIMEOUT) from None
        raise PortError(f"{type(error).__name__}: {error}", category=ErrorCategory.PERMANENT) from error


_FAILS: Final[Mapping[str, tuple[bool, str]]] = {
    Keys.RECURSION_LIMIT_REACHED.name: (True, "the turn limit was reached"),
    Keys.RESPONSE_REFUSED.name: (True, "the provider stopped the answer"),
    Keys.TRACE_VALIDATION_FAILED.name: (True, "the trace does not end in an answer"),
    Keys.ABSTENTION_DETECTED.name: (True, "the model abstained"),
    Keys.SUFFICIENCY_DETECTED.name: (False, "the answer is insufficient"),
}


def skip_if_failed(context: VerificationContext, *findings: AnyKey) -> bool | Skip:
    """Return True, or a `Skip` that names the first of the `findings` that failed the answer: RECURSION_LIMIT_REACHED,
    RESPONSE_REFUSED, TRACE_VALIDATION_FAILED or ABSTENTION_DETECTED if it is True, or SUFFICIENCY_DETECTED if it is
    False. A finding that is not set has not failed.

    For use in `Stage.should_run`. The stage must declare the findings as optional.
    """
    for finding in findings:
        failing, why = _FAILS[finding.name]
        if context.find_artifact(finding) is failing:
            return Skip(why)
    return True
