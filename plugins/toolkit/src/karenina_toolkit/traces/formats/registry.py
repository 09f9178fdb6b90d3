"""The formats of recordings, and detecting the format of a recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError, in_entry
from karenina_toolkit.traces.formats import (
    adk,
    ag_ui,
    ag_ui_events,
    ai_sdk,
    anthropic,
    autogen,
    bedrock,
    google,
    inspect_ai,
    langchain,
    openai_chat,
    openai_responses,
    opentelemetry,
    own_messages,
    pydantic_ai,
)
from karenina_toolkit.traces.formats.coding_agents import claude_code, codex, gemini_cli, swe_agent

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Format:
    """A format of recordings.

    `claims` returns whether an entry can only be in this format. `read` converts all entries, and raises a
    `TraceFormatError` that states the number of the entry (from 1). If `needs_role` is False, entries may lack a role.
    `includes` is the name of another format whose entries may be mixed in.
    """

    name: str
    claims: Callable[[Entry], bool]
    read: Callable[[Sequence[Entry]], Iterable[Message]]
    needs_role: bool = True
    includes: str | None = None


def _claims_openai(entry: Entry) -> bool:
    """Return whether an entry has calls in a form that only OpenAI's chat messages use."""
    calls = entry.get("tool_calls")
    if isinstance(calls, Sequence) and calls and isinstance(calls[0], Mapping):
        return isinstance(calls[0].get("function"), Mapping) or "custom" in calls[0]
    return isinstance(entry.get("function_call"), Mapping)


