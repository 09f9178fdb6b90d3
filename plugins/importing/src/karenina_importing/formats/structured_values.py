"""Finds questions and answers in values such as `inputs` and `outputs`, and reads files of JSON objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.tables.message_texts import is_conversation
from karenina_importing.source_files import FileHead, SourceRow, read_json, read_lines
from karenina_toolkit import traces
from karenina_toolkit.traces.recorded_ends import END_KEYS

_ASKED: Final = (
    *("question", "input", "prompt", "query", "user_input", "user_query", "instruction", "message", "text", "task"),
    *("problem", "content", "request"),
)
_ANSWERED: Final = (
    *("answer", "output", "expected_output", "expected", "response", "result", "reference", "ground_truth", "label"),
    *("content", "text", "completion", "generation", "prediction", "final_answer"),
)

_LONGEST_METADATA: Final = 1000


def asked(value: Any) -> Any:
    """Return the question in an input, as a string or messages. The other values of an object precede the question as
    `name: value`; if no key has a usual name for a question, all values are written in this way. An input that is not
    an object is returned unchanged.
    """
    if not isinstance(value, Mapping):
        return value
    messages = value.get("messages")
    if isinstance(messages, list) and len(messages) == 1 and isinstance(messages[0], list):
        messages = messages[0]  # of a call of a LangChain model, which may have several prompts
    if len(value) == 1 and isinstance(messages, list) and (whole := _read_conversation(messages)) is not None:
        return whole
    if len(value) == 1:
        return asked(next(iter(value.values())))
    name = _first(value, _ASKED)
    lines = [f"{key}: {_text(item)}" for key, item in value.items() if key != name and item not in (None, "", [], {})]
    if name is None:
        return "\n".join(lines)
    question = _text(value[name])
    return "\n".join([*lines, "", question]) if lines else question


def answered(value: Any, *, conversation: bool = False) -> tuple[Any, list[str]]:
    """Return the answer in an output, and the names of the values that are left out. If there are `messages` and no
    usual name for an answer, it is the content of the last one or, with `conversation`, all of them, if their format is
    known. In a completion or the generations of a LangChain model, it is the content of the reply. An object without an
    answer becomes JSON, and an empty object becomes None. An output that is not an object is returned unchanged.
    """
    if not isinstance(value, Mapping):
        return value, []
    messages = _messages(value)
    beside = [str(key) for key in value if key != "messages" and key not in END_KEYS] if messages else []
    if conversation and len(messages) > 1:
        whole = _read_conversation(messages)
        if whole is not None:
            return whole, beside
    if (reply := _reply(value)) is not None:
        return answered(reply)[0], beside
    name = _answer_key(value)
    if name is None:
        return json.dumps(value, ensure_ascii=False, default=str) if value else None, []
    inner, left = answered(value[name], conversation=conversation)
    return inner, [*left, *(str(key) for key in value if key != name and key not in END_KEYS)]


def stated_end(value: Any) -> Any:
    """Return the finish reason that an output states next to the answer found by `answered`, or None."""
    if not isinstance(value, Mapping):
        return None
    if (reply := _reply(value)) is not None:
        return stated_end(reply)
    own, name = next(iter(_ends(value).values()), None), _answer_key(value)
    return own if own or name is None else stated_end(value[name])


def _answer_key(value: Mapping[str, Any]) -> str | None:
    """Return the only key of an object, or the one with a usual name for an answer, or None."""
    return next(iter(value)) if len(value) == 1 else _first(value, _ANSWERED)


def _messages(value: Mapping[str, Any]) -> list[Any]:
    """Return the messages in an object without a usual name for an answer, such as the state of an agent, or none."""
    messages = value.get("messages")
    if not isinstance(messages, list) or not messages or not isinstance(messages[-1], Mapping):
        return []
    return messages if _first(value, _ANSWERED) is None else []


def _reply(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the last of the messages in an object without an answer beside them, or the first reply, with its finish
    reason, in a completion or in the generations of a LangChain model, or None for any other object.
    """
    if messages := _messages(value):
        message, beside = messages[-1], {**value, **messages[-1]}
    else:
        found = value.get("choices") or value.get("generations")
        while isinstance(found, list) and found:
            found = found[0]
        choice = as_mapping(found)
        message = as_mapping(choice.get("message"))
        message = as_mapping(message.get("kwargs")) or message
        if not message and {"finish_reason", "generation_info"} & choice.keys():
            message = {"content": choice.get("text")}  # of a model that is no chat model
        if not message:
            return None
        beside = {**as_mapping(choice.get("generation_info")), **choice}
    if not message.get("content") and message.get("refusal"):
        return {"content": message["refusal"], "finish_reason": "refusal"}
    return {"content": message.get("content"), **_ends(message), **_ends(beside)}


