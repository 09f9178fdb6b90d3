"""Unusual replies that servers are known to send, and the outcomes expected of adapters.

`WireFormat.odd_replies` and `WireFormat.odd_forms` contain such replies in a provider's format. The contracts check
that adapters handle them correctly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from karenina_core.models.ports import ErrorCategory, FinishReason, Usage

C = ErrorCategory


@dataclass(frozen=True)
class OddReply:
    """A reply and its expected outcome: a `text` with its `finish_reason`, or an `error`.

    The error message must contain `words`, and one of the reply's notes must contain `notes`. `tokens` are the input,
    output, cached, reasoning and cache-write tokens, and any further counts of `Usage`, also for errors. If `tokens` is
    None, the usage is not checked.
    """

    body: Any
    status: int = 200
    text: str | None = None
    finish_reason: FinishReason = "stop"
    error: ErrorCategory | None = None
    words: str = ""
    reasoning: str | None = None
    notes: str = ""
    tokens: tuple[int, ...] | None = None

    @property
    def usage(self) -> Usage | None:
        """Return the tokens as the usage of one call, or None if there are none."""
        if self.tokens is None:
            return None
        counts = (*self.tokens[:4], 1, *self.tokens[4:])
        return Usage(*counts)


def chat(content: Any = "Oslo.", finish: Any = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    """Return the body of a chat completion. `message` adds fields to its message. By default, it used 20 input and 8
    output tokens.
    """
    choice = {"index": 0, "message": {"role": "assistant", "content": content, **message}, "finish_reason": finish}
    counted = {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 28} if usage is None else usage
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": counted}


def _with_fields(body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return the chat completion with `fields` added to its only choice."""
    return {**body, "choices": [{**body["choices"][0], **fields}]}


_FAILED: Final[dict[str, Any]] = {"error": C.SERVER, "tokens": (20, 8, 0, 0, 0)}
_EMPTY: Final[dict[str, Any]] = {"error": C.EMPTY, "tokens": (20, 8, 0, 0, 0)}
_CUT: Final[dict[str, Any]] = {"text": "The capi", "finish_reason": "length"}

