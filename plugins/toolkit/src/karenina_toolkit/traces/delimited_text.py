"""Traces in the text format of the reference project, with headings such as `--- AI Message ---`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS

_HEADING: Final = re.compile(
    r"^--- (?:(?P<role>AI|Human|System) Message|Tool Message \(call_id: (?P<call>.*)\)|Thinking) ---$", re.MULTILINE
)
_ROLES: Final[dict[str, Role]] = {"AI": "assistant", "Human": "user", "System": "system"}
_CALLS: Final = re.compile(r"(?:\A|\n)\n?Tool Calls:\s*(?=\S+ \(call_)")
_CALL: Final = re.compile(
    r"(?:^ *|  )(?P<name>\S+) \(call_(?P<id>[^\n]{0,200}?)\)\s{0,9}Call ID: (?P=id)", re.MULTILINE
)
_ARGUMENTS: Final = re.compile(r"\s*Args: (?P<given>.*)", re.DOTALL)
_FAILED: Final = "[ERROR] "


def is_delimited(text: str) -> bool:
    """Return whether `text` begins with a heading of this format."""
    return _HEADING.match(text.lstrip()) is not None


def read_delimited(text: str) -> list[Message]:
    """Return the messages of a text that begins with a heading.

    A heading inside a message looks the same as one between messages, so use this only for texts that are known to be
    in this format, and prefer recordings of messages if there are any.
    """
    text = text.strip()
    found = list(_HEADING.finditer(text))
    ends = [*(heading.start() for heading in found[1:]), len(text)]
    names: dict[str, str] = {}
    messages: list[Message] = []
    thought: str | None = None
    for heading, end in zip(found, ends, strict=True):
        content = text[heading.end() : end].strip("\n")
        call = heading["call"]
        if call is not None:
            messages.append(_result(content, call, names))
        elif heading["role"] is None:
            thought = content if thought is None else f"{thought}\n{content}"
        elif heading["role"] == "AI":
            text_part, calls = _split_calls(content)
            names.update((one.id, one.name) for one in calls)
            messages.append(Message.assistant(text_part, calls, thought))
            thought = None
        else:
            messages.append(Message(_ROLES[heading["role"]], content))
    if thought is not None:
        messages.append(Message.assistant("", (), thought))
    return messages


def _result(content: str, call: str, names: dict[str, str]) -> Message:
    failed = content.startswith(_FAILED)
    name = names.get(call) or names.get(call.removeprefix("call_"))
    return Message("tool", content.removeprefix(_FAILED), tool_call_id=call, tool_name=name, is_error=failed)


def _split_calls(content: str) -> tuple[str, list[ToolCall]]:
    """Return the text and the tool calls of an assistant message."""
    sections = list(_CALLS.finditer(content))
    if not sections:
        return content, []
    section = sections[-1]
    return content[: section.start()].rstrip("\n"), list(_calls(content[section.end() :]))


def _calls(section: str) -> Iterator[ToolCall]:
    found = list(_CALL.finditer(section))
    ends = (*(call.start() for call in found[1:]), len(section))
    for call, end in zip(found, ends, strict=False):
        given = _ARGUMENTS.match(section[call.end() : end].rstrip())
        yield ToolCall(call["id"], call["name"], _arguments(given["given"]) if given is not None else {})


def _arguments(text: str) -> dict[str, Any]:
    """Return arguments that were written as a Python literal or as JSON; others are kept as text."""
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
        if isinstance(found, dict):
            return {str(key): value for key, value in found.items()}
    return {UNREADABLE_ARGUMENTS: text}