def _read_openai(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert entries of OpenAI's Chat Completions to messages. Raises `TraceFormatError` if an entry cannot be read,
    or if they are an AutoGen 0.2 history with swapped roles.
    """
    autogen.check_history(entries)
    names: dict[str, str] = {}
    for number, entry in enumerate(entries, 1):
        with in_entry(number):
            message = openai_chat.read_message(_nest_calls(entry), names)
        names.update((call.id, call.name) for call in message.tool_calls)
        yield message


def _nest_calls(entry: Entry) -> Entry:
    """Return the entry with a `function` in each call that has its name and arguments at the top level."""
    calls = entry.get("tool_calls")
    if not isinstance(calls, Sequence) or not any(_is_flat(call) for call in calls):
        return entry
    return {**entry, "tool_calls": [{**call, "function": call} if _is_flat(call) else call for call in calls]}


def _is_flat(call: object) -> bool:
    """Return whether a call has its name and arguments at the top level."""
    return isinstance(call, Mapping) and "function" not in call and "name" in call and "arguments" in call


OPENAI: Final = Format("OpenAI chat messages", _claims_openai, _read_openai)
RESPONSES: Final = Format("OpenAI Responses items", openai_responses.claims, openai_responses.read, needs_role=False)
ANTHROPIC: Final = Format("Anthropic messages", anthropic.claims, anthropic.read)
GOOGLE: Final = Format("Google contents", google.claims, google.read, needs_role=False)
BEDROCK: Final = Format("Amazon Bedrock messages", bedrock.claims, bedrock.read)
LANGCHAIN: Final = Format("LangChain messages", langchain.claims, langchain.read, False, OPENAI.name)
OPENAI_AGENTS: Final = Format(
    "OpenAI Agents items", openai_responses.claims_run_item, openai_responses.read_run_items, False, RESPONSES.name
)
AUTOGEN: Final = Format("AutoGen messages", autogen.claims, autogen.read, needs_role=False)
OPENTELEMETRY: Final = Format("OpenTelemetry messages", opentelemetry.claims, opentelemetry.read)
INSPECT: Final = Format("Inspect messages", inspect_ai.claims, inspect_ai.read)
CLAUDE_CODE: Final = Format("Claude Code transcripts", claude_code.claims, claude_code.read, needs_role=False)
CODEX: Final = Format("Codex sessions", codex.claims, codex.read, False, RESPONSES.name)
GEMINI_CLI: Final = Format("Gemini CLI sessions", gemini_cli.claims, gemini_cli.read, needs_role=False)
ADK: Final = Format("Google ADK events", adk.claims, adk.read, needs_role=False)
AG_UI: Final = Format("AG-UI messages", ag_ui.claims, ag_ui.read)
AG_UI_EVENTS: Final = Format("AG-UI events", ag_ui_events.claims, ag_ui_events.read, False, AG_UI.name)
AI_SDK: Final = Format("AI SDK messages", ai_sdk.claims, ai_sdk.read)
PYDANTIC_AI: Final = Format("Pydantic AI messages", pydantic_ai.claims, pydantic_ai.read, needs_role=False)
SWE_AGENT: Final = Format("SWE-agent trajectories", swe_agent.claims, swe_agent.read, includes=OPENAI.name)
TRACE_MESSAGES: Final = Format("trace_messages", own_messages.claims_reference, own_messages.read_reference)
OWN: Final = Format("Karenina's own", own_messages.claims, own_messages.read)
FORMATS: Final = (
    OPENAI,
    RESPONSES,
    ANTHROPIC,
    GOOGLE,
    BEDROCK,
    LANGCHAIN,
    OPENAI_AGENTS,
    AUTOGEN,
    OPENTELEMETRY,
    INSPECT,
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    ADK,
    AG_UI,
    AG_UI_EVENTS,
    AI_SDK,
    PYDANTIC_AI,
    SWE_AGENT,
    TRACE_MESSAGES,
    OWN,
)
_WITHOUT_ROLE: Final = tuple(entry for entry in FORMATS if not entry.needs_role)
NAMES: Final = ", ".join(entry.name for entry in FORMATS)
_TIMES: Final = ("created_at", "createdAt", "timestamp", "create_time")
_SAID: Final = (
    "content",
    "tool_calls",
    "function_call",
    "refusal",
    "audio",
    "tool_call_id",
    *openai_chat.REASONING_FIELDS,
)


def read_entries(entries: Sequence[object], format: Format | None = None) -> list[Message]:
    """Convert `entries` to messages. If `format` is None, it is detected, and the default is OpenAI chat messages.
    Raises `TraceFormatError` if an entry is not in the format, if formats are mixed, or if the newest entry comes
    first.
    """
    shown = format or detect_format(entries)
    needs_role = shown is None or shown.needs_role
    checked: list[Entry] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, Mapping) or (needs_role and not isinstance(entry.get("role"), str)):
            raise TraceFormatError(f"entry {number} is not a message with a role; the known formats are {NAMES}")
        if shown is None and not entry.keys() & set(_SAID) and entry.keys() - {"role"}:
            held = ", ".join(sorted(map(str, entry)))
            raise TraceFormatError(
                f"entry {number} has an unknown format; its keys are {held}, and the known formats are {NAMES}"
            )
        checked.append(entry)
    _check_order(checked)
    return list((shown or OPENAI).read(checked))


def _check_order(entries: Sequence[Entry]) -> None:
    """Raise `TraceFormatError` if timestamps show that the newest entry comes first, as in the lists returned by some
    services.
    """
    for key in _TIMES:
        times = [entry.get(key) for entry in entries]
        numbers = [time for time in times if isinstance(time, int | float)]
        texts = [time for time in times if isinstance(time, str)]
        if len(times) in (len(numbers), len(texts)) and _descends(numbers or texts):
            raise TraceFormatError(f"the entries are sorted by {key} from newest to oldest; put the oldest entry first")


def _descends(times: Sequence[Any]) -> bool:
    """Return whether the times never increase, and the first is later than the last."""
    pairs = list(pairwise(times))
    return bool(pairs) and times[0] > times[-1] and all(first >= second for first, second in pairs)


def find_owners(entry: object) -> list[Format]:
    """Return the formats of which `entry` can only be in one, or an empty list if it may be in several."""
    if not isinstance(entry, Mapping):
        return []
    candidates = FORMATS if isinstance(entry.get("role"), str) else _WITHOUT_ROLE
    return [candidate for candidate in candidates if candidate.claims(entry)]


def detect_format(entries: Sequence[object]) -> Format | None:
    """Return the only possible format of the entries, or None if they may be OpenAI chat messages. Raises
    `TraceFormatError` if different entries, or parts of an entry, have different formats.
    """
    owners: dict[str, tuple[Format, int]] = {}
    for number, entry in enumerate(entries, 1):
        for owner in find_owners(entry):
            owners.setdefault(owner.name, (owner, number))
    for candidate, _ in list(owners.values()):
        owners.pop(candidate.includes or "", None)
    if len(owners) > 1:
        (one, first), (other, second), *_ = owners.values()
        raise TraceFormatError(
            f"entry {first} has the format {one.name}, but entry {second} has the format {other.name}; a trace must "
            "have only one format"
        )
    return next((candidate for candidate, _ in owners.values()), None)
