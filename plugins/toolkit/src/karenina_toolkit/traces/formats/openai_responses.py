"""OpenAI Responses API items, and the Agents SDK's run items, which wrap them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.traces.blocks import TraceFormatError, TurnBuilder, as_json, describe_block, in_entry
from karenina_toolkit.traces.formats.openai_chat import read_arguments, read_content, read_message

Entry = Mapping[str, Any]
_ITEMS = ("reasoning", "item_reference", "compaction")
_ABOUT_SERVERS = ("mcp_list_tools", "mcp_approval_request", "mcp_approval_response")
_PARTS = ("input_text", "input_image", "input_file", "output_text")
_RESULT_KEYS = ("status", "output", "outputs", "result", "results", "error")
_RUN_ITEM_ENDING: Final = "_item"
_RUN_EVENT: Final = "run_item_stream_event"
_RUN_RESULTS: Final = ("tool_call_output_item", "handoff_output_item")
_RUN_INPUTS: Final = ("input", "original_input", "originalInput")
_RUN_ITEMS: Final = ("new_items", "newItems", "generated_items", "generatedItems")
_RUN_NAMES: Final = {"callId": "call_id", "rawItem": "raw_item"}
_RUN_KINDS: Final = {
    "message_output_item": "message",
    "reasoning_item": "reasoning",
    "tool_call_item": "function_call",
    "handoff_call_item": "function_call",
    "tool_call_output_item": "function_call_output",
    "handoff_output_item": "function_call_output",
}


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a Responses API item without a role, or a message whose parts are in that format."""
    if "role" not in entry:
        return _kind(entry).endswith(("_call", "_call_output")) or _kind(entry) in (*_ITEMS, *_ABOUT_SERVERS)
    content = entry.get("content")
    parts = content if isinstance(content, Sequence) and not isinstance(content, str) else ()
    return any(isinstance(part, Mapping) and part.get("type") in _PARTS for part in parts)


def read(entries: Sequence[Entry], numbers: Iterable[int] | None = None) -> Iterator[Message]:
    """Convert items of OpenAI's Responses API to messages, one for each assistant turn: consecutive reasoning, text and
    calls. Items of other kinds become system messages, so that they cannot be mistaken for the answer. Raises
    `TraceFormatError`, with the entry's number (from `numbers`, by default its position), if an item cannot be read.

    A call made by the server, such as a web search, has no `call_id` and is followed by its result, so it splits the
    turn. A message marked as the final answer is kept separate. Items of other kinds are described with
    `describe_block`. Annotations, item ids and encrypted reasoning are omitted. If some entries were left out, pass the
    original `numbers` of the others for error messages.
    """
    turn = TurnBuilder()
    names: dict[str, str] = {}
    for number, entry in zip(numbers or count(1), entries, strict=False):
        with in_entry(number):
            yield from _item(entry, turn, names)
    yield from turn.close()


def _item(item: Entry, turn: TurnBuilder, names: dict[str, str]) -> Iterator[Message]:
    """Add an item to the turn, and the name of a called tool to `names` by its call's id, and yield the messages that
    are complete. Items of other kinds become system messages. Raises `TraceFormatError` if the item cannot be read, or
    if it has neither a role nor a type.
    """
    kind = _kind(item)
    if "role" in item:
        if item["role"] == "assistant":
            if item.get("phase") == "final_answer" and turn.text:
                yield from turn.close()
            _add_message(turn, item.get("content"))
            return
        yield from turn.close()
        yield read_message(item)
    elif kind == "reasoning":
        turn.add_thought("\n".join(read_content(item.get(key)) for key in ("summary", "content") if item.get(key)))
    elif kind.endswith("_call"):
        call = _call(kind, item)
        names[call.id] = call.name
        turn.add_call(call)
        if not item.get("call_id"):
            yield from turn.close()
            yield _own_result(item, call)
    elif kind.endswith("_output") and item.get("call_id"):
        yield from turn.close()
        yield _result(item, names)
    elif kind:
        yield from turn.close()
        yield Message.system(describe_block(kind, item))
    else:
        raise TraceFormatError("an item has neither a role nor a type")


def _add_message(turn: TurnBuilder, content: Any) -> None:
    """Add an assistant message to the turn. Text only continues on the same line within the same message. Raises
    `TraceFormatError` if the content is neither text nor a list.
    """
    turn.begin()
    if content is None or isinstance(content, str):
        if content:
            turn.add_text(content)
        return
    if not isinstance(content, Sequence):
        raise TraceFormatError(f"the content must be text or a list of parts, not {type(content).__name__}")
    same_line = False
    for part in content:
        is_text = isinstance(part, Mapping) and isinstance(part.get("text"), str)
        turn.add_text(read_content([part]), same_line=same_line and is_text)
        same_line = is_text


