"""Sessions of OpenAI's Codex CLI: the lines of a rollout file, or the events that `codex exec --json` prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, TurnBuilder, as_json, in_entry
from karenina_toolkit.traces.formats import openai_responses
from karenina_toolkit.traces.formats.openai_chat import read_arguments, read_result

Entry = Mapping[str, Any]
_META: Final = "session_meta"
_OF_AGENTS: Final = ("inter_agent_communication", "inter_agent_communication_metadata")
_LINES: Final = (_META, "response_item", "event_msg", "turn_context", "compacted", "world_state", *_OF_AGENTS)
_SUMMARIES: Final = ("compacted", "compaction", "context_compaction")
_BOOKKEEPING: Final = ("ghost_snapshot", "additional_tools")
_THREAD: Final = "thread.started"
_TURNS: Final = (_THREAD, "turn.started", "turn.completed", "turn.failed")
_ITEMS: Final = ("item.started", "item.updated", "item.completed")
_OTHERS: Final = ("error", "item.plan.delta", "request_user_input")
_BEGUN: Final = ("task_started", "turn_started", "turn.started")
_COMPLETED: Final = ("task_complete", "turn_complete", "turn.completed")
_STOPPED: Final = ("turn_aborted", "turn.failed", "error")
_ROLLED_BACK: Final = "thread_rolled_back"
_TEXTS: Final = ("agent_message", "assistant_message", "plan")
_TOOLS: Final = ("command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search", "todo_list")
_ARGUMENTS: Final = ("command", "changes", "prompt", "receiver_thread_ids", "query", "items")
_FAILED: Final = ("failed", "declined")


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a line of a Codex rollout, or an event of `codex exec --json`."""
    kind = entry.get("type")
    if kind in _LINES:
        return isinstance(entry.get("payload"), Mapping)
    if kind in _ITEMS:
        return isinstance(entry.get("item"), Mapping)
    return kind in _TURNS or entry.get("record_type") == "state"


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the lines of a Codex session to messages. What other lines repeat is omitted, and so are turns that were
    rolled back. A summary of earlier messages becomes a system message. A note on the last reply counts lines of
    unknown types. Raises `TraceFormatError` if a line cannot be read, or if there are several sessions.
    """
    unknown = Counter[str]()
    notes: list[str] = []
    if any(entry.get("type") in (*_TURNS, *_ITEMS) for entry in entries):
        messages = list(_read_events(entries, unknown, notes))
    else:
        numbers, items = _select_items(entries, unknown)
        while items and items[-1].get("type") in _SUMMARIES:
            notes.append("a summary after the last message was left out")
            items.pop()
        messages = list(openai_responses.read(items, numbers))
    if unknown:
        lines = "1 line" if unknown.total() == 1 else f"{unknown.total()} lines"
        notes.append(f"{lines} of unknown types left out: {', '.join(unknown)[:200]}")
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=None)
    if notes and last is not None:
        messages[last] = replace(messages[last], notes=(*messages[last].notes, *notes))
    yield from messages


def find_last(entries: Sequence[Entry]) -> Entry | None:
    """Return the line that states how the last turn of a session ended, or the one with which it began if no line
    states its end. If there is neither, or `entries` are not lines of a session, return None.
    """
    last: Entry | None = None
    for line in entries if any(map(claims, entries)) else ():
        kind, about = _read_event(line)
        failed = last is not None and _read_event(last)[0] == "error" and kind == "task_complete"
        if kind in (*_BEGUN, *_STOPPED) or (
            kind in _COMPLETED and not (failed and not about.get("last_agent_message"))
        ):
            last = line
        elif kind == _ROLLED_BACK:
            last = None
    return last


def find_stop(entry: Entry) -> str | None:
    """Return the reason why a turn ended early, if `entry` is a line about one that failed, was interrupted, reached
    its budget or has no end. Otherwise, return None.
    """
    kind, about = _read_event(entry)
    if kind in _BEGUN:
        return "error: the session ends in the middle of a turn"
    if kind == "turn_aborted":
        return "limit" if about.get("reason") == "budget_limited" else f"error: the turn was {about.get('reason')}"
    error = about if kind == "error" else about.get("error") if kind in ("turn.failed", *_COMPLETED) else None
    return f"error: {error.get('message')}" if isinstance(error, Mapping) and "message" in error else None


def _read_event(line: Entry) -> tuple[object, Entry]:
    """Return the type of the event in a line, and the object that describes it."""
    payload = line.get("payload")
    if line.get("type") == "event_msg" and isinstance(payload, Mapping):
        return payload.get("type"), payload
    return line.get("type"), line


def _select_items(entries: Sequence[Entry], unknown: Counter[str]) -> tuple[list[int], list[Entry]]:
    """Return the items of the Responses API in the lines of a rollout that were not rolled back, with the lines'
    numbers, and count lines of unknown types. Raises `TraceFormatError` if a line has no payload, or if another session
    begins.

    Until September 2025, lines were the items themselves.
    """
    numbers: list[int] = []
    items: list[Entry] = []
    prompts: list[int] = []
    sessions: set[str] = set()
    for number, entry in enumerate(entries, 1):
        kind, payload = entry.get("type"), entry.get("payload")
        item: Entry | None = None
        with in_entry(number):
            if not isinstance(payload, Mapping):
                if kind in _LINES:
                    raise TraceFormatError(f"a line of the type {kind} has no payload")
                item = entry if isinstance(kind, str) else None
            elif kind == _META:
                has_begun = any(item.get("role") != "system" for item in items)
                item = _begin_session(payload, sessions, has_begun=has_begun)
            elif kind == "response_item":
                item = payload
            elif kind == "compacted":
                item = {"type": "compacted", "message": payload.get("message")}
            elif kind == "event_msg":
                if _is_prompt(payload):
                    prompts.append(len(items) - 1 if items and items[-1].get("role") == "user" else len(items))
                elif payload.get("type") == _ROLLED_BACK:
                    start = _find_rolled_back(payload, prompts, items)
                    del items[start:], numbers[start:]
                    prompts = [place for place in prompts if place < start]
            elif kind not in _LINES:
                unknown[str(kind)] += 1
        if item is not None and item.get("type") not in _BOOKKEEPING:
            numbers.append(number)
            items.append(item)
    return numbers, items


def _begin_session(about: Entry, sessions: set[str], *, has_begun: bool) -> Entry | None:
    """Return the instructions of a session as an item, or None if it has none or is not the first one, and add its id,
    and that of the session it continues, to `sessions`. Raises `TraceFormatError` if it is not one of these although
    another one has begun.
    """
    name = str(about.get("id"))
    if has_begun and name not in sessions:
        raise TraceFormatError(f"another session begins ({name:.80}); a trace must have only one session")
    instructions = about.get("base_instructions") if not sessions else None
    sessions.update(str(about.get(key)) for key in ("id", "forked_from_id", "parent_thread_id"))
    text = instructions.get("text") if isinstance(instructions, Mapping) else None
    return {"role": "system", "content": text} if isinstance(text, str) and text else None


def _is_prompt(event: Entry) -> bool:
    """Return whether an event repeats a message that the user wrote."""
    item = event.get("item")
    if event.get("type") == "item_completed" and isinstance(item, Mapping):
        return item.get("type") == "UserMessage"
    return event.get("type") == "user_message"


def _find_rolled_back(event: Entry, prompts: Sequence[int], items: Sequence[Entry]) -> int:
    """Return the place of the first item that an event rolls back. Raises `TraceFormatError` if the event does not
    state how many turns it rolls back.
    """
    count = event.get("num_turns")
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise TraceFormatError(f"a {_ROLLED_BACK} has no num_turns")
    places = prompts or [place for place, item in enumerate(items) if item.get("role") == "user"]
    return len(items) if not count else places[-count] if count <= len(places) else min(places, default=0)


def _read_events(entries: Sequence[Entry], unknown: Counter[str], notes: list[str]) -> Iterator[Message]:
    """Convert the events of `codex exec --json` to messages, count those of unknown types, and add errors that did not
    end the turn to the notes. Raises `TraceFormatError` if an event cannot be read, or if another session begins.
    """
    turn = TurnBuilder()
    calls: dict[str, ToolCall] = {}
    thread: object = None
    for number, entry in enumerate(entries, 1):
        kind, item = entry.get("type"), entry.get("item")
        with in_entry(number):
            if kind in _TURNS:
                calls = {}  # each run counts its items from 0
                if kind == _THREAD and thread not in (None, entry.get("thread_id")):
                    raise TraceFormatError("another session begins; a trace must have only one session")
                thread = entry.get("thread_id") if kind == _THREAD else thread
            elif kind in _ITEMS:
                if not isinstance(item, Mapping):
                    raise TraceFormatError(f"a line of the type {kind} has no item")
                yield from _read_item(item, turn, calls, unknown, notes, has_ended=kind == "item.completed")
            elif kind not in _OTHERS:
                unknown[str(kind)] += 1
    yield from turn.close()


def _read_item(
    item: Entry,
    turn: TurnBuilder,
    calls: dict[str, ToolCall],
    unknown: Counter[str],
    notes: list[str],
    *,
    has_ended: bool,
) -> Iterator[Message]:
    """Add an item to the turn, and yield the messages that are complete. Each text begins a message. A call is added
    when its item first appears, and its result follows when it has ended; a list of tasks, which is updated until the
    end, has none.
    """
    kind = item.get("type", item.get("item_type"))
    name = str(item.get("id"))
    if kind in _TOOLS:
        if name not in calls:
            calls[name] = _read_call(str(kind), item)
            turn.add_call(calls[name])
        if has_ended and kind != "todo_list":
            yield from turn.close()
            yield _read_tool_result(item, calls[name])
    elif not has_ended:
        return
    elif kind in _TEXTS:
        if turn.text or turn.has_calls:
            yield from turn.close()
        turn.add_text(str(item.get("text") or ""))
    elif kind == "reasoning":
        if turn.text or turn.has_calls:
            yield from turn.close()
        turn.add_thought(str(item.get("text") or ""))
    elif kind == "error":
        notes.append(f"an error was reported: {str(item.get('message'))[:300]}")
    else:
        unknown[str(kind)] += 1


def _read_call(kind: str, item: Entry) -> ToolCall:
    """Convert an item to a call. Other calls than those of a named tool are named after the item's type."""
    name = item.get("tool") if kind in ("mcp_tool_call", "collab_tool_call") else None
    arguments = item.get("arguments") if kind == "mcp_tool_call" else None
    given = {key: item[key] for key in _ARGUMENTS if item.get(key) is not None}
    return ToolCall(str(item.get("id")), str(name or kind), read_arguments(arguments) if arguments else given)


def _read_tool_result(item: Entry, call: ToolCall) -> Message:
    """Return the result of a call that has ended: what it printed or returned, or its error or status."""
    error, code, result = item.get("error"), item.get("exit_code"), item.get("result")
    if isinstance(error, Mapping):
        text = str(error.get("message"))
    elif isinstance(result, Mapping):
        text = read_result(result.get("content") or result.get("structured_content"))
    elif "aggregated_output" in item:
        text = str(item.get("aggregated_output") or "")
    else:
        text = as_json({key: item[key] for key in ("agents_states", "action", "status") if item.get(key)})
    if code:
        text = "\n".join(filter(None, (text, f"exit code {code}")))
    return Message.tool(text, call, is_error=bool(error or code) or item.get("status") in _FAILED)
