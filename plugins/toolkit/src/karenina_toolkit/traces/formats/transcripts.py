"""Conversations as text: with roles such as `User: ...`, printed by LangChain, or written by the reference."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from karenina_core.models.ports import Message, Role, ToolCall
from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.traces.blocks import TraceFormatError, TurnBuilder
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS

_LABELS: Final = {
    "system": ("system", "developer"),
    "user": ("user", "human"),
    "assistant": ("assistant", "ai", "bot", "final answer"),
    "thought": ("thinking", "thought", "reasoning"),
    "call": ("tool call", "function call", "action"),
    "arguments": ("action input",),
    "result": ("tool result", "tool output", "tool response", "tool error", "tool", "function", "observation"),
}
_KINDS: Final = {label: kind for kind, labels in _LABELS.items() for label in labels}
_LONGEST_FIRST: Final = "|".join(sorted(_KINDS, key=len, reverse=True))
_LABEL: Final = lazy_pattern(
    rf"^(?:\#{{1,6}}[ ]|\*\*)?(?P<label>{_LONGEST_FIRST})(?:[ ]\((?P<about>[^()\n]{{1,80}})\))?"
    r"(?:\*\*)?:(?:\*\*)?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_PRINTED: Final = lazy_pattern(
    r"^={4,}[ ](?P<label>Human|User|Ai|System|Developer|Tool|Function)[ ]Message[ ]={4,}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
_PRINTED_NAME: Final = lazy_pattern(r"\AName: (?P<name>[^\n]+)(?:\n|\Z)")
_PRINTED_CALLS: Final = lazy_pattern(r"(?:^|\n)(?:Invalid )?Tool Calls:\n(?=  \S+ \()")
_PRINTED_CALL: Final = lazy_pattern(r"^  (?P<name>\S+) \((?P<id>[^\n)]*)\)\n Call ID: [^\n]*\n", re.MULTILINE)
_PRINTED_ARGUMENT: Final = lazy_pattern(r"^    (?P<key>[^\s:]+): ?", re.MULTILINE)
_CALLED: Final = lazy_pattern(r"(?P<name>[\w.:/-]+)\s*(?:\((?P<inside>.*)\)|(?P<after>[{\[].*))?\s*", re.DOTALL)
_FAILED: Final = ("error", "failed", "failure")
_NO_TOOL: Final = ("none", "n/a", "null", "nothing")
"""The words and signs that stand for no action, in lower case."""
_DELIMITER: Final = lazy_pattern(
    r"^--- (?:(?P<role>AI|Human|System) Message|Tool Message \(call_id: (?P<call>.*)\)|Thinking) ---$", re.MULTILINE
)
_DELIMITED_ROLES: Final[dict[str, Role]] = {"AI": "assistant", "Human": "user", "System": "system"}
_DELIMITED_CALLS: Final = lazy_pattern(r"(?:\A|\n)\n?Tool Calls:\s*(?=\S+ \(call_)")
_DELIMITED_CALL: Final = lazy_pattern(
    r"(?:^ *|  )(?P<name>\S+) \(call_(?P<id>[^\n]{0,200}?)\)\s{0,9}Call ID: (?P=id)", re.MULTILINE
)
_DELIMITED_ARGUMENTS: Final = lazy_pattern(r"\s*Args: (?P<given>.*)", re.DOTALL)
_ERROR_MARK: Final = "[ERROR] "


def is_transcript(text: str) -> bool:
    """Return whether `text` is a transcript that contains an assistant message: it starts with a label for a user or
    the system, such as `User:`, and has one for an assistant, or LangChain's headings.
    """
    if _find_first(_PRINTED, text):
        return any(heading["label"].lower() == "ai" for heading in _PRINTED.finditer(text))
    first = _find_first(_LABEL, text)
    if first is None or _kind(first) not in ("system", "user"):
        return False
    return any(_kind(label) == "assistant" for label in _LABEL.finditer(text))


def read_transcript(text: str) -> list[Message]:
    """Convert a transcript, such as `User: ...` and `Assistant: ...`, or a conversation printed by LangChain, to
    messages. Raises `TraceFormatError` if it does not begin with a role.

    A line inside a message may look like a role. Use this only for text that is known to be a transcript, and prefer
    recordings of messages. Calls, such as `Tool call: search({"text": "x"})`, have arguments in JSON, and may also be
    written as `Action: search`, followed by `Action Input: ...` or not. Results, such as `Tool (search): ...` or
    `Tool (search, error): ...`, belong to the first open call.
    """
    text = text.strip()
    if _find_first(_PRINTED, text):
        return list(_read_printed(text))
    if _find_first(_LABEL, text) is None:
        raise TraceFormatError("the text does not begin with a role, such as 'User:'")
    return list(_read_labels(text))


def _find_first(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """Match `pattern` at the first character that is not whitespace."""
    return pattern.match(text, len(text) - len(text.lstrip()))


def _kind(label: re.Match[str]) -> str:
    """Return the kind of message that a label introduces, such as `assistant` or `result`."""
    return _KINDS[label["label"].lower()]


@dataclass
class _Calls:
    """The number of calls so far, and the calls that have no result yet."""

    count: int = 0
    waiting: list[ToolCall] | None = None

    def open(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolCall:
        """Return a new call, recorded as waiting for its result. If `call_id` is empty, the call gets an id."""
        self.count += 1
        call = ToolCall(call_id or f"call_{self.count}", name, arguments)
        self.waiting = [*(self.waiting or ()), call]
        return call

    def close(self, name: str | None, content: str, *, failed: bool) -> Message:
        """Return the tool message with `content`, which is an error if `failed`, for the first open call of the tool
        `name` (of any tool if it is None), and mark the call as done. If there is no open call, the message does not
        name one.
        """
        waiting = self.waiting or []
        call = next((candidate for candidate in waiting if name in (None, candidate.name)), None)
        if call is None:
            return Message("tool", content, tool_name=name, is_error=failed)
        waiting.remove(call)
        return Message.tool(content, call, is_error=failed)


def _read_labels(text: str) -> Iterator[Message]:
    """Yield the messages in text that has labels such as `User:`, `Thought:` or `Action:`. Thoughts become the
    reasoning, and actions the calls, of the assistant's message.
    """
    turn, calls, named = TurnBuilder(), _Calls(), ""
    sections = list(_sections(_LABEL, text))
    for place, (label, section) in enumerate(sections, 1):
        content = section.strip("\n")
        kind, about = _kind(label), label["about"]
        if kind == "assistant" and about and _KINDS.get(about.lower()) == "thought":
            kind = "thought"
        if kind in ("system", "user", "result"):
            yield from turn.close()
        if kind == "system":
            yield Message.system(content)
        elif kind == "user":
            yield Message.user(content)
        elif kind == "thought":
            if turn.text or turn.has_calls:
                yield from turn.close()
            turn.add_thought(content)
        elif kind == "assistant":
            if turn.text or turn.has_calls:
                yield from turn.close()
            turn.begin()
            turn.add_text(content)
        elif kind == "call":
            if label["label"].lower() != "action":
                turn.add_call(calls.open("", *_split_call(content, about)))
                continue
            named = content.strip()
            if not _has_input(sections, place):
                _add_action(turn, calls, named)
        elif kind == "arguments":
            turn.add_call(calls.open("", named, _read_arguments(content)))
        else:
            yield _read_result(label, content, calls)
    yield from turn.close()


def _has_input(sections: Sequence[tuple[re.Match[str], str]], place: int) -> bool:
    """Return whether the section at `place` is the input of the action before it. Thoughts may come first."""
    while place < len(sections) and _kind(sections[place][0]) == "thought":
        place += 1
    return place < len(sections) and _kind(sections[place][0]) == "arguments"


def _add_action(turn: TurnBuilder, calls: _Calls, action: str) -> None:
    """Add an action without input to the turn: as a call or, if it does not name a tool (such as "None"), as text."""
    name, arguments = _split_call(action, None)
    if not name[:1].isidentifier() or name.endswith(".") or name.casefold() in _NO_TOOL:
        turn.add_text(f"Action: {action}")
    else:
        turn.add_call(calls.open("", name, arguments))


def _read_result(label: re.Match[str], content: str, calls: _Calls) -> Message:
    """Convert a result's label and content to a tool message, and close its call in `calls`. The label may name the
    tool and state that it failed.
    """
    about = [part.strip() for part in (label["about"] or "").split(",") if part.strip()]
    names = [part for part in about if part.lower() not in _FAILED]
    failed = len(names) < len(about) or label["label"].lower() == "tool error"
    return calls.close(names[0] if names else None, content, failed=failed)


def _split_call(content: str, about: str | None) -> tuple[str, dict[str, Any]]:
    """Return the name and arguments of a call written as text. `about` is the name from the label before the text, if
    this has one, and `content` then contains only the arguments. Otherwise, `content` also contains the name, which is
    empty if it is unclear.
    """
    if about:
        return about.strip(), _read_arguments(content)
    match = _CALLED.fullmatch(content.strip())
    if match is None:
        return "", {UNREADABLE_ARGUMENTS: content}
    return match["name"], _read_arguments(match["inside"] or match["after"] or "")


def _read_arguments(text: str) -> dict[str, Any]:
    """Return arguments written as a JSON object or a Python dict. Empty text results in an empty dict, and anything
    else is stored unparsed under `UNREADABLE_ARGUMENTS`.
    """
    if not text.strip():
        return {}
    for read in (json.loads, _read_literal):
        try:
            parsed = read(text.strip())
        except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            continue
        if isinstance(parsed, dict):
            return {str(key): value for key, value in parsed.items()}
    return {UNREADABLE_ARGUMENTS: text}


def _read_literal(text: str) -> Any:
    """Return the JSON value that a Python literal represents. Raises `TypeError` or `ValueError` if there is none."""
    return json.loads(json.dumps(ast.literal_eval(text)))


def _read_printed(text: str) -> Iterator[Message]:
    """Convert a printed conversation of LangChain to messages. Results are matched with calls by the tool's name."""
    calls = _Calls()
    for heading, section in _sections(_PRINTED, text):
        content = section.strip("\n")
        kind = _KINDS[heading["label"].lower()]
        name = _PRINTED_NAME.match(content)
        if name is not None:
            content = content[name.end() :].strip("\n")
        if kind == "system":
            yield Message.system(content)
        elif kind == "user":
            yield Message.user(content)
        elif kind == "assistant":
            yield _read_printed_calls(content, calls)
        else:
            yield calls.close(name["name"].strip() if name else None, content, failed=False)


