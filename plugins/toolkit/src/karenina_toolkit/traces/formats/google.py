"""Contents in the format of Google's `generateContent`: lists of parts."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import (
    TraceFormatError,
    TurnBuilder,
    as_json,
    describe_block,
    get_entries,
    get_name,
    in_entry,
    join_texts,
)

Entry = Mapping[str, Any]
CODE_TOOL = "code_execution"
"""The tool name used in calls that represent code run by the server."""

_ABOUT_A_PART = ("thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata")
_KINDS_OF_OTHERS = frozenset({"type", "part_kind", "kind"})
_RESULTS = ("functionResponse", "codeExecutionResult")
_WRAPPERS = ("output", "result", "error")


def claims(entry: Entry) -> bool:
    """Return whether `entry` is one of Google's content objects: it has parts or the role `model`, but no `content`,
    and no part has a key that only the parts of other formats have.
    """
    parts = entry.get("parts")
    listed = parts if isinstance(parts, Sequence) and not isinstance(parts, str) else ()
    if "content" in entry or any(isinstance(part, Mapping) and part.keys() & _KINDS_OF_OTHERS for part in listed):
        return False
    return bool(listed) or entry.get("role") == "model"


def read(entries: Sequence[Entry], numbers: Iterable[int] | None = None) -> Iterator[Message]:
    """Convert Google's contents to messages, one for each of the model's turns. Code run by the server becomes a call
    of `CODE_TOOL` and a result, which splits the turn. An entry without a role is the user's. Raises
    `TraceFormatError`, with the entry's number (from `numbers`, by default its position), if it is not in this format.

    Thoughts become reasoning. Calls without an id get one (`call_1`, ...). A result without an id belongs to the first
    open call with the same name. Other parts are described with `describe_block`. Signatures are omitted.
    """
    turn = TurnBuilder()
    calls = _Calls(entries)
    for number, entry in zip(numbers or count(1), entries, strict=False):
        with in_entry(number):
            role = get_name(entry, "role") or "user"
            if role == "model":
                yield from _add_to_turn(turn, _parts(entry), calls)
                continue
            yield from turn.close()
            yield from _read_user_content(role, _parts(entry), calls)
    yield from turn.close()


class _Calls:
    """The calls that have no result yet. Calls without an id get a new one."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._waiting: dict[int, ToolCall] = {}
        self._opened = 0
        self._by_id: defaultdict[str, deque[int]] = defaultdict(deque)
        self._by_name: defaultdict[str, deque[int]] = defaultdict(deque)
        self._count = 0
        self._taken: set[object] = set()
        for entry in entries:
            parts = entry.get("parts")
            for part in parts if isinstance(parts, Sequence) else ():
                for held in part.values() if isinstance(part, Mapping) else ():
                    if isinstance(held, Mapping) and isinstance(held.get("id"), str):
                        self._taken.add(held["id"])

    def open(self, call_id: object, name: str, arguments: Mapping[str, Any]) -> ToolCall:
        """Return a new call, recorded as waiting for its result. If `call_id` is missing, the call gets a unique id."""
        while not call_id:
            self._count += 1
            call_id = None if f"call_{self._count}" in self._taken else f"call_{self._count}"
        call = ToolCall(str(call_id), name, dict(arguments))
        self._waiting[self._opened] = call
        self._by_id[call.id].append(self._opened)
        self._by_name[name].append(self._opened)
        self._opened += 1
        return call

    def close(self, call_id: object, name: str | None) -> tuple[str | None, str | None]:
        """Find the call that a result belongs to, mark it as done, and return its id and name. If there is no such
        call, the result's own id and name are returned, or None for one that is missing.
        """
        same = self._by_id.get(str(call_id)) if call_id else self._by_name.get(name or "")
        while same:
            call = self._waiting.pop(same.popleft(), None)  # None: it was already found by its other key
            if call is not None:
                return call.id, name or call.name
        return (str(call_id) if call_id else None), name


def _add_to_turn(turn: TurnBuilder, parts: Sequence[tuple[str, Any, bool]], calls: _Calls) -> Iterator[Message]:
    """Add the parts of a model's content, each a kind, a value and whether it is a thought, to the turn, and yield the
    messages that are complete: a result of code ends the turn. Text only continues on the same line after text from the
    same content.
    """
    if not parts:
        turn.begin()
    before = ""
    for kind, value, is_thought in parts:
        if kind in _RESULTS:
            yield from turn.close()
            yield _result(kind, value, calls)
        elif kind == "functionCall":
            turn.add_call(_call(value, calls))
        elif kind == "executableCode":
            code = _require_mapping(kind, value)
            turn.add_call(calls.open(code.get("id"), CODE_TOOL, {key: code[key] for key in code if key != "id"}))
        elif is_thought:
            turn.add_thought(_part_text(kind, value))
            continue
        else:
            turn.add_text(_part_text(kind, value), same_line=kind == "text" == before)
        before = kind


