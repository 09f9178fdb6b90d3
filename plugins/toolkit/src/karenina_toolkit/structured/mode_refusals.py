"""Classify a server's refusal of a structured request by its message. For adapters."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final

from karenina_core.models.ports import ErrorCategory, StructuredMode
from karenina_toolkit.http.http_errors import HTTPStatusError

_STATUSES: Final = frozenset({400, 404, 422, 501})
_TOPICS: Final[dict[StructuredMode, re.Pattern[str]]] = {
    "json_schema": re.compile(
        r"response[_ ]format|output_(?:config|format)|structured[_ ]outputs?|json[_ ]schema|\bschemas?\b"
        r"|\bgrammars?\b|\bguided\b",
        re.IGNORECASE,
    ),
    "tool": re.compile(r"\btools?\b|tool_|\bfunctions?\b|function_", re.IGNORECASE),
}
_REFUSING: Final = re.compile(
    r"support|(?:not|n't)(?: \w+)? (?:allowed|permitted|available|enabled|implemented|accepted|recogni[sz]ed|valid)"
    r"|no such|has no|unavailable|unimplemented|unknown|unrecogni[sz]ed|unexpected|forbidden|disabled|invalid"
    r"|\brequires?\b|must be|should be|extra (?:inputs?|fields?)",
    re.IGNORECASE,
)
# Messages about this schema, not about the mode.
_OF_THE_SCHEMA: Final = re.compile(
    r"invalid (?:\w+ )?schema|schema (?:is|was) (?:invalid|not valid|too)|input_schema|additionalproperties"
    r"|(?:pars|compil|convert)\w* (?:\w+ ){0,3}(?:grammar|schema)|too complex"
    r"|too many (?:properties|states|parameters)",
    re.IGNORECASE,
)
# Messages about the length of a request may mention its tools, too.
_OF_THE_LENGTH: Final = re.compile(
    r"context[_ ](?:length|window|size)|too (?:long|large)|maximum .{0,40}tokens|token limit", re.IGNORECASE
)


class Refusal(Enum):
    """The part of a request that a server refuses: the mode itself, or only this schema in it."""

    MODE = "mode"
    SCHEMA = "schema"


def classify_refusal(error: HTTPStatusError, mode: StructuredMode) -> Refusal | None:
    """Return what `error` refuses of a request in `mode`; None if it is about something else.

    Only 400, 404, 422 and 501 refuse a feature, and only if the server's message names the feature and says that it is
    not supported: after any other failure, no other mode is tried.
    """
    topic = _TOPICS.get(mode)
    message = error.server_text
    if topic is None or error.status not in _STATUSES or _OF_THE_LENGTH.search(message):
        return None
    if error.category is ErrorCategory.FILTERED:
        return None
    if not topic.search(message):
        return None
    if _OF_THE_SCHEMA.search(message):
        return Refusal.SCHEMA
    return Refusal.MODE if _REFUSING.search(message) else None
