"""Messages in the attributes of spans, as OpenInference and OpenLLMetry write them: one attribute for each value."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from karenina_core.models.ports import Message
from karenina_toolkit.traces.blocks import in_entry
from karenina_toolkit.traces.formats.openai_chat import read_message

Entry = Mapping[str, Any]
_ASKED: Final = ("llm.input_messages", "gen_ai.prompt")
_SAID: Final = ("llm.output_messages", "gen_ai.completion")
_OF_TABLES: Final = "attributes."
_NESTED: Final = "llm"
_LONGEST_NUMBER: Final = 10
_ENDS: Final = ("llm.finish_reason", "gen_ai.response.finish_reasons")


def has_messages(attributes: Entry) -> bool:
    """Return whether attributes contain messages of OpenInference or OpenLLMetry."""
    held = attributes.get(_NESTED)
    if isinstance(held, Mapping) and held.keys() & {"input_messages", "output_messages"}:
        return True
    return any(_is_below(_plain(key), (*_ASKED, *_SAID)) for key in attributes)


def read(attributes: Entry) -> list[Message]:
    """Convert the messages in attributes. Raises `TraceFormatError`, with the number of the message, if one cannot be
    read.
    """
    names: dict[str, str] = {}
    messages: list[Message] = []
    asked, said = _collect(attributes, _ASKED), _collect(attributes, _SAID)
    for number, entry in enumerate([*asked, *({"role": "assistant", **entry} for entry in said)], 1):
        with in_entry(number):
            messages.append(read_message(_to_chat(entry), names))
        names.update((call.id, call.name) for call in messages[-1].tool_calls)
    return messages


def find_output(attributes: Entry) -> list[Entry]:
    """Return the messages that a model sent, each with the reason why it ended if that is known."""
    given = next((attributes[key] for key in _ENDS if attributes.get(key)), None)
    reason = given[-1] if isinstance(given, list) else given
    return [{"finish_reason": reason, **entry, "role": "assistant"} for entry in _collect(attributes, _SAID)]


def _plain(key: object) -> str:
    """Return the name of an attribute, which tables of spans write behind `attributes.`."""
    return str(key).removeprefix(_OF_TABLES)


def _is_below(name: str, prefixes: Sequence[str]) -> bool:
    """Return whether an attribute is a list with the name `prefixes` or, by its position, in one."""
    for prefix in prefixes:
        if name == prefix and prefix.startswith(_NESTED):
            return True
        if name.startswith(f"{prefix}.") and name[len(prefix) + 1 : len(prefix) + 2].isdigit():
            return True
    return False


def _collect(attributes: Entry, prefixes: Sequence[str]) -> list[Entry]:
    """Return the messages below the prefixes, with nested objects and lists in place of names with dots."""
    tree: dict[str, Any] = {}
    held = attributes.get(_NESTED)
    nested = held if isinstance(held, Mapping) else {}
    for key, value in [*attributes.items(), *((f"{_NESTED}.{key}", value) for key, value in nested.items())]:
        name = _plain(key)
        for prefix in prefixes:
            if _is_below(name, (prefix,)):
                _put(tree, name[len(prefix) + 1 :], value)
    messages = [held for held in _list(tree) if isinstance(held, Mapping)]
    return [held["message"] if isinstance(held.get("message"), Mapping) else held for held in messages]


def _put(tree: dict[str, Any], name: str, value: Any) -> None:
    """Put a value at its place, which the parts of its name state. Objects and lists are divided in the same way."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            _put(tree, f"{name}.{key}", inner)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for place, inner in enumerate(value):
            _put(tree, f"{name}.{place}", inner)
    else:
        *way, last = [part for part in name.split(".") if part] or [""]
        for part in way:
            held = tree.get(part)
            tree[part] = tree = held if isinstance(held, dict) else {}
        if not isinstance(tree.get(last), dict):
            tree[last] = value


def _list(value: Any) -> list[Any]:
    """Return the values of an object whose keys are positions, in order, or the list in a text that is JSON."""
    if isinstance(value, Mapping):
        places = [key for key in value if key.isdecimal() and len(key) < _LONGEST_NUMBER]
        return [value[key] for key in sorted(places, key=int)]
    if isinstance(value, str) and value.startswith("["):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            return []
        return parsed if isinstance(parsed, list) else []
    return []


def _to_chat(entry: Entry) -> Entry:
    """Convert a message to one of OpenAI's Chat Completions."""
    content: Any = entry.get("content")
    calls = [_to_call(call) for call in _list(entry.get("tool_calls"))]
    parts: list[Any] = []
    for item in _list(entry.get("contents")):
        about = item.get("message_content") if isinstance(item, Mapping) else None
        if isinstance(about, Mapping) and about.get("type") == "tool_use":
            calls.append(_to_call(item))
        elif isinstance(about, Mapping):
            parts.append(about)
    if not parts and (isinstance(content, Mapping) or (isinstance(content, str) and content.startswith("[{"))):
        found = _list(content)  # OpenLLMetry writes parts as JSON
        parts = found if all(isinstance(part, Mapping) and "type" in part for part in found) else []
    role = {"model": "assistant"}.get(str(entry.get("role")), entry.get("role"))  # as Google's models are recorded
    chat = {
        **entry,
        "role": role,
        "content": parts or ("" if isinstance(content, Mapping) else content),
        "tool_calls": calls,
    }
    if isinstance(entry.get("function_call_name"), str):
        arguments = entry.get("function_call_arguments_json")
        chat["function_call"] = {"name": entry["function_call_name"], "arguments": arguments}
    return chat


def _to_call(call: Any) -> Entry:
    """Convert a call, whose name and arguments may be in `function`, to one of OpenAI's Chat Completions."""
    held = call.get("tool_call", call) if isinstance(call, Mapping) else {}
    about = held if isinstance(held, Mapping) else {}
    return {"id": about.get("id"), "function": about.get("function", about)}