def _ends(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the finish reasons in an object and its `response_metadata`, by their keys."""
    beside = {**as_mapping(value.get("response_metadata")), **value}
    return {key: beside[key] for key in END_KEYS if beside.get(key)}


def _read_conversation(messages: list[Any]) -> list[Any] | None:
    """Return a conversation as messages with `role` and `content`, or None if it is none, or its format is unknown."""
    if not traces.is_conversation(messages):
        return None
    try:
        return messages if is_conversation(messages) else [one.to_dict() for one in traces.convert_recording(messages)]
    except traces.TraceFormatError:
        return None


def _first(value: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return an object's key for the first of `names` that it contains, ignoring case, or None."""
    folded = {str(key).casefold(): key for key in reversed(list(value))}
    return next((folded[name] for name in names if name in folded), None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def as_metadata(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{"metadata": values}` without empty values, or an empty dict."""
    metadata = {key: value for key, value in values.items() if value not in (None, "", [], {})}
    return {"metadata": metadata} if metadata else {}


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping unchanged, or an empty mapping for any other value."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: Any) -> Sequence[Any]:
    """Return a list unchanged, or an empty sequence for any other value."""
    return value if isinstance(value, list) else ()


def is_short(value: Any) -> bool:
    """Return whether a value is suitable as metadata: not empty, and at most 1,000 characters as JSON."""
    try:
        return value not in (None, "", [], {}) and len(json.dumps(value, allow_nan=False)) <= _LONGEST_METADATA
    except (TypeError, ValueError, RecursionError):
        return False


def parse_text(value: Any) -> Any:
    """Parse a string that contains JSON. Other values are returned unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def as_messages(value: Any) -> Any:
    """Parse a string that contains messages as JSON. Other values are returned unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return value
    messages = parse_text(value)
    return messages if is_conversation(messages) else value


def make_recording(
    response: Any, model: str | None = None, label: Mapping[str, Any] | None = None, end: Any = None
) -> dict[str, Any]:
    """Make an entry for `SourceRow.recordings`. An empty model, label or finish reason (`end`) is omitted."""
    named = {"model": model, "label": label, "finish_reason": end}
    return {"response": response, **{key: value for key, value in named.items() if value}}


def objects(head: FileHead, *keys: str) -> list[Any]:
    """Return the values by which the format of a file is detected: the items of the list under the first of `keys` that
    has one, the items of a top-level list, or the values in the first lines of JSON lines. Any other file has none.
    """
    document = head.document
    for key in keys:
        if isinstance(document, Mapping) and isinstance(document.get(key), list):
            return list(document[key])
    if isinstance(document, list):
        return document
    return head.lines if document is None or isinstance(document, Mapping) else []


def read_objects(path: Path, *keys: str) -> Iterator[SourceRow]:
    """Yield each object in a file of JSON or JSON lines as a row. A document may be a list, have a list under one of
    `keys`, or be a single object. If an item is not an object, its row has a problem. Raises `BenchmarkFileError` if
    the file cannot be read.
    """
    head = FileHead(path)
    document = head.document
    lists = [document.get(key) for key in keys] if isinstance(document, Mapping) else []
    listed = next((value for value in lists if isinstance(value, list)), document)
    if head.lines and not isinstance(listed, list):
        yield from read_lines(path)
        return
    items: Sequence[Any] = listed if isinstance(listed, list) else [read_json(path)]
    for number, item in enumerate(items, 1):
        if isinstance(item, Mapping):
            yield SourceRow(f"item {number}", item)
        else:
            yield SourceRow(f"item {number}", {}, "the item is not an object")
