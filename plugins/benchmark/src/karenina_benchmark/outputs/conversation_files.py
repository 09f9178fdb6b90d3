"""Files that hold one conversation, for `karenina judge`: JSON of other programs, transcripts, and texts with roles."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from karenina_core.errors import ConfigError
from karenina_toolkit.traces import (
    TraceFormatError,
    convert_recording,
    is_conversation,
    parse_conversation,
    parse_json_conversation,
)

Conversation = Sequence[Mapping[str, Any]] | Mapping[str, Any]
_REPLIES: Final = ("assistant", "ai", "model", "message")


def find_in_text(path: Path, text: str) -> Conversation | None:
    """Return the conversation that a text file is: as JSON, with headings, or with roles. None for any other text.

    Raises `ConfigError` for a conversation that cannot be read.
    """
    document = parse_json_conversation(text)
    try:
        messages = parse_conversation(text) if document is None else convert_recording(document)
    except TraceFormatError as error:
        raise ConfigError([f"{path} holds a conversation that cannot be read: {error}"]) from None
    if document is not None:
        return cast("Conversation", document)
    return None if messages is None else [message.to_dict() for message in messages]


def find_in_document(path: Path, document: Any) -> Conversation | None:
    """Return the conversation that a JSON document is; None for a list of outputs.

    Raises `ConfigError` for an object of no known shape, and a conversation without an answer.
    """
    if isinstance(document, list):
        return find_in_rows(document, ())
    if is_conversation(document):
        return cast("Conversation", document)
    try:
        convert_recording(document)
        why = "it has no answer"
    except TraceFormatError as error:
        why = str(error)
    raise ConfigError(
        [
            f"{path} is JSON of no known conversation: {why}; give a list of outputs with `response`, or name it "
            "with --rows, or, to judge the JSON as a text, a file whose name ends in .txt"
        ]
    )


def find_in_rows(rows: Sequence[Any], names: Collection[str]) -> Conversation | None:
    """Return rows that are the messages or events of one conversation; None if they are outputs.

    Rows with one of the keys `names` are outputs, and so are replies alone, one a row.
    """
    if not all(isinstance(row, Mapping) and not row.keys() & set(names) for row in rows):
        return None
    if all(row.get("role", row.get("type")) in _REPLIES for row in rows):
        return None
    return rows if is_conversation(rows) else None
