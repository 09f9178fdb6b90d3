"""Run items of OpenAI's Agents SDK, each of which wraps an item of the Responses API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import TraceFormatError
from karenina_toolkit.traces.formats import openai_responses

Entry = Mapping[str, Any]
_ENDING: Final = "_item"
_EVENT: Final = "run_item_stream_event"
_RESULTS: Final = ("tool_call_output_item", "handoff_output_item")
_INPUTS: Final = ("input", "original_input", "originalInput")
_ITEMS: Final = ("new_items", "newItems", "generated_items", "generatedItems")
_NAMES: Final = {"callId": "call_id", "rawItem": "raw_item"}
_KINDS: Final = {
    "message_output_item": "message",
    "reasoning_item": "reasoning",
    "tool_call_item": "function_call",
    "handoff_call_item": "function_call",
    "tool_call_output_item": "function_call_output",
    "handoff_output_item": "function_call_output",
}


def claims(entry: Entry) -> bool:
    """Return whether `entry` is a run item with its raw item, or a stream event with such an item."""
    kind = entry.get("type")
    if kind == _EVENT:
        return isinstance(entry.get("item"), Mapping)
    return isinstance(kind, str) and kind.endswith(_ENDING) and isinstance(_raw_item(entry), Mapping)


def read(entries: Sequence[Entry]) -> Iterator[Message]:
    """Yield the messages of `entries`, read as Responses API items. Events without an item are left out."""
    items: list[Entry] = []
    numbers: list[int] = []
    for number, entry in enumerate(entries, 1):
        kind = entry.get("type")
        if isinstance(kind, str) and kind.endswith("_event"):
            if kind != _EVENT:
                continue
            entry = entry.get("item") or {}
        try:
            items.append(_unwrap(entry))
        except TraceFormatError as error:
            raise TraceFormatError(f"entry {number}: {error}") from None
        numbers.append(number)
    yield from openai_responses.read(items, numbers)


def is_run(document: Mapping[str, Any]) -> bool:
    """Return whether `document` is a run's result or state."""
    return any(isinstance(document.get(key), list | tuple) for key in _ITEMS)


def find_items(document: Mapping[str, Any]) -> Sequence[Any]:
    """Return the input and the items of a run's result or state. Raises `TraceFormatError`."""
    key = next(key for key in _ITEMS if isinstance(document.get(key), list | tuple))
    given = next((document[name] for name in _INPUTS if document.get(name) is not None), ())
    if isinstance(given, Mapping) or not isinstance(given, Sequence):
        raise TraceFormatError(f"its input is {type(given).__name__}, not text or a list of items")
    asked = [{"role": "user", "content": given}] if isinstance(given, str) else given
    return [*asked, *document[key]]


def _raw_item(entry: Entry) -> Any:
    return entry.get("raw_item", entry.get("rawItem"))


def _unwrap(entry: Entry) -> Entry:
    """Return the Responses API item in `entry`, which may use the names of the JavaScript SDK."""
    kind, raw = entry.get("type"), _raw_item(entry)
    if not isinstance(raw, Mapping):
        if isinstance(kind, str) and kind.endswith(_ENDING):
            raise TraceFormatError(f"a {kind} has no raw_item")
        raw = entry
    item = {_NAMES.get(key, key): value for key, value in raw.items()}
    known = _KINDS.get(str(kind))
    if known is not None:
        item.setdefault("type", known)
    if kind == "message_output_item":
        item.setdefault("role", "assistant")
    if item.get("type") == "function_call_result":
        item["type"] = "function_call_output"
    if kind in _RESULTS and item.get("output") is None:
        item["output"] = entry.get("output")
    output = item.get("output")
    if isinstance(output, Mapping) and output.get("type") == "text" and isinstance(output.get("text"), str):
        item["output"] = output["text"]
    return item
