"""The tokens of a reply, under all names that servers give them.

Names are those of OpenAI, Azure, Mistral, xAI, Google's OpenAI endpoint, DeepSeek, Moonshot, Cohere, OpenRouter and
LiteLLM. `karenina_toolkit.traces.anthropic` reads those of the Messages API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from karenina_core.models.ports import Usage
from karenina_toolkit.reply_sanitizer import MOST_TOKENS, read_token_count

_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_INPUT_DETAILS: Final = ("prompt_tokens_details", "input_tokens_details", "input_token_details")
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details", "output_token_details")
_CACHED: Final = (
    *("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens", "cache_read_tokens"),
    *("cache_read", "num_cached_tokens", "cached_prompt_tokens", "cached_input_tokens"),
)
_WRITTEN: Final = (
    "cache_creation_input_tokens",
    "cache_creation_tokens",
    "cache_write_tokens",
    "cache_write_input_tokens",
)
_BY_LIFETIME: Final = ("ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens")
_REASONING: Final = ("reasoning_tokens", "thinking_tokens", "reasoning")


def read_usage(data: Any) -> Usage:
    """Return the usage of one call from the `usage` of a chat completion; missing numbers are 0.

    Output is the larger of its own count and of the total without the input, since some servers count the model's
    thoughts in the total only. Cached tokens that cannot be part of the input are added to it.
    """
    if not isinstance(data, Mapping):
        return Usage(calls=1)
    places = [
        data,
        *(data[name] for name in (*_INPUT_DETAILS, "cache_creation") if isinstance(data.get(name), Mapping)),
    ]
    details = [data, *(data[name] for name in _OUTPUT_DETAILS if isinstance(data.get(name), Mapping))]
    given, output, total = _largest([data], _INPUT), _largest([data], _OUTPUT), _largest([data], ("total_tokens",))
    cached, reasoning = _largest(places, _CACHED), _largest(details, _REASONING)
    written = max(_largest(places, _WRITTEN), sum(_largest(places, (name,)) for name in _BY_LIFETIME))
    if not given and total > output and not any(data.get(name) is not None for name in _INPUT):
        given = total - output
    if cached + written > given:
        given += cached + written
    output = max(output, total - given)
    if reasoning > output:
        output += reasoning
    return Usage(
        min(given, MOST_TOKENS),
        min(output, MOST_TOKENS),
        min(cached, MOST_TOKENS),
        min(reasoning, MOST_TOKENS),
        calls=1,
        cache_write_tokens=min(written, MOST_TOKENS),
    )


def larger_usage(before: Any, after: Any) -> Any:
    """Return the later `usage` of a stream, unless it counts nothing and the earlier one does."""
    if not after:
        return before
    if before and isinstance(after, Mapping) and not _largest([after], (*_INPUT, *_OUTPUT, "total_tokens")):
        return before
    return after


def _largest(places: list[Any], names: tuple[str, ...]) -> int:
    found = 0
    for place in places:
        for name in names:
            value = place.get(name)
            if value:
                found = max(found, read_token_count(value))
    return found
