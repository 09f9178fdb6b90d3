"""How replies end: the servers' finish reasons, grouped by meaning.

Adapters pass the server's reason to `read_end`. `karenina_toolkit.structured.reply_checks` determines how a reply is
treated. Because gateways may rename reasons, any reason may come from any server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from karenina_core.models.ports import FinishReason

NO_REASON: Final = "(none)"
"""The reason to report if the server gives none."""

PAUSED: Final = frozenset({"pause_turn"})
"""Anthropic's reasons for a turn that is continued by another request.

If the adapter cannot continue the turn, the reply counts as cut off.
"""

ENDS: Final[Mapping[FinishReason, Mapping[str, str]]] = {
    "stop": {
        "stop": "OpenAI, Azure, Mistral, xAI, DeepSeek, vLLM, SGLang, llama.cpp, Ollama, OpenRouter; Google: STOP",
        "end_turn": "Anthropic, Bedrock",
        "stop_sequence": "Anthropic, Bedrock, Cohere, Hugging Face TGI",
        "complete": "Cohere: COMPLETE",
        "completed": "OpenAI Responses (status)",
        "eos": "Together",
        "eos_token": "Hugging Face TGI",
        "endoftext": "AI21",
        "finish": "Bedrock Titan: FINISH",
    },
    "tool_calls": {
        "tool_calls": "OpenAI and all servers like it",
        "function_call": "OpenAI before November 2023",
        "tool_use": "Anthropic, Bedrock",
        "tool_call": "Cohere v2: TOOL_CALL",
    },
    "length": {
        "length": "OpenAI and all servers like it",
        "max_tokens": "Anthropic, Bedrock, Cohere; Google: MAX_TOKENS",
        "max_output_tokens": "OpenAI Responses (incomplete_details)",
        "model_length": "Mistral: the context window is full",
        "model_context_window_exceeded": "Anthropic, Bedrock, Zhipu",
        "error_limit": "Cohere: ERROR_LIMIT",
        "limit": "llama.cpp (stop_type)",
        "time_limit": "IBM watsonx",
        "incomplete": "OpenAI Responses (status)",
        "repetition": "vLLM: a loop was detected and cut off",
        "compaction": "Anthropic: the context is compacted before the answer goes on",
        "pause_turn": "Anthropic",
    },
    "content_filter": {
        "content_filter": "OpenAI, Azure, DeepSeek, Moonshot; Google: 'content_filter: RECITATION' and the like",
        "content_filtered": "Bedrock",
        "guardrail_intervened": "Bedrock",
        "refusal": "Anthropic",
        "sensitive": "Zhipu",
        "error_toxic": "Cohere: ERROR_TOXIC",
        "safety": "Google: SAFETY",
        "recitation": "Google: RECITATION",
        "blocklist": "Google: BLOCKLIST",
        "prohibited_content": "Google: PROHIBITED_CONTENT",
        "spii": "Google: SPII",
        "language": "Google: LANGUAGE, one that is not supported",
        "jailbreak": "Google: JAILBREAK",
        "model_armor": "Google: MODEL_ARMOR",
        "image_safety": "Google: IMAGE_SAFETY",
        "image_prohibited_content": "Google: IMAGE_PROHIBITED_CONTENT",
        "image_recitation": "Google: IMAGE_RECITATION",
        "content_policy_violation": "OpenAI, LiteLLM (error code)",
    },
    "failed": {
        "error": "OpenRouter, Mistral, Together, vLLM, Cohere, IBM watsonx: an error in the middle of the reply",
        "network_error": "Zhipu",
        "stream_error": "gateways: the stream of the provider broke",
        "insufficient_system_resource": "DeepSeek",
        "abort": "vLLM, SGLang",
        "aborted": "gateways before vLLM and SGLang",
        "cancelled": "IBM watsonx, OpenAI Responses (status)",
        "canceled": "gateways",
        "user_cancel": "Cohere: USER_CANCEL",
        "timeout": "Cohere v2: TIMEOUT",
        "failed": "OpenAI Responses (status)",
        "server_error": "OpenAI Responses (error code)",
        "load": "Ollama: the model was loaded, and nothing generated",
        "unload": "Ollama",
        "other": "Google: OTHER, 'all other reasons that stopped the token generation'",
        "malformed_function_call": "Google; its OpenAI endpoint: 'function_call_filter: MALFORMED_FUNCTION_CALL'",
        "malformed_response": "Google: MALFORMED_RESPONSE",
        "unexpected_tool_call": "Google: UNEXPECTED_TOOL_CALL",
        "too_many_tool_calls": "Google: TOO_MANY_TOOL_CALLS",
        "missing_thought_signature": "Google: MISSING_THOUGHT_SIGNATURE",
        "malformed_model_output": "Bedrock",
        "malformed_tool_use": "Bedrock",
    },
}
"""The known reasons, grouped by meaning, in lower case with `_` between words, with the servers that use them."""

_MEANINGS: Final[dict[str, FinishReason]] = {reason: end for end, reasons in ENDS.items() for reason in reasons}
_ERRORS: Final = frozenset({"error", "stream_error"})
_LONGEST: Final = 80
_SERIOUSNESS: Final[tuple[FinishReason, ...]] = ("other", "stop", "tool_calls", "length", "content_filter", "failed")


def read_end(given: object) -> tuple[FinishReason, str | None]:
    """Return the meaning of a server's finish reason, such as "length", and the reason itself if the meaning is
    "failed" or "other", otherwise None. Unknown reasons are "other", and so are missing ones, with `NO_REASON` as the
    reason.

    Case, separators and the name of an enumeration, as in `FinishReason.MAX_TOKENS`, are ignored. If a reason has
    several parts, such as `content_filter: RECITATION`, the last known part is used. If it starts with an error, the
    first known part is used. For an object, its `type` is used.
    """
    if isinstance(given, str):
        meaning = _MEANINGS.get(given)
        if meaning is not None:
            return meaning, (given if meaning == "failed" else None)
    elif isinstance(given, Mapping) and isinstance(given.get("type"), str):
        return read_end(given["type"])
    if given is None or given == "":
        return "other", NO_REASON
    written = str(given)[:_LONGEST]
    category, *parts = map(_spell, written.split(":"))
    for part in (category, *parts) if category in _ERRORS else (*reversed(parts), category):
        meaning = _MEANINGS.get(part)
        if meaning is not None:
            return meaning, (written if meaning == "failed" else None)
    return "other", written


def _spell(reason: str) -> str:
    """Normalize a reason to lower case with `_` between words, without the name of an enumeration."""
    words = re.findall(r"[^\W_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", reason))
    return "_".join(words).lower().removeprefix("finish_reason_")


def read_choice_end(choice: Mapping[str, Any]) -> tuple[FinishReason, str | None]:
    """Return the meaning of a chat completion choice's finish reason, such as "length", and the reason itself if the
    meaning is "failed" or "other", otherwise None. If the reason is "stop" or unknown, the provider's own reason, which
    gateways add, is used if it says more.

    If OpenAI has no equivalent for a provider's reason, gateways write `stop` and add the provider's own reason
    (`native_finish_reason` for OpenRouter, and the same key in `provider_specific_fields` for LiteLLM).
    """
    end = read_end(choice.get("finish_reason"))
    if end[0] not in ("stop", "other"):
        return end
    native = choice.get("native_finish_reason")
    if native is None and (beside := choice.get("provider_specific_fields")) and isinstance(beside, Mapping):
        native = beside.get("native_finish_reason")
    if native:
        theirs = read_end(native)
        if theirs[0] in ("length", "content_filter", "failed") or (end[0] == "other" and theirs[0] != "other"):
            return theirs
    return end


def more_serious(before: object, after: object) -> object:
    """Return the more serious of two finish reasons in a stream, or the later one if they are equal. A stream that was
    filtered, was cut off or failed keeps that reason, even if a normal end follows.
    """
    if not before or not after:
        return after or before
    first, second = (_SERIOUSNESS.index(read_end(reason)[0]) for reason in (before, after))
    return before if first > second else after
