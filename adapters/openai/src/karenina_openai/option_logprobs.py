"""The probabilities of the options among which a model chose, read from a chat reply with `logprobs`."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LOGPROBS: Final[Mapping[str, Any]] = {"logprobs": True, "top_logprobs": 20}
"""The fields of a request for probabilities: those of the 20 likeliest tokens, the most that OpenAI's API gives."""

_BEFORE_VALUE: Final = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"')


def options_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the options of a schema with one field, an enum of texts; none for all other schemas."""
    parts = list(schema.get("properties", {}).values())
    options = parts[0].get("enum", ()) if len(parts) == 1 else ()
    return tuple(options) if all(isinstance(option, str) for option in options) else ()


def read_option_logprobs(data: Mapping[str, Any], text: str, options: Sequence[str]) -> dict[str, float] | None:
    """Return the log-probability of each option: that of its first token, where the value begins in `text`.

    An option that is not among the likeliest tokens gets the lowest log-probability that the server gave. None if the
    server gave none, or if they do not belong to `text`.
    """
    start = _BEFORE_VALUE.match(text)
    try:
        tokens = data["choices"][0]["logprobs"]["content"]
        if start is None:
            return None
        position = 0
        for token in tokens:
            written = token["token"]
            if not text.startswith(written, position):
                return None
            position += len(written)
            if position > start.end():
                before = text[position - len(written) : start.end()]
                return _by_option(before, token["top_logprobs"], options)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    return None


def _by_option(before: str, likeliest: Sequence[Mapping[str, Any]], options: Sequence[str]) -> dict[str, float] | None:
    """Return the log-probabilities, if the tokens begin with the text `before` the value."""
    found: dict[str, float] = {}
    lowest = math.inf
    for one in likeliest:
        logprob, written = float(one["logprob"]), str(one["token"])
        if not math.isfinite(logprob):
            continue
        lowest = min(lowest, logprob)
        rest = written.removeprefix(before)
        if not rest or not written.startswith(before):
            continue
        for option in options:
            value = json.dumps(option, ensure_ascii=False)[1:]
            if value.startswith(rest) or rest.startswith(value):
                found[option] = max(logprob, found.get(option, -math.inf))
    return {option: found.get(option, lowest) for option in options} if math.isfinite(lowest) else None