def _read_printed_calls(content: str, calls: _Calls) -> Message:
    """Convert a printed section to an assistant message with its calls."""
    section = _PRINTED_CALLS.search(content)
    if section is None:
        return Message.assistant(content)
    printed = [
        calls.open(call["id"], call["name"], _printed_arguments(arguments))
        for call, arguments in _sections(_PRINTED_CALL, content[section.end() :])
    ]
    return Message.assistant(content[: section.start()].rstrip("\n"), printed)


def _printed_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a printed call as strings, because the output does not show their types."""
    return {key["key"]: value.rstrip("\n") for key, value in _sections(_PRINTED_ARGUMENT, text)}


def _sections(pattern: re.Pattern[str], text: str) -> Iterator[tuple[re.Match[str], str]]:
    """Yield each match of `pattern` with the text between it and the next match. Text before the first match is
    dropped.
    """
    headings = list(pattern.finditer(text))
    ends = [*(heading.start() for heading in headings[1:]), len(text)]
    for heading, end in zip(headings, ends, strict=False):
        yield heading, text[heading.end() : end]


def is_delimited(text: str) -> bool:
    """Return whether `text` begins with one of the reference's headings, such as `--- AI Message ---`."""
    return _DELIMITER.match(text.lstrip()) is not None


def read_delimited(text: str) -> list[Message]:
    """Convert text with the reference implementation's headings to messages. Text before the first heading is ignored,
    and a line inside a message that looks like a heading starts a new one. Thoughts become the reasoning of the next
    assistant message.

    Use this only for text that is known to be in this format, and prefer recordings of messages.
    """
    names: dict[str, str] = {}
    messages: list[Message] = []
    thought: str | None = None
    for heading, section in _sections(_DELIMITER, text.strip()):
        content = section.strip("\n")
        call = heading["call"]
        if call is not None:
            messages.append(_delimited_result(content, call, names))
        elif heading["role"] is None:
            thought = content if thought is None else f"{thought}\n{content}"
        elif heading["role"] == "AI":
            text_part, calls = _split_delimited_calls(content)
            names.update((called.id, called.name) for called in calls)
            messages.append(Message.assistant(text_part, calls, thought))
            thought = None
        else:
            messages.append(Message(_DELIMITED_ROLES[heading["role"]], content))
    if thought is not None:
        messages.append(Message.assistant("", (), thought))
    return messages


def _delimited_result(content: str, call: str, names: dict[str, str]) -> Message:
    """Convert a section to a tool message. If the tool failed, the section starts with a marker."""
    failed = content.startswith(_ERROR_MARK)
    name = names.get(call) or names.get(call.removeprefix("call_"))
    return Message("tool", content.removeprefix(_ERROR_MARK), tool_call_id=call, tool_name=name, is_error=failed)


def _split_delimited_calls(content: str) -> tuple[str, list[ToolCall]]:
    """Return the text and the tool calls of an assistant message. Only the last section of calls counts; the text
    before it is kept as written.
    """
    sections = list(_DELIMITED_CALLS.finditer(content))
    if not sections:
        return content, []
    section = sections[-1]
    return content[: section.start()].rstrip("\n"), list(_delimited_calls(content[section.end() :]))


def _delimited_calls(section: str) -> Iterator[ToolCall]:
    """Yield the calls in a section. If a call's arguments are missing, they are empty."""
    for call, text in _sections(_DELIMITED_CALL, section):
        arguments = _DELIMITED_ARGUMENTS.match(text.rstrip())
        yield ToolCall(call["id"], call["name"], _read_arguments(arguments["given"]) if arguments is not None else {})
