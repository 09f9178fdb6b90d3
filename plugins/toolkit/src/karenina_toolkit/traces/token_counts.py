"""The token counts of a reply, under the names used by different servers.

The names are those of OpenAI, Azure, Mistral, xAI, Google's OpenAI endpoint, DeepSeek, Moonshot, Cohere, OpenRouter and
LiteLLM. `karenina_toolkit.traces.formats.anthropic` handles those of the Anthropic Messages API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from karenina_core.models.ports import Usage
from karenina_toolkit.replies.reply_bounds import MOST_TOKENS, read_token_count, sanitize_usage

_INPUT: Final = ("prompt_tokens", "input_tokens")
_OUTPUT: Final = ("completion_tokens", "output_tokens")
_OUTPUT_DETAILS: Final = ("completion_tokens_details", "output_tokens_details", "output_token_details")
_DETAILS: Final = frozenset(
    {
        *("prompt_tokens_details", "input_tokens_details", "input_token_details", "cache_creation"),
        *_OUTPUT_DETAILS,
        *("cache_creation_token_details", "server_tool_use"),
    }
)
_KINDS: Final = {
    **dict.fromkeys(_INPUT, "input"),
    **dict.fromkeys(_OUTPUT, "output"),
    "total_tokens": "total",
    **dict.fromkeys(("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"), "cached"),
    **dict.fromkeys(("cache_read_tokens", "cache_read", "num_cached_tokens", "cached_prompt_tokens"), "cached"),
    **dict.fromkeys(("cached_input_tokens", "flex_cache_read", "priority_cache_read"), "cached"),
    **dict.fromkeys(("cache_creation_input_tokens", "cache_creation_tokens", "cache_write_tokens"), "written"),
    "cache_write_input_tokens": "written",
    "ephemeral_5m_input_tokens": "5m",
    "ephemeral_1h_input_tokens": "1h",
    **dict.fromkeys(("reasoning_tokens", "thinking_tokens", "reasoning"), "reasoning"),
    **dict.fromkeys(("flex_reasoning", "priority_reasoning"), "reasoning"),
    "web_search_requests": "searches",
    **dict.fromkeys(("num_server_side_tools_used", "num_sources_used"), "unpriced"),  # xAI
    **dict.fromkeys(("citation_tokens", "prompt_audio_seconds"), "unpriced"),  # Perplexity, Mistral
}
_NO_COUNTS: Final = dict.fromkeys((*_KINDS.values(), "heard", "spoken"), 0)
_USUAL_TIERS: Final = ("", "auto", "default", "standard", "standard_only", "on_demand")
_TIERS: Final = {"flex": "flex", "priority": "priority", "fast": "priority"}


def read_usage(data: Any) -> Usage:
    """Convert the `usage` of a chat completion, however the server names the counts. Missing and impossible counts are
    0, except that such an input is the total minus the output. Counts that contradict each other are increased so that
    input includes cached tokens, output includes reasoning, and both together are at least the total.

    Some servers only include reasoning in the total. If the provider charges for something else as well, such as
    pictures that the model made, the call counts as unpriced.
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
                _count_media(counts, value, is_output=name in _OUTPUT_DETAILS)
    prompt, output, total = counts["input"], counts["output"], counts["total"]
    cached, reasoning = counts["cached"], counts["reasoning"]
    written = max(counts["written"], counts["5m"] + counts["1h"])
    if not prompt:
        prompt = max(total - output, 0)
    if cached + written > prompt:
        prompt += cached + written
    output = max(output, total - prompt)
    if reasoning > output:
        if total == prompt + output and "reasoning_tokens" not in data:  # OpenRouter counts both in different ways
            reasoning = output
        else:
            output += reasoning
    usage = Usage(prompt, output, cached, reasoning, 1, written)
    if counts["1h"] or counts["heard"] or counts["spoken"] or counts["searches"] or counts["unpriced"]:
        usage = replace(
            usage,
            long_write_tokens=counts["1h"],
            audio_input_tokens=min(counts["heard"], prompt),
            audio_output_tokens=min(counts["spoken"], output),
            web_searches=counts["searches"],
            unpriced_calls=int(counts["unpriced"] > 0),
        )
    if "cost" in data or "cost_in_usd_ticks" in data:
        usage = replace(usage, stated_cost=stated_cost(data))
    return usage if max(prompt, output) <= MOST_TOKENS else sanitize_usage(usage)


def stated_cost(data: Mapping[str, Any]) -> int:
    """Return the cost that a `usage` states in the form of OpenRouter, Perplexity or xAI, in billionths of a dollar, or
    0 if there is none. Numbers of others may be in any currency. With an own key at OpenRouter, its provider charges
    `upstream_inference_cost` in addition, without which the cost is not stated.
    """
    cost, details = data.get("cost"), data.get("cost_details")
    dollars: list[Any]
    if isinstance(data.get("is_byok"), bool):
        dollars = [cost]
        if data["is_byok"]:
            dollars.append(details.get("upstream_inference_cost") if isinstance(details, Mapping) else None)
    elif isinstance(cost, Mapping) and cost.get("currency", "USD") == "USD":
        dollars = [cost.get("total_cost")]
    else:
        ticks = data.get("cost_in_usd_ticks")
        return read_token_count(ticks // 10) if isinstance(ticks, int) else 0
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in dollars):
        return 0
    try:
        return read_token_count(round(sum(dollars) * 10**9))
    except (ValueError, OverflowError):  # NaN, infinity and numbers beyond any price
        return 0


def _count_media(counts: dict[str, int], details: Mapping[str, Any], *, is_output: bool) -> None:
    """Add the tokens for sound in the `details` of input or output tokens to `counts`. Pictures that a model makes have
    prices of their own, and are counted as unpriced.
    """
    sound = "spoken" if is_output else "heard"
    counts[sound] = max(counts[sound], *(read_token_count(details.get(name)) for name in ("audio_tokens", "audio")))
    if is_output and read_token_count(details.get("image_tokens")):
        counts["unpriced"] = 1


def service_tier(given: object) -> str:
    """Return "flex" or "priority" for a service tier with these prices, an empty string for the usual one, or "other".
    Tiers are named as OpenAI, Azure, Anthropic, Bedrock and Groq do.
    """
    name = str(given or "").casefold()
    return "" if name in _USUAL_TIERS else _TIERS.get(name, "other")


def add_tier(usage: Usage, given: object) -> Usage:
    """Return the usage of calls with the service tier that their replies state, which may be None."""
    tier = service_tier(given) if given is not None else ""
    if not tier:
        return usage
    calls, others = usage.calls, usage.calls if tier == "other" else 0
    flex, priority = (calls, others) if tier == "flex" else (others, calls)
    return replace(usage, flex_calls=flex, priority_calls=priority)


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
