"""How the last reply in a recording ended, according to the recording."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeGuard

from karenina_core.models.ports import FinishReason
from karenina_toolkit.replies.reply_ends import read_choice_end, read_end
from karenina_toolkit.traces.formats import (
    adk,
    ag_ui_events,
    ai_sdk,
    inspect_ai,
    langchain,
    opentelemetry,
    pydantic_ai,
)
from karenina_toolkit.traces.formats.coding_agents import claude_code, codex, gemini_cli, swe_agent
from karenina_toolkit.traces.formats.openai_chat import refused

END_KEYS: Final = ("finish_reason", "finishReason", "stop_reason", "stopReason", "done_reason")
"""The keys under which programs store the reason why a reply ended."""

_INNER: Final = ("data", "kwargs", "message", "response_metadata", "additional_kwargs", "incomplete_details")
_REPLIES: Final = ("choices", "candidates")
_ABOUT: Final = frozenset({"ended", "reached"})
_OTHERS: Final = ("user", "human", "tool", "system")
_BROKEN: Final = ("incomplete", "failed", "cancelled")


def find_end(recording: object) -> tuple[FinishReason, str | None]:
    """Return the finish reason of the last reply in a recording, such as "length", and the server's own reason if the
    first is "failed" or "other", otherwise None. If the recording states none, the result is ("stop", None). A refusal
    counts as "content_filter", as it does for a live model.
    """
    end: tuple[FinishReason, str | None] | None = None
    for holder in _iter_holders(recording):
        if refused(holder) or _is_refusal(holder.get("content")):
            return "content_filter", None
        end = end or _read_holder(holder)
    return end or ("stop", None)


def _read_holder(holder: Mapping[str, Any]) -> tuple[FinishReason, str | None] | None:
    """Return the finish reason in an object, or the status of an incomplete reply, in the form of `find_end`. If it has
    neither, return None. How a whole run of Claude Code or sample of Inspect ended precedes how its last reply did.
    """
    for program in (adk, ag_ui_events, ai_sdk, claude_code, codex, gemini_cli, inspect_ai, pydantic_ai, swe_agent):
        if (stopped := program.find_stop(holder)) is not None:
            return read_end(stopped)
    stated = next((holder[key] for key in END_KEYS if holder.get(key)), None)
    if stated is not None:
        return read_choice_end({**holder, "finish_reason": stated})
    if holder.get("status") in _BROKEN:
        details = holder.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, Mapping) else None
        return read_end(reason or holder["status"])
    return None


def find_conversation(recording: object) -> Mapping[str, Any] | None:
    """Return what a recording states about its conversation beside the messages, as Karenina exports it, or None."""
    about = recording.get("conversation") if isinstance(recording, Mapping) else None
    return about if isinstance(about, Mapping) and about and about.keys() <= _ABOUT else None


def is_limit_reached(recording: object) -> bool:
    """Return whether a recording states that its agent reached a limit of turns, as Karenina exports it, in a result of
    Claude Code or the Gemini CLI, or in the message with which LangGraph or LangChain ends such a run.
    """
    if isinstance(recording, Mapping) and recording.get("limit_reached") is True:
        return True
    holders = _iter_holders(recording)
    return any(program.is_turn_limit(holder) for holder in holders for program in (claude_code, gemini_cli, langchain))


def add_end(recording: Any, row: Mapping[str, Any]) -> Any:
    """Return the recording with the facts about its end that `row` states next to it, such as a finish reason, unless
    the recording itself states them. This converts a string to an assistant message, and a list of messages to an
    object. If `row` states none, or the recording has `replicates`, it is returned unchanged.
    """
    beside = {key: row[key] for key in END_KEYS if row.get(key)}
    if (about := find_conversation(row)) is not None:
        beside["conversation"] = about
    if is_limit_reached(row):
        beside["limit_reached"] = True
    if not beside:
        return recording
    if isinstance(recording, str):
        return {"role": "assistant", "content": recording, **beside}
    if _is_list(recording):
        return {"messages": recording, **beside}
    if isinstance(recording, Mapping) and "replicates" not in recording:
        return {**beside, **recording}
    return recording


def _iter_holders(recording: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that may contain the finish reason of the last reply, in order of precedence."""
    if _is_list(recording):
        if recording:
            lines = [entry for entry in recording if isinstance(entry, Mapping)]
            found = (program.find_last(lines) for program in (adk, ag_ui_events, claude_code, codex, gemini_cli))
            yield from _iter_entry(next(filter(None, found), recording[-1]))
        return
    if not isinstance(recording, Mapping):
        return
    spans = opentelemetry.find_spans(recording)
    if spans:
        yield from _iter_holders(opentelemetry.find_last_output(spans))
        return
    if adk.is_session(recording):
        yield from _iter_holders(recording["events"])
    exchanges = recording.get("exchanges")
    if _is_list(exchanges):
        last = exchanges[-1] if exchanges else None
        yield from _iter_holders(last.get("response") if isinstance(last, Mapping) else None)
        return
    yield from _iter_entry(recording)
    for key in _REPLIES:
        if _is_list(recording.get(key)) and recording[key]:
            yield from _iter_entry(recording[key][0])
    for key in ("values", "channel_values", "checkpoint"):
        if (inner := recording.get(key)) is not None:
            yield from _iter_holders(inner)
    output = recording.get("output")
    if isinstance(output, Mapping):  # of an Inspect sample; in the Responses API, it is a list
        yield from _iter_holders(output)
    for key in ("output", "messages", "contents"):
        if _is_list(recording.get(key)):
            yield from _iter_holders(recording[key])


def _iter_entry(entry: object) -> Iterator[Mapping[str, Any]]:
    """Yield an entry of the model and the objects in it that may contain a finish reason. For other entries, nothing is
    yielded.
    """
    if not isinstance(entry, Mapping) or entry.get("role", entry.get("type")) in _OTHERS:
        return
    yield entry
    for key in _INNER:
        if (inner := entry.get(key)) is not None:
            yield from _iter_entry(inner)


def _is_refusal(content: object) -> bool:
    parts = content if _is_list(content) else ()
    return any(isinstance(part, Mapping) and part.get("type") == "refusal" for part in parts)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether a value is a sequence other than a string."""
    return value is not None and not isinstance(value, str) and isinstance(value, Sequence)
