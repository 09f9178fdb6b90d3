"""The known values of an answer: its length, cost, steps and tools. Every stage that produces answers offers them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.data.sections import SECONDS_DIGITS, KnownValue
from karenina_core.models.ports import Message
from karenina_toolkit import traces
from karenina_toolkit.conversations import INCOMPLETE, OWNER
from karenina_toolkit.printable import quantity
from karenina_toolkit.traces.reasoning import has_content

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.models.ports import CallNotes, ToolCall, Usage
    from karenina_core.stages.context import VerificationContext

StoppedBy = Literal["nothing", "turns", "output", "filter"]
"""What ended an answer early: the limit on turns, the limit on output tokens, or the provider's content filter."""

ANSWER_VALUES: Final[Mapping[str, object]] = {
    "answer.text": str,
    "answer.words": int,
    "answer.output_tokens": int,
    "answer.seconds": float,
    "answer.cost": float,
    "trace.steps": int,
    "trace.stopped_by": StoppedBy,
    "trace.tools": list[str],
    "trace.raw_tools": list[str],
    "trace.failed_tools": list[str],
    "trace.arguments.*.*": list,
}
"""The names and types of the values, for use in `Stage.offers`."""

_PICODOLLARS: Final = 10**12
_ARGUMENTS: Final = "trace.arguments."
_WHOLE: Final = ("trace.", "answer.output_tokens")
"""How the names of values begin that the whole conversation determines, not its last answer alone."""

_UNCOUNTED: Final = "uncounted_calls"
_NOT_IN_RESULTS: Final = "the stored result does not contain it"


class AnswerFacts(NamedTuple):
    """Facts about an answer.

    `text` is None if the conversation does not end in an answer. `trace` is empty if the answer is not a conversation.
    `output_tokens`, `seconds` and `cost` (in dollars) are numbers. If one is not known, it is a string with the reason.
    If the answer is only a part of a recorded conversation, `incomplete` is the reason, and values of the whole are not
    known.
    """

    text: str | None
    trace: Sequence[Message]
    output_tokens: int | str
    seconds: float | str
    cost: float | str
    stopped_by: StoppedBy = "nothing"
    incomplete: str | None = None

    def value(self, name: str) -> KnownValue | None:
        """Return the known value with the given name, or None if `ANSWER_VALUES` does not contain it. A value that
        could not be determined has a reason (`why`) in its place.
        """
        if self.incomplete and name.startswith(_WHOLE):
            return KnownValue(why=self.incomplete)
        if name.startswith(_ARGUMENTS):
            return KnownValue(value=find_arguments(self.trace, name.removeprefix(_ARGUMENTS)))
        match name:
            case "answer.text" | "answer.words" if not has_content(self.text or ""):
                why = "the conversation does not end with an assistant message that has text"
                return KnownValue(why=why, counts="wrong")
            case "answer.text":
                return KnownValue(value=self.text)
            case "answer.words":
                return KnownValue(value=len((self.text or "").split()))
            case "answer.output_tokens":
                return _value_or_reason(self.output_tokens)
            case "answer.seconds":
                return _value_or_reason(self.seconds)
            case "answer.cost":
                return _value_or_reason(self.cost)
            case "trace.steps":
                return KnownValue(value=sum(message.role == "assistant" for message in self.trace) or 1)
            case "trace.stopped_by":
                return KnownValue(value=self.stopped_by)
            case "trace.tools":
                return KnownValue(value=[plain_tool_name(call.name) for call in _calls(self.trace)])
            case "trace.raw_tools":
                return KnownValue(value=[call.name for call in _calls(self.trace)])
            case "trace.failed_tools":
                failed = (message for message in self.trace if message.role == "tool" and message.is_error)
                return KnownValue(value=[plain_tool_name(message.tool_name or "") for message in failed])
        return None


def offer_answer_values(
    context: VerificationContext, turns: Sequence[Usage], notes: CallNotes | None, incomplete: str | None = None
) -> None:
    """Offer those values of the answer, such as its length and the tools called, that the question's template compares,
    if there are any. `turns` contains the usage of each turn, `notes` describes the calls, and `incomplete` is the
    reason if only a part of a recording is used. The calling stage must have set the artifacts in `ANSWER_KEYS` of
    `karenina_toolkit.answers.model_turn`.

    The stage must declare ANSWER_CLASS as optional, and include `ANSWER_VALUES` in its `offers`.
    """
    bound = context.find_artifact(Keys.ANSWER_CLASS)
    if bound is None or not bound.sources:
        return
    model, recorded = context.answering_model, context.answer_is_recorded()
    trace: list[Message] = context.get_artifact(Keys.TRACE_MESSAGES)
    facts = AnswerFacts(
        context.get_artifact(Keys.FINAL_AI_MESSAGE),
        trace,
        _output_tokens(turns, None if recorded else model.id, notes),
        "recordings do not state how long an answer took" if recorded else _seconds(notes),
        "recordings do not state what an answer cost" if recorded else _cost(model.id, notes),
        _stopped_by(
            turns=context.get_artifact(Keys.RECURSION_LIMIT_REACHED),
            output=context.get_artifact(Keys.RESPONSE_TRUNCATED),
            filtered=context.get_artifact(Keys.RESPONSE_REFUSED),
        ),
        incomplete,
    )
    for name in dict.fromkeys(bound.sources.values()):
        known = facts.value(name)
        if known is not None:
            context.offer_value(name, known.value, why=known.why, counts=known.counts)