CHAT_ENDS: Final[Mapping[str, OddReply]] = {
    **{
        f"finish reason {reason}": OddReply(chat("The capi", reason), **kind)
        for kind, reasons in (
            (_FAILED, ("error", "network_error", "insufficient_system_resource", "abort", "OTHER")),
            (_FAILED, ("function_call_filter: MALFORMED_FUNCTION_CALL",)),
            (_CUT, ("MAX_TOKENS", "model_length", "max_tokens", "model_context_window_exceeded", "repetition")),
            ({"text": "The capi", "finish_reason": "content_filter"}, ("sensitive", "content_filter: RECITATION")),
            (
                {"text": "The capi", "finish_reason": "content_filter"},
                ("SAFETY", "guardrail_intervened", "ERROR_TOXIC"),
            ),
            ({"text": "The capi"}, ("eos", "end_turn", "COMPLETE", "STOP")),
            ({"text": "The capi", "finish_reason": "other"}, ("weary", None)),
        )
        for reason in reasons
    },
    "error in the choice": OddReply(
        _with_fields(chat("The capi", "error"), error={"code": 502, "message": "the upstream is gone"}),
        error=C.SERVER,
        words="the upstream is gone",
        tokens=(20, 8, 0, 0, 0),
    ),
    "error beside the choices": OddReply(
        {**chat("The capi"), "error": {"code": 502, "message": "the upstream is gone"}},
        error=C.SERVER,
        words="the upstream is gone",
        tokens=(20, 8, 0, 0, 0),
    ),
    "a call without a name": OddReply(chat(None, tool_calls=[{"id": "1", "function": {"arguments": "{}"}}]), **_FAILED),
    "empty error beside the choices": OddReply(
        {**chat("The capi"), "error": {"message": "", "type": "", "code": None}}, text="The capi"
    ),
    "stop for a reason of the provider": OddReply(
        _with_fields(chat("The capi"), provider_specific_fields={"native_finish_reason": "network_error"}), **_FAILED
    ),
    "stop for a full context": OddReply(_with_fields(chat("The capi"), native_finish_reason="MAX_TOKENS"), **_CUT),
}
CHAT_EMPTY: Final[Mapping[str, OddReply]] = {
    "null": OddReply(chat(None), **_EMPTY),
    "white space": OddReply(chat(" \n\t"), **_EMPTY),
    "no parts": OddReply(chat([]), **_EMPTY),
    "marks around nothing": OddReply(chat("<think>\n\n</think>\n"), **_EMPTY),
    "invisible characters": OddReply(chat("\u200b\ufeff"), **_EMPTY),
    "a special token": OddReply(chat("</s><|im_end|>"), **_EMPTY),
    "no tokens": OddReply(chat("", usage={"prompt_tokens": 0, "completion_tokens": 0}), error=C.EMPTY),
    "reasoning alone": OddReply(chat(None, reasoning_content="Oslo, I think."), words="reasoning_content", **_EMPTY),
    "thoughts alone": OddReply(chat([{"type": "thinking", "thinking": "Oslo?"}]), words="reasoning_content", **_EMPTY),
    "a call that was not offered": OddReply(
        chat(None, "tool_calls", tool_calls=[{"id": "1", "function": {"name": "search", "arguments": "{}"}}]),
        words="not offered",
        **_EMPTY,
    ),
    "filtered": OddReply(chat("", "content_filter"), text="", finish_reason="content_filter"),
    "cut off while thinking": OddReply(chat(None, "length", reasoning_content="Os"), text="", finish_reason="length"),
}
CHAT_PARTS: Final[Mapping[str, OddReply]] = {
    "nested thoughts": OddReply(
        chat(
            [{"type": "thinking", "thinking": [{"type": "text", "text": "Bergen?"}]}, {"type": "text", "text": "Oslo."}]
        ),
        text="Oslo.",
        reasoning="Bergen?",
    ),
    "reasoning with a summary": OddReply(
        chat([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Bergen?"}]}, "Oslo."]),
        text="Oslo.",
        reasoning="Bergen?",
    ),
    "texts in pieces": OddReply(
        chat([{"type": "text", "text": "Os"}, {"type": "text", "text": "l"}, "o."]), text="Oslo."
    ),
    "texts around a reference": OddReply(
        chat([{"type": "text", "text": "Os"}, {"type": "reference"}, {"type": "text", "text": "lo."}]), text="Oslo."
    ),
    "lists in lists": OddReply(chat([[{"type": "text", "text": "Oslo."}]]), text="Oslo."),
    "a part without a list": OddReply(chat({"type": "text", "text": "Oslo."}), text="Oslo."),
    "an unknown part": OddReply(
        chat([{"type": "hologram", "data": "Bergen"}, {"type": "text", "text": "Oslo."}]),
        text="Oslo.",
        notes="hologram",
    ),
}
CHAT_TOKENS: Final[Mapping[str, OddReply]] = {
    name: OddReply(chat(usage=usage), text="Oslo.", tokens=tokens)
    for name, usage, tokens in (
        (
            "thoughts in the total and apart",
            {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 90}
            | {"completion_tokens_details": {"reasoning_tokens": 56}},
            (30, 60, 0, 56, 0),
        ),
        ("thoughts in the total", {"prompt_tokens": 30, "completion_tokens": 4, "total_tokens": 90}, (30, 60, 0, 0, 0)),
        (
            "thoughts apart, without a total",
            {"prompt_tokens": 30, "completion_tokens": 4, "completion_tokens_details": {"reasoning_tokens": 56}},
            (30, 60, 0, 56, 0),
        ),
        (
            "hits and misses of a cache",
            {
                "prompt_tokens": 30,
                "completion_tokens": 4,
                "prompt_cache_hit_tokens": 18,
                "prompt_cache_miss_tokens": 12,
            },
            (30, 4, 18, 0, 0),
        ),
        (
            "tokens read from and written to a cache",
            {
                "prompt_tokens": 90,
                "completion_tokens": 4,
                "cache_read_input_tokens": 50,
                "cache_creation_input_tokens": 20,
            }
            | {"prompt_tokens_details": {"cached_tokens": 50, "cache_creation_tokens": 20}},
            (90, 4, 50, 0, 20),
        ),
        (
            "a cache that lasts an hour",
            {"prompt_tokens": 90, "completion_tokens": 4, "cache_creation_input_tokens": 20}
            | {"prompt_tokens_details": {"cache_creation_token_details": {"ephemeral_1h_input_tokens": 20}}},
            (90, 4, 0, 0, 20, 20),
        ),
        (
            "sound and searches",
            {"prompt_tokens": 90, "completion_tokens": 9, "server_tool_use": {"web_search_requests": 2}}
            | {"prompt_tokens_details": {"audio_tokens": 50}, "completion_tokens_details": {"audio_tokens": 8}},
            (90, 9, 0, 0, 0, 0, 50, 8, 2),
        ),
        (
            "a cache beside the input",
            {"prompt_tokens": 10, "completion_tokens": 4, "cache_read_input_tokens": 50},
            (60, 4, 50, 0, 0),
        ),
        (
            "cached tokens at the top",
            {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 9},
            (30, 4, 9, 0, 0),
        ),
        (
            "a negative input beside the total",
            {"prompt_tokens": -1, "completion_tokens": 4, "total_tokens": 34},
            (30, 4, 0, 0, 0),
        ),
        ("counts that are none", {"prompt_tokens": 30, "completion_tokens": True}, (30, 0, 0, 0, 0)),
        ("counts as text", {"prompt_tokens": "30", "completion_tokens": 4.0, "total_tokens": "34"}, (30, 4, 0, 0, 0)),
    )
}
CHAT_FILTERS: Final[Mapping[str, OddReply]] = {
    name: OddReply(body, status, text="", finish_reason="content_filter")
    for name, status, body in (
        ("code", 400, {"error": {"message": "no", "code": "content_filter"}}),
        ("inner code", 400, {"error": {"message": "no", "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
        ("DashScope", 400, {"error": {"message": "Input data may contain inappropriate content.", "code": "x"}}),
        ("LiteLLM", 400, {"error": {"message": "litellm.ContentPolicyViolationError: no", "code": "400"}}),
        ("xAI", 403, {"code": "no", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO"}),
        ("DeepSeek", 400, {"error": {"message": "Content Exists Risk", "type": "invalid_request_error"}}),
        ("MiniMax", 500, {"type": "error", "error": {"message": "output new_sensitive (1027)", "http_code": "500"}}),
        (
            "Cloudflare",
            424,
            {"success": False, "error": [{"code": 2016, "message": "Prompt blocked due to security configurations"}]},
        ),
        ("completion", 400, chat("", "content_filter")),
        ("error as text", 400, {"error": "content_filter: blocked"}),
        ("error as text in 200", 200, {"error": "content_filter blocked the prompt"}),
        ("error in 200", 200, {"error": {"message": "flagged", "code": "content_filter"}}),
    )
}
CHAT_REPLIES: Final = {**CHAT_ENDS, **CHAT_EMPTY, **CHAT_PARTS, **CHAT_TOKENS, **CHAT_FILTERS}

_FORM: Final = '{"cytogenetic_band": "17q21", "is_certain": true}'
_OTHER_FORM: Final = '{"cytogenetic_band": "1p", "is_certain": false}'

CHAT_FORMS: Final[Mapping[str, OddReply]] = {
    "thoughts among the parts": OddReply(
        chat([{"type": "thinking", "thinking": _OTHER_FORM}, {"type": "text", "text": _FORM}]), text=_FORM
    ),
    "in two parts": OddReply(
        chat([{"type": "text", "text": _FORM[:25]}, {"type": "text", "text": _FORM[25:]}]), text=_FORM
    ),
    "in the reasoning alone": OddReply(chat(None, reasoning_content=_FORM), text=_FORM),
    "old function call": OddReply(
        chat(None, "function_call", function_call={"name": "Locus", "arguments": _FORM}), text=_FORM
    ),
    "a tool call in place of text": OddReply(
        chat(None, "tool_calls", tool_calls=[{"id": "1", "function": {"name": "Locus", "arguments": _FORM}}]),
        text=_FORM,
    ),
    "filtered": OddReply(chat("", "content_filter"), text="", finish_reason="content_filter"),
    "refused by a filter": OddReply(
        {"error": {"message": "no", "code": "content_filter"}}, 400, text="", finish_reason="content_filter"
    ),
    "broken off": OddReply(chat('{"cyto', "error"), **_FAILED),
    "empty": OddReply(chat(""), **_EMPTY),
    "prose in the reasoning": OddReply(chat("", reasoning_content="17q21"), words="reasoning_content", **_EMPTY),
}


def messages_reply(content: Any, stop: Any = "end_turn", usage: Any = None) -> dict[str, Any]:
    """Return the body of a Messages API reply with `content`, a text or a list of blocks, and the stop reason `stop`.
    By default, it used 20 input and 8 output tokens.
    """
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    counted = {"input_tokens": 20, "output_tokens": 8} if usage is None else usage
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
    return {**head, "content": blocks, "stop_reason": stop, "stop_sequence": None, "usage": counted}


MESSAGES_REPLIES: Final[Mapping[str, OddReply]] = {
    "unknown stop reason": OddReply(messages_reply("Oslo.", "weary"), text="Oslo.", finish_reason="other"),
    "full context": OddReply(messages_reply("The capi", "model_context_window_exceeded"), **_CUT),
    "refusal without text": OddReply(messages_reply([], "refusal"), text="", finish_reason="content_filter"),
    "an error of a gateway": OddReply(messages_reply("The capi", "error"), **_FAILED),
    "no block": OddReply(messages_reply([]), **_EMPTY),
    "white space": OddReply(messages_reply(" \n"), **_EMPTY),
    "thoughts alone": OddReply(messages_reply([{"type": "thinking", "thinking": "Oslo?"}]), words="thoughts", **_EMPTY),
    "an unknown block": OddReply(
        messages_reply([{"type": "hologram", "data": "Bergen"}, {"type": "text", "text": "Oslo."}]),
        text="Oslo.",
        notes="hologram",
    ),
    "written tokens by lifetime": OddReply(
        messages_reply(
            "Oslo.", usage={"input_tokens": 5, "output_tokens": 4, "cache_creation": {"ephemeral_1h_input_tokens": 7}}
        ),
        text="Oslo.",
        tokens=(12, 4, 0, 0, 7, 7),
    ),
    "searches and a service tier": OddReply(
        messages_reply(
            "Oslo.",
            usage={"input_tokens": 5, "output_tokens": 4, "server_tool_use": {"web_search_requests": 2}}
            | {"service_tier": "priority"},
        ),
        text="Oslo.",
        tokens=(5, 4, 0, 0, 0, 0, 0, 0, 2, 0, 1),
    ),
    "refused by a filter": OddReply(
        {
            "type": "error",
            "error": {"type": "invalid_request_error", "message": "Output blocked by content filtering policy"},
        },
        400,
        text="",
        finish_reason="content_filter",
    ),
}
MESSAGES_FORMS: Final[Mapping[str, OddReply]] = {
    "refusal": OddReply(messages_reply([], "refusal"), text="", finish_reason="content_filter"),
    "empty": OddReply(messages_reply([]), **_EMPTY),
    "in the thoughts alone": OddReply(messages_reply([{"type": "thinking", "thinking": _FORM}]), text=_FORM),
}
