"""The token counts of a reply, under the names used by different servers.

The names are those of OpenAI, Azure, Mistral, xAI, Google's OpenAI endpoint, DeepSeek, Moonshot, Cohere, OpenRouter and
LiteLLM. `karenina_toolkit.traces.formats.anthropic` handles those of the Anthropic Messages API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from karenina_core.models.ports import Usage
from karenina_toolkit.replies.reply_bounds import MOST_TOKENS, read_token_count, sanitize_usage

_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_DETAILS: Final = frozenset(
    {
        *("prompt_tokens_details", "input_tokens_details", "input_token_details", "cache_creation"),
        *("completion_tokens_details", "output_tokens_details", "output_token_details"),
    }
)
_KINDS: Final = {
    **dict.fromkeys(_INPUT, "input"),
    **dict.fromkeys(_OUTPUT, "output"),
    "total_tokens": "total",
    **dict.fromkeys(("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"), "cached"),
    **dict.fromkeys(("cache_read_tokens", "cache_read", "num_cached_tokens", "cached_prompt_tokens"), "cached"),
    "cached_input_tokens": "cached",
    **dict.fromkeys(("cache_creation_input_tokens", "cache_creation_tokens", "cache_write_tokens"), "written"),
    "cache_write_input_tokens": "written",
    "ephemeral_5m_input_tokens": "5m",
    "ephemeral_1h_input_tokens": "1h",
    **dict.fromkeys(("reasoning_tokens", "thinking_tokens", "reasoning"), "reasoning"),
}
_NO_COUNTS: Final = dict.fromkeys(_KINDS.values(), 0)


def read_usage(data: Any) -> Usage:
    """Convert the `usage` of a chat completion, however the server names the counts. Missing and impossible counts are
    0, except that such an input is the total minus the output. Counts that contradict each other are increased so that
    input includes cached tokens, output includes reasoning, and both together are at least the total.

    Some servers only include reasoning in the total.
    """
    if not isinstance(data, (dict, Mapping)):  # the check for dict is fast, and nearly all are
        return Usage(calls=1)
    counts = _NO_COUNTS.copy()  # the largest count of each kind
    parts: list[Mapping[str, Any]] = [data]
    for part in parts:
        for name, value in part.items():
            if name in _KINDS:
                number = value if type(value) is int and 0 <= value <= MOST_TOKENS else read_token_count(value)
                if value is not None and number > counts[_KINDS[name]]:
                    counts[_KINDS[name]] = number
            elif name in _DETAILS and isinstance(value, (dict, Mapping)):
                parts.append(value)  # the loop over the parts reaches it later
    prompt, output, total = counts["input"], counts["output"], counts["total"]
    cached, reasoning = counts["cached"], counts["reasoning"]
    written = max(counts["written"], counts["5m"] + counts["1h"])
    if not prompt:
        prompt = max(total - output, 0)
    if cached + written > prompt:
        prompt += cached + written
    output = max(output, total - prompt)
    if reasoning > output:
        output += reasoning
    usage = Usage(prompt, output, cached, reasoning, 1, written)
    return usage if max(prompt, output) <= MOST_TOKENS else sanitize_usage(usage)


def larger_usage(before: Any, after: Any) -> Any:
    """Return the merger of two `usage` objects of a stream, with the larger value of each count. Either object may be
    missing, and neither is modified.

    Counts grow during a stream, but the last object may lack some of them or contain zeros.
    """
    if not isinstance(before, Mapping):
        return after or before
    if not isinstance(after, Mapping):
        return before
    merged = dict(before)
    for name, value in after.items():
        old = before.get(name)
        if name in _DETAILS:
            merged[name] = larger_usage(old, value)
        elif value is not None and read_token_count(value) >= read_token_count(old):
            merged[name] = value
    return merged