def values_of_result(result: VerificationResult, names: Iterable[str]) -> dict[str, KnownValue]:
    """Return the known values with the given names: those that the result contains, and otherwise those computed from
    its answer, with a reason in place of a value that results do not contain, such as the cost. Unknown names are
    omitted.
    """
    template = result.template
    trace = [Message.from_dict(message) for message in template.trace_messages]
    generated = (template.usage_metadata or {}).get("answer_generation", {})
    conversation = result.extensions.get(OWNER, {}).get("conversation")
    uncounted = isinstance(conversation, Mapping) and conversation.get("uncounted_turns")
    uncounted = uncounted or any(_UNCOUNTED in owned for owned in result.extensions.values())
    facts = AnswerFacts(
        traces.final_ai_message(trace) if trace else template.raw_llm_response,
        trace,
        (not uncounted and generated.get("output_tokens")) or _NOT_IN_RESULTS,
        _NOT_IN_RESULTS,
        _NOT_IN_RESULTS,
        _stopped_by(
            turns=template.recursion_limit_reached,
            output=template.response_truncated,
            filtered=template.response_refused,
        ),
        INCOMPLETE.get(conversation.get("ended")) if isinstance(conversation, Mapping) else None,
    )
    stored = template.known_values or {}
    found = {name: stored.get(name) or facts.value(name) for name in names}
    return {name: known for name, known in found.items() if known is not None}


def uncounted_turns(turns: Sequence[Usage]) -> int:
    """Return the number of turns without output tokens if other turns have some, so that their sum is too small."""
    counted = sum(usage.output_tokens > 0 for usage in turns)
    return len(turns) - counted if counted else 0


def note_uncounted_calls(context: VerificationContext, turns: Sequence[Usage]) -> None:
    """Store how many of an answer's calls state no output tokens, if others do, so that their sum is too small."""
    notes = context.call_info.notes
    if notes is not None and notes.uncounted and any(usage.output_tokens for usage in turns):
        context.set_result_field(_UNCOUNTED, notes.uncounted)


def _stopped_by(*, turns: bool, output: bool, filtered: bool) -> StoppedBy:
    """Return what ended an answer early, the limit on turns first."""
    return "turns" if turns else "output" if output else "filter" if filtered else "nothing"


def _output_tokens(turns: Sequence[Usage], id: str | None, notes: CallNotes | None) -> int | str:
    """Return the output tokens of all turns, or the reason why they are not known. `id` is the model, or None for a
    recording, and `notes` describes the calls that an agent made.

    A recording contains the tokens of all turns together. An agent makes several calls in a turn.
    """
    missing = uncounted_turns(turns)
    if id is not None and missing:
        return f"the server of {id!r} counted no output tokens in {missing} of {len(turns)} turns"
    if id is not None and notes is not None and notes.uncounted and any(usage.output_tokens for usage in turns):
        return f"the server of {id!r} counted no output tokens in {quantity(notes.uncounted, 'call')} of an agent"
    counted = "the recording contains" if id is None else f"the server of {id!r} counted"
    return sum(usage.output_tokens for usage in turns) or f"{counted} no output tokens"


def _value_or_reason(value: float | str) -> KnownValue:
    """Return a known value that contains the number or, if `value` is a string, the reason why it is not known."""
    return KnownValue(why=value) if isinstance(value, str) else KnownValue(value=value)


def _seconds(notes: CallNotes | None) -> float | str:
    """Return the duration of the successful requests in seconds, without waiting, or the reason why it is not known."""
    if notes is None or not notes.answered:
        return "the journal does not state how long the answer took, because an older version wrote it"
    return round(notes.answered, SECONDS_DIGITS)


def _cost(id: str, notes: CallNotes | None) -> float | str:
    """Return the cost of the answer's calls in dollars, or the reason why it is not known. The cost is based on the
    prices in the run that made the calls.
    """
    if notes is None or notes.cost is None:
        return (
            f"when {id!r} answered, its price was unknown, its server counted no tokens, or the answer cost something "
            f"that has no price, such as searches; set prices.{id} = {{input = ..., output = ...}} in the "
            "configuration, in US dollars per million tokens, with web_searches if the server searches, and answer "
            "again with a new journal"
        )
    return notes.cost / _PICODOLLARS


def _calls(trace: Sequence[Message]) -> list[ToolCall]:
    return [call for message in trace for call in message.tool_calls]


def plain_tool_name(name: str) -> str:
    """Return a tool's name without the prefix `mcp__SERVER__`, which some agents add to the tools of MCP servers."""
    parts = name.split("__", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "mcp" and parts[2] else name


def find_arguments(trace: Sequence[Message], path: str) -> list[Any]:
    """Return the arguments of every call of a tool, in order, or the value in them at a path, with None for a call that
    has no value there. `path` is the tool's name, with or without `mcp__SERVER__`, and optionally a dot and keys or
    list indexes separated by dots.
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
    """Return the entry of a dictionary or list at `step`, or None if there is no such entry."""
    if isinstance(value, Mapping):
        return value.get(step)
    if isinstance(value, list | tuple) and step.isascii() and step.isdecimal():
        return value[int(step)] if int(step) < len(value) else None
    return None
