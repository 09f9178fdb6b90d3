"""Claude Code transcripts: the lines of a session file or of JSON output."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.formats import anthropic

Entry = Mapping[str, Any]
_SPEAKERS: Final = ("user", "assistant")
_SESSION: Final = ("sessionId", "session_id", "parentUuid", "leafUuid")
_RESULT: Final = "result"
_TURN_LIMIT: Final = "error_max_turns"
_COST_LIMIT: Final = "error_max_budget_usd"
_FAILED: Final = "error: a request failed"


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a line of a Claude Code session that contains a message or describes the session."""
    kind = entry.get("type")
    if not isinstance(kind, str) or "role" in entry or kind == "init":  # which only the Gemini CLI writes
        return False
    return (kind in _SPEAKERS and isinstance(entry.get("message"), Mapping)) or any(key in entry for key in _SESSION)


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the lines of a Claude Code session to messages. The lines of a reply become a single message, followed by
    its tool results. Lines without a message, after a prompt that was taken back, and of subagents (unless there are no
    others) are omitted. Raises `TraceFormatError` if a line cannot be read.

    Lines without a message are summaries, snapshots and progress. The results of subagents are kept. A failed request
    looks like a reply, but becomes a system message. If there is no other text, the text of a `result` is the answer.
    """
    lines = list(_select_lines(entries))
    gathered: list[tuple[int, dict[str, Any]]] = []
    replies: dict[str, dict[str, Any]] = {}
    for number, entry in lines:
        message = entry["message"]
        role, name = str(entry["type"]), message.get("id")
        blocks = _blocks(message.get("content"), number)
        if entry.get("isApiErrorMessage"):
            role = "system"
        reply = replies.get(name) if role == "assistant" and isinstance(name, str) else None
        if reply is not None:
            reply["content"] += [block for block in blocks if block not in reply["content"]]
            continue
        converted = {"role": role, "content": blocks}
        if role == "assistant" and isinstance(name, str):
            replies[name] = converted
        gathered.append((number, converted))
    yield from anthropic.read([entry for _, entry in gathered], [number for number, _ in gathered])
    if not any(entry["role"] == "assistant" for _, entry in gathered):
        yield from _read_results(entries)


def find_last(entries: Sequence[Entry]) -> Entry | None:
    """Return the last line of a session that contains a message or the result of the run, which other lines may follow.
    If `entries` are not lines of a session, return None.
    """
    lines = filter(claims, reversed(entries))
    return next((line for line in lines if line["type"] in (*_SPEAKERS, _RESULT) and not _is_of_subagent(line)), None)


def is_turn_limit(entry: Entry) -> bool:
    """Return whether `entry` is the result of a run that reached its limit of turns."""
    return entry.get("type") == _RESULT and entry.get("subtype") == _TURN_LIMIT


def find_stop(entry: Entry) -> str | None:
    """Return the reason why a run ended early, if `entry` is a failed request or the result of a run that failed or
    reached its limit of costs. Otherwise, also for a limit of turns, return None.
    """
    if entry.get("isApiErrorMessage"):
        return _FAILED
    kind = entry.get("subtype")
    if entry.get("type") != _RESULT or not isinstance(kind, str) or kind == _TURN_LIMIT:
        return None
    if kind.startswith("error"):
        return "limit" if kind == _COST_LIMIT else f"error: {kind}"
    return _FAILED if entry.get("is_error") is True else None


def _read_results(entries: Sequence[Entry]) -> Iterator[Message]:
    """Yield the text of each `result` line as an assistant message or, if it is an error, as a system message."""
    for entry in entries:
        if entry.get("type") == _RESULT and isinstance(entry.get("result"), str):
            text = entry["result"]
            yield Message.system(text) if entry.get("is_error") else Message.assistant(text)


def _select_lines(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry]]:
    """Yield the number and entry of each line that belongs to the conversation, without repeated lines and prompts that
    were taken back. Subagents' lines are only yielded if there are no others.
    """
    lines = [
        (number, entry)
        for number, entry in enumerate(entries, 1)
        if entry.get("type") in _SPEAKERS and isinstance(entry.get("message"), Mapping)
    ]
    main = [(number, entry) for number, entry in lines if not _is_of_subagent(entry)]
    lines = main or lines  # the file of a subagent has no other lines
    left = _find_taken_back([entry for _, entry in lines])
    seen: set[str] = set()
    for number, entry in lines:
        name = entry.get("uuid")
        # Continuing a session may write its lines again. A line's parents are always earlier lines.
        if isinstance(name, str):
            parent = entry.get("parentUuid")
            if isinstance(parent, str) and parent in left:
                left.add(name)
            if name in seen or name in left:
                continue
            seen.add(name)
        yield number, entry


def _is_of_subagent(entry: Entry) -> bool:
    return bool(entry.get("isSidechain") or entry.get("parent_tool_use_id"))


def _find_taken_back(entries: Sequence[Entry]) -> set[str]:
    """Return the ids of prompts that were replaced by a later prompt with the same parent. The parent of a session's
    first prompt is null.
    """
    latest: dict[tuple[str, str], str] = {}
    left: set[str] = set()
    for entry in entries:
        name, parent = entry.get("uuid"), entry.get("parentUuid", 0)
        if not isinstance(name, str) or not isinstance(parent, str | None) or not _is_prompt(entry):
            continue
        session = f"{entry.get('sessionId')} {entry.get('agentId')}"  # a file may contain several
        place = ("after", parent) if parent is not None else ("first of", session)
        if latest.get(place, name) != name:
            left.add(latest[place])
        latest[place] = name
    return left


def _is_prompt(entry: Entry) -> bool:
    """Return whether an entry is a message that the user wrote, rather than a tool result, a summary or a line added by
    the program.
    """
    if entry["type"] != "user" or entry.get("isMeta") or entry.get("isCompactSummary"):
        return False
    content = entry["message"].get("content")
    listed = isinstance(content, Sequence) and not isinstance(content, str)
    blocks = content if listed else ()
    return not any(isinstance(block, Mapping) and block.get("type") == "tool_result" for block in blocks)


def _blocks(content: Any, number: int) -> list[Any]:
    """Return the blocks of a line's content, which may also be text or None. `number` is the line number. Raises
    `TraceFormatError` if the content is anything else.
    """
    if content is None or isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, Mapping) or not isinstance(content, Sequence):
        raise TraceFormatError(
            f"entry {number}: the content must be text or a list of blocks, not {type(content).__name__}"
        )
    return list(content)