def _call(kind: str, item: Entry) -> ToolCall:
    """Convert an item to a call, whose arguments are the item's `arguments`, its `input` or, without these, all its
    other fields. If the server runs the tool, the call is named after the item's type. Raises `TraceFormatError` if a
    function call has no name.
    """
    if kind in ("function_call", "custom_tool_call", "mcp_call") and not isinstance(item.get("name"), str):
        raise TraceFormatError(f"a {kind} has no name")
    name = str(item.get("name") or kind.removesuffix("_call"))
    call_id = str(item.get("call_id") or item.get("id") or "")
    for key in ("arguments", "input"):
        if key in item:
            return ToolCall(call_id, name, read_arguments(item[key]))
    left = ("type", "id", "call_id", "name", *_RESULT_KEYS)
    return ToolCall(call_id, name, {key: value for key, value in item.items() if key not in left})


def _own_result(item: Entry, call: ToolCall) -> Message:
    """Return the result of a call made by the server, which is part of the call's item. It is often just a status."""
    result = {key: item[key] for key in _RESULT_KEYS if item.get(key) not in (None, "", [])}
    failed = bool(result.get("error")) or result.get("status") == "failed"
    output = result.get("output")
    plain = isinstance(output, str) and not result.keys() - {"status", "output"}
    return Message.tool(str(output) if plain else as_json(result), call, is_error=failed)


def _result(item: Entry, names: Mapping[str, str]) -> Message:
    """Convert an output item to a tool message. `names` maps call ids to tool names."""
    call_id, output = str(item["call_id"]), item.get("output")
    listed = isinstance(output, Sequence) or output is None
    return Message(
        "tool",
        read_content(output) if listed else as_json(output),
        tool_call_id=call_id,
        tool_name=names.get(call_id),
        is_error=item.get("status") == "failed" or bool(item.get("error")),
    )


def _kind(item: Entry) -> str:
    """Return the type of an item. If it has none, the result is an empty string."""
    kind = item.get("type")
    return kind if isinstance(kind, str) else ""


def claims_run_item(entry: Entry) -> bool:
    """Return whether `entry` is an Agents SDK run item with a raw item, or a stream event that contains one."""
    kind = entry.get("type")
    if kind == _RUN_EVENT:
        return isinstance(entry.get("item"), Mapping)
    return isinstance(kind, str) and kind.endswith(_RUN_ITEM_ENDING) and isinstance(_raw_item(entry), Mapping)


def read_run_items(entries: Sequence[Entry]) -> Iterator[Message]:
    """Convert the items or stream events of a run of OpenAI's Agents SDK to messages. Events without an item are
    omitted. Raises `TraceFormatError` if an item cannot be read.
    """
    items: list[Entry] = []
    numbers: list[int] = []
    for number, entry in enumerate(entries, 1):
        kind = entry.get("type")
        if isinstance(kind, str) and kind.endswith("_event"):
            if kind != _RUN_EVENT:
                continue
            entry = entry.get("item") or {}
        with in_entry(number):
            items.append(_unwrap_run_item(entry))
        numbers.append(number)
    yield from read(items, numbers)


def is_run(document: Mapping[str, Any]) -> bool:
    """Return whether `document` is the result or state of a run."""
    return any(isinstance(document.get(key), list | tuple) for key in _RUN_ITEMS)


def find_run_items(document: Mapping[str, Any]) -> Sequence[Any]:
    """Return the input and items in the result or state of a run of OpenAI's Agents SDK, for which `is_run` must be
    true. Raises `TraceFormatError` if the input is neither text nor a list.
    """
    key = next(key for key in _RUN_ITEMS if isinstance(document.get(key), list | tuple))
    run_input = next((document[name] for name in _RUN_INPUTS if document.get(name) is not None), ())
    if isinstance(run_input, Mapping) or not isinstance(run_input, Sequence):
        raise TraceFormatError(f"the input must be text or a list of items, not {type(run_input).__name__}")
    asked = [{"role": "user", "content": run_input}] if isinstance(run_input, str) else run_input
    return [*asked, *document[key]]


def _raw_item(entry: Entry) -> Any:
    """Return the raw item of a run item from the Python or JavaScript SDK, or None."""
    return entry.get("raw_item", entry.get("rawItem"))


def _unwrap_run_item(entry: Entry) -> Entry:
    """Return the Responses API item in `entry`, which may use the field names of the JavaScript SDK. Raises
    `TraceFormatError` if a run item has no raw item.
    """
    kind, raw = entry.get("type"), _raw_item(entry)
    if not isinstance(raw, Mapping):
        if isinstance(kind, str) and kind.endswith(_RUN_ITEM_ENDING):
            raise TraceFormatError(f"a {kind} has no raw_item")
        raw = entry
    item = {_RUN_NAMES.get(key, key): value for key, value in raw.items()}
    item_type = _RUN_KINDS.get(str(kind))
    if item_type is not None:
        item.setdefault("type", item_type)
    if kind == "message_output_item":
        item.setdefault("role", "assistant")
    if item.get("type") == "function_call_result":
        item["type"] = "function_call_output"
    if kind in _RUN_RESULTS and item.get("output") is None:
        item["output"] = entry.get("output")
    output = item.get("output")
    if isinstance(output, Mapping) and output.get("type") == "text" and isinstance(output.get("text"), str):
        item["output"] = output["text"]
    return item
