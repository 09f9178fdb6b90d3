"""The known values of an answer, which every stage that produces answers offers: its length, cost, steps and tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.models.ports import Message

if TYPE_CHECKING:
    from karenina_core.models.ports import CallNotes, ToolCall, Usage
    from karenina_core.stages.context import VerificationContext

ANSWER_VALUES: Final[Mapping[str, object]] = {
    "answer.text": str,
    "answer.words": int,
    "answer.output_tokens": int,
    "answer.seconds": float,
    "answer.cost": float,
    "trace.steps": int,
    "trace.tools": list[str],
    "trace.raw_tools": list[str],
    "trace.failed_tools": list[str],
    "trace.arguments.*": list,
}
"""The names and types of the values, for `Stage.offers`."""

_PICODOLLARS: Final = 10**12
_ARGUMENTS: Final = "trace.arguments."


class _Unknown(NamedTuple):
    """The reason why a value is not known. It leaves a field undecided unless `is_wrong` is set."""

    why: str
    is_wrong: bool = False


def offer_answer_values(context: VerificationContext, usage: Usage, notes: CallNotes | None) -> None:
    """Offer those values of the answer that the question's template compares.

    The calling stage must have set RAW_LLM_RESPONSE, TRACE_MESSAGES and FINAL_AI_MESSAGE, must declare ANSWER_CLASS as
    optional, and must have `ANSWER_VALUES` among its `offers`. `usage` and `notes` are those of the calls that produced
    the answer.
    """
    bound = context.find_artifact(Keys.ANSWER_CLASS)
    for name in dict.fromkeys(bound.sources.values() if bound is not None else ()):
        if name in ANSWER_VALUES or name.startswith(_ARGUMENTS):
            value = _find_value(context, name, usage, notes)
            if isinstance(value, _Unknown):
                context.offer_value(name, None, why=value.why, counts="wrong" if value.is_wrong else "undecided")
            else:
                context.offer_value(name, value)


def _find_value(context: VerificationContext, name: str, usage: Usage, notes: CallNotes | None) -> Any:
    """Return a value of the answer, or `_Unknown` with the reason."""
    trace = context.get_artifact(Keys.TRACE_MESSAGES)
    if name.startswith(_ARGUMENTS):
        return find_arguments(trace, name.removeprefix(_ARGUMENTS))
    match name:
        case "answer.text" | "answer.words":
            text = context.get_artifact(Keys.FINAL_AI_MESSAGE)
            if text is None:
                return _Unknown("the conversation does not end with an assistant message that has text", is_wrong=True)
            return text if name == "answer.text" else len(text.split())
        case "answer.output_tokens":
            return usage.output_tokens or _Unknown(f"{_source(context)} counted no output tokens")
        case "answer.seconds":
            return _seconds(context, notes)
        case "answer.cost":
            return _cost(context, notes)
        case "trace.steps":
            return sum(message.role == "assistant" for message in trace) or 1
        case "trace.tools":
            return [plain_tool_name(call.name) for call in _calls(trace)]
        case "trace.raw_tools":
            return [call.name for call in _calls(trace)]
        case _:
            failed = (message for message in trace if message.role == "tool" and message.is_error)
            return [plain_tool_name(message.tool_name or "") for message in failed]


def _source(context: VerificationContext) -> str:
    """Return what the answer came from, for a message."""
    if context.answer_is_recorded():
        return "the recording"
    return f"the server of {context.answering_model.id!r}"


def _seconds(context: VerificationContext, notes: CallNotes | None) -> float | _Unknown:
    """Return the seconds that the successful requests took, without waiting."""
    if context.answer_is_recorded():
        return _Unknown("recordings do not state how long an answer took")
    if notes is None or not notes.answered:
        return _Unknown("the journal does not state how long the answer took, because an older version wrote it")
    return round(notes.answered, 6)


def _cost(context: VerificationContext, notes: CallNotes | None) -> float | _Unknown:
    """Return the cost of the answer's calls in dollars, at the prices of the run that made them."""
    id = context.answering_model.id
    if context.answer_is_recorded():
        return _Unknown("recordings do not state what an answer cost")
    if notes is None or notes.cost is None:
        return _Unknown(
            f"when {id!r} answered, its price was unknown or its server counted no tokens; set prices.{id} = "
            "{input = ..., output = ...} in the configuration, in US dollars per million tokens, and answer again with "
            "a new journal"
        )
    return notes.cost / _PICODOLLARS


def _calls(trace: Sequence[Message]) -> list[ToolCall]:
    """Return all tool calls in a trace, in order."""
    return [call for message in trace for call in message.tool_calls]


def plain_tool_name(name: str) -> str:
    """Return a tool's name without the prefix `mcp__SERVER__`, which some agents add to the tools of MCP servers."""
    parts = name.split("__", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "mcp" and parts[2] else name


def find_arguments(trace: Sequence[Message], path: str) -> list[Any]:
    """Return the value at `NAME.PATH` in the arguments of each call of the tool `NAME`, in order.

    PATH consists of keys and of positions in lists, separated by dots. Without PATH, the values are all arguments of
    each call. A call without a value at PATH has None. `NAME` is the tool's name with or without `mcp__SERVER__`, and
    may contain dots.
    """
    values = []
    for call in _calls(trace):
        names = [name for name in (call.name, plain_tool_name(call.name)) if f"{path}.".startswith(f"{name}.")]
        if names:
            value: Any = dict(call.arguments)
            for step in filter(None, path[len(names[0]) + 1 :].split(".")):
                value = _at(value, step)
            values.append(value)
    return values


def _at(value: Any, step: str) -> Any:
    """Return the entry of a dictionary or list at `step`, or None if it has no such entry."""
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list | tuple) and step.lstrip("-").isdecimal():
        return value[int(step)] if -len(value) <= int(step) < len(value) else None
    return None