def _read_user_content(role: str, parts: Sequence[tuple[str, Any, bool]], calls: _Calls) -> Iterator[Message]:
    """Convert the parts of a user's content, each with its kind, value and whether it is a thought, to messages: the
    tool results, and the text between them. Raises `TraceFormatError` for an unknown role.
    """
    if role not in ("user", "function", "tool", "system"):
        raise TraceFormatError(f"unknown role {role!r}; the roles of Google contents are 'user' and 'model'")
    yield from join_texts(
        "system" if role == "system" else "user",
        (_result(kind, value, calls) if kind in _RESULTS else _part_text(kind, value) for kind, value, _ in parts),
    )


def _call(value: Any, calls: _Calls) -> ToolCall:
    """Convert a part to a call that waits for its result. Raises `TraceFormatError` if the call has no name or its args
    are not an object.
    """
    call = _require_mapping("functionCall", value)
    arguments = call.get("args") or {}
    if not isinstance(call.get("name"), str) or not isinstance(arguments, Mapping):
        raise TraceFormatError("a functionCall has no name, or its args are not an object")
    return calls.open(call.get("id"), call["name"], arguments)


def _result(kind: str, value: Any, calls: _Calls) -> Message:
    """Convert the result of a function or, by `kind`, of code to a tool message, and close its call in `calls`. It is
    an error if the response has an `error`, or if the outcome of code is not OK. Raises `TraceFormatError` if a
    function's result has no name.
    """
    result = _require_mapping(kind, value)
    if kind == "codeExecutionResult":
        call_id, name = calls.close(result.get("id"), CODE_TOOL)
        outcome, output = str(result.get("outcome") or "OUTCOME_OK"), str(result.get("output") or "")
        failed = outcome != "OUTCOME_OK"
        text = f"{outcome}\n{output}" if failed else output
    else:
        if not isinstance(result.get("name"), str):
            raise TraceFormatError("a functionResponse has no name")
        call_id, name = calls.close(get_name(result, "id"), result["name"])
        response = result.get("response")
        failed = isinstance(response, Mapping) and bool(response.get("error"))
        more = [describe_block("part", _require_mapping("part", part)) for part in get_entries(result, "parts")]
        text = "\n".join([_response_text(response), *more])
    return Message("tool", text, tool_call_id=call_id, tool_name=name, is_error=failed)


def _response_text(response: Any) -> str:
    """Return a function's result as text, without a wrapper such as `{"output": ...}`, which Google recommends. Results
    that are not text are converted to JSON.
    """
    if isinstance(response, Mapping) and len(response) == 1:
        (key,) = response
        if key in _WRAPPERS:
            response = response[key]
    if response is None:
        return ""
    return response if isinstance(response, str) else as_json(response)


def _part_text(kind: str, value: Any) -> str:
    """Return the text of a text part, or a description of any other part. Raises `TraceFormatError` if a text part is
    malformed.
    """
    if kind == "text":
        if not isinstance(value, str):
            raise TraceFormatError(f"a text part must contain text, not {type(value).__name__}")
        return value
    return describe_block(kind, value if isinstance(value, Mapping) else {"value": value})


def _parts(entry: Entry) -> list[tuple[str, Any, bool]]:
    """Return the kind and value of each part, and whether it is a thought. Keys may be in camel case or snake case.
    Raises `TraceFormatError` if a part is not an object or contains several items.
    """
    parts: list[tuple[str, Any, bool]] = []
    for part in get_entries(entry, "parts"):
        if not isinstance(part, Mapping):
            raise TraceFormatError(f"a part must be an object, not {type(part).__name__}")
        named = {_camel(str(key)): value for key, value in part.items() if value is not None}
        held = [key for key in named if key not in _ABOUT_A_PART]
        if len(held) > 1:
            raise TraceFormatError(
                f"a part must contain only one item, but one part contains both {held[0]} and {held[1]}"
            )
        parts.extend((key, named[key], bool(named.get("thought"))) for key in held)
    return parts


def _camel(key: str) -> str:
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), key)


def _require_mapping(kind: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TraceFormatError(f"{kind} must be an object, not {type(value).__name__}")
    return value
