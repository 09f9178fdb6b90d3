"""Suggested fixes for failed HTTP calls ("cures"), based on the server's message or the base URL."""

from __future__ import annotations

import html
import re
from collections.abc import Set as AbstractSet
from typing import Final
from urllib.parse import urlsplit

NO_CREDIT: Final = "the account has no credit left, or has reached its spending limit"
TOO_LONG: Final = (
    "the request is longer than the model's context window. Shorten the question or the judge's input, "
    "lower max_tokens, or choose a model with a longer context window"
)
FAILED_GENERATION: Final = (
    "the model wrote JSON or a tool call that the server rejects; choose another model or, for a judge, set "
    "extra.structured to prompt"
)
NOT_IN_REGION: Final = "the provider does not serve the country or region from which the request is sent"
BLOCKED: Final = (
    "a firewall or proxy blocked the request, or the key is wrong; check the server's URL, the network and the key"
)
BEYOND_THE_LIMIT: Final = (
    "the request alone has more tokens than the account may send in a minute; shorten it, or raise the account's limit"
)
WRONG_PATH: Final = "check the path in the server's URL (after '@', or in endpoint_base_url); most servers expect /v1"
NO_MEDIA: Final = (
    "the model or its server does not accept the attached file. Choose a model that understands it, or start the "
    "server with what it needs (llama.cpp: --mmproj; vLLM: --limit-mm-per-prompt). State in extra.media what the model "
    "understands, so that this is an error before the run"
)
TOO_MANY_FILES: Final = "attach fewer files, or let the server accept more in one request (vLLM: --limit-mm-per-prompt)"
TOO_LARGE_FILE: Final = (
    "the attached file is too large for the server; scale a picture down, or attach fewer pages of a PDF (`pages`)"
)
UNREADABLE_FILE: Final = "the server cannot decode the attached file; convert it, for example to PNG, JPEG, WAV or MP3"
WRITE_HTTPS: Final = "write https:// instead of http:// in endpoint_base_url"
WRITE_HTTP: Final = "the server does not use TLS on this port; write http:// instead of https:// in endpoint_base_url"

_NO_CREDIT_CODES: Final = frozenset(
    {
        *("insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error"),
        "budget_exceeded",  # LiteLLM
        "exceeded_current_quota_error",  # Moonshot
        "Arrearage",  # DashScope
        "1113",  # Zhipu: the account is in arrears
    }
)
_NO_CREDIT_WORDS: Final = re.compile(
    r"insufficient (credit|balance|funds|quota)|credit balance is too low|(out of|used all available) credits"
    r"|doesn't have any credits|balance is insufficient|budget has been exceeded!"  # xAI, SiliconFlow, LiteLLM
    r"|reach(?:ed|ing) (?:its|your|the) (?:\w+ )?spending limit"  # xAI, Fireworks
    r"|reached your specified API usage limits",  # Anthropic
    re.IGNORECASE,
)
_FAILED_GENERATION_CODES: Final = frozenset({"json_validate_failed", "tool_use_failed", "output_parse_failed"})  # Groq
_FAILED_GENERATION_WORDS: Final = re.compile(
    r"JSON (?:mode|model) couldn't be met|did not output valid JSON",  # Cloudflare, SambaNova
    re.IGNORECASE,
)
_FILTER_CODES: Final = frozenset(
    {
        "content_filter",  # Azure, Moonshot
        "ResponsibleAIPolicyViolation",  # Azure, in innererror
        "content_policy_violation",  # OpenAI, LiteLLM
        "invalid_prompt",  # OpenAI, for reasoning models
        "moderation_blocked",  # OpenAI
        "cyber_policy",  # OpenAI
        "data_inspection_failed",  # DashScope
        "DataInspectionFailed",  # DashScope
        "contentFilter",  # Zhipu
        "1301",  # Zhipu: unsafe or sensitive content in input or output
        "guardrail_intervened",  # Bedrock
        *("1026", "1027"),  # MiniMax: sensitive input or output
    }
)
_FILTER_WORDS: Final = re.compile(
    r"filtered due to .{0,80}content management policy|ContentPolicyViolation"  # Azure, LiteLLM
    r"|blocked by content filter(?:ing)? polic"  # Anthropic
    r"|content violates usage guidelines|SAFETY_CHECK_TYPE"  # xAI
    r"|prompt was flagged as potentially violating"  # OpenAI
    r"|flagged (?:\w+ ){0,3}(?:possible|potential) [\w -]{0,20}risk"  # OpenAI
    r"|(?:in|out)put_guardrail_triggered"  # Databricks
    r"|blocked input or output"  # Cohere
    r"|(?:prompt|response) blocked due to security configurations"  # Cloudflare
    r"|(?:in|out)put (?:\w+ )?data may contain inappropriate|DataInspectionFailed"  # DashScope
    r"|Content Exists Risk|rejected because it was considered high risk"  # DeepSeek, Moonshot
    r"|requires moderation on|your input was flagged for"  # OpenRouter
    r"|PROHIBITED_CONTENT"  # Google
    r"|(?:prompt|request|response|input|output|content|completion|generation) (?:(?:was|were|is|has been) )?"
    r"blocked by (?:\w+ ){0,4}(?:guardrail|safety|content filter)"  # gateways
    r"|(?:in|out)put new_sensitive|detected potentially unsafe or sensitive content",  # MiniMax, Zhipu
    re.IGNORECASE,
)
_TOO_LONG_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG_WORDS: Final = re.compile(
    r"context (length|window|size)|(prompt|input|request|messages?|conversation) (is |are )?too long"
    r"|^\W*too long\W*$|: *[\"']too long\W*$"  # the only text of the error
    r"|reduce the length of the (messages|prompt|input)|exceeds the maximum number of tokens allowed"  # Google
    r"|too many (input |prompt )?tokens"
    r"(?!, please wait)"  # Bedrock's rate limit
    r"|inputs` tokens \+ `max_new_tokens` must be",  # TGI
    re.IGNORECASE,
)
_TOO_LONG_STATUSES: Final = (400, 413, 422)
_MEDIA: Final = r"(?:images?|audio|vision|multi-?modal(?:ity)?|visual|pdfs?|documents?|files?)"
_PART: Final = r"[`'\"]?(?:image_url|input_audio|input_image|input_file|file|image|document)[`'\"]?"
_NO_MEDIA: Final = re.compile(
    rf"{_MEDIA} (?:inputs? |content(?: blocks)? |parts )?(?:is|are) not (?:supported|enabled|allowed)"  # llama.cpp, TGI
    rf"|(?:does not|doesn't|do not|cannot) (?:support|accept|process) (?:any )?{_MEDIA}"  # Ollama, LM Studio, Anthropic
    rf"|missing data required for {_MEDIA} input"  # Ollama
    r"|is not a multimodal model|At most 0 \w+\(s\)|limit_mm_per_prompt.{0,40}only supported for"  # vLLM
    rf"|{_PART} is only supported by certain models"  # OpenAI
    rf"|no endpoints found that support (?:input )?{_MEDIA}"  # OpenRouter
    rf"|unknown variant {_PART}|allowed values: \['text'\]|{_PART} is not one of"  # DeepSeek, DashScope
    r"|only (?:'text' content type|text (?:input|content)) is supported|only supports text"
    r"|content'? ?:? (?:value )?must be a string"  # Groq
    r"|unsupported content\[\]\.type|unknown part type|invalid content type",  # Groq, vLLM
    re.IGNORECASE,
)
_TOO_MANY_FILES: Final = re.compile(
    rf"At most [1-9]\d* \w+\(s\) may be provided|too many {_MEDIA}", re.IGNORECASE
)  # vLLM
_TOO_LARGE_FILE: Final = re.compile(
    rf"{_MEDIA} (?:\w+ ){{0,3}}(?:exceeds?\b(?! (?:the )?(?:time|deadline))|too large\b"  # Anthropic, xAI
    r"|too big\b|larger than\b)"
    r"|maximum of \d+ PDF pages|maximum image size|request exceeds the maximum size",
    re.IGNORECASE,
)
_UNREADABLE_FILE: Final = re.compile(
    r"failed to (?:load|decode) (?:the )?(?:image|audio)"  # llama.cpp, Ollama
    r"|(?:could not|cannot|unable to) (?:process|decode|identify) (?:the |input )?(?:image|audio|pdf|document)"
    r"|unsupported image|invalid image|image_parse_error|not represent a valid image"  # OpenAI
    r"|(?:unsupported|invalid) MIME type|image media type not supported"  # OpenAI, Google, Bedrock
    r"|the PDF specified (?:is password|was not valid)",  # Anthropic
    re.IGNORECASE,
)
_REFUSING_STATUSES: Final = (None, 400, 404, 413, 415, 422, 500, 501)
_NOT_IN_REGION: Final = re.compile(
    r"(?:country|region|territory|user location) (?:is )?not supported"  # OpenAI, Google
    r"|not (?:available|supported) in your (?:country|region|territory|location)",
    re.IGNORECASE,
)
_BEYOND_THE_LIMIT: Final = re.compile(r"request too large for .{0,200}tokens per min", re.IGNORECASE | re.DOTALL)
_WRONG_PATH: Final = re.compile(r"unexpected endpoint or method", re.IGNORECASE)  # LM Studio, with status 200
_PLAIN_TO_TLS: Final = re.compile(r"HTTP request (was sent )?to (an )?HTTPS (port|server)", re.IGNORECASE)
_TLS_TO_PLAIN: Final = ("InvalidContentType", "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
_PAGE: Final = re.compile(r"\s*(<!--.{0,500}?-->\s*)?<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_QUOTED_PAGE: Final = re.compile(r"<(!doctype\s+html|html)\b", re.IGNORECASE)
_NOT_READ: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_TAG: Final = re.compile(r"<[^<>]*>?")
_LOOKED_AT: Final = 5000


def has_no_credit(message: str, codes: AbstractSet[str]) -> bool:
    """Return whether a call failed because the account has no credit. If so, a retry cannot succeed. This depends on
    the error codes, or on certain words at the start of the message.
    """
    return bool(codes & _NO_CREDIT_CODES) or _NO_CREDIT_WORDS.search(message[:_LOOKED_AT]) is not None


def is_filtered(message: str, codes: AbstractSet[str]) -> bool:
    """Return whether the provider's content filter refused a call, based on known codes and phrases. Messages that
    merely mention filters, policies or flags do not count.
    """
    return bool(codes & _FILTER_CODES) or _FILTER_WORDS.search(message[:_LOOKED_AT]) is not None


def is_failed_generation(message: str, codes: AbstractSet[str]) -> bool:
    """Return whether a server rejected what its model wrote, so that another attempt may succeed."""
    return bool(codes & _FAILED_GENERATION_CODES) or _FAILED_GENERATION_WORDS.search(message[:_LOOKED_AT]) is not None


def is_beyond_limit(message: str) -> bool:
    """Return whether a single request exceeds the account's limit on tokens per minute (OpenAI, Groq), so that a retry
    cannot succeed.
    """
    return _BEYOND_THE_LIMIT.search(message[:_LOOKED_AT]) is not None


def is_wrong_path(message: str) -> bool:
    """Return whether a server that replies with status 200 says that it does not know the path."""
    return _WRONG_PATH.search(message[:_LOOKED_AT]) is not None


def cure_for_message(status: int, message: str, codes: AbstractSet[str]) -> str | None:
    """Return a suggested fix if the message, or the error `codes` with the status, shows that the prompt is too long,
    that the provider does not serve the country, or that the server expects HTTPS, and otherwise None. It takes
    precedence over the suggestion for the status.
    """
    message = message[:_LOOKED_AT]
    if _NOT_IN_REGION.search(message):
        return NOT_IN_REGION
    if status in _TOO_LONG_STATUSES and (codes & _TOO_LONG_CODES or _TOO_LONG_WORDS.search(message)):
        return TOO_LONG
    return WRITE_HTTPS if _PLAIN_TO_TLS.search(message) else None


def cure_for_files(status: int | None, message: str) -> str | None:
    """Return a suggested fix if the `status` (None if the server sent none) and message of an error show that a server
    refused a request because of its attachments, or None. Call this only if the request has attachments, because other
    messages about files and content could look the same.

    A retry would be refused, too, even if the status is that of a server error, as it is with llama.cpp and Ollama.
    """
    if status not in _REFUSING_STATUSES:
        return None
    message = message[:_LOOKED_AT]
    if _NO_MEDIA.search(message):
        return NO_MEDIA
    if _TOO_MANY_FILES.search(message):
        return TOO_MANY_FILES
    if _TOO_LARGE_FILE.search(message) or (status == 413 and not _TOO_LONG_WORDS.search(message)):
        return TOO_LARGE_FILE
    return UNREADABLE_FILE if _UNREADABLE_FILE.search(message) else None


def cure_for_tls_error(message: str) -> str | None:
    """Return a suggested fix if a TLS handshake failed because the server does not use TLS, or None."""
    upper = message.upper().replace(" ", "_")
    return WRITE_HTTP if any(word.upper() in upper for word in _TLS_TO_PLAIN) else None


def cure_for_path(base_url: str, usual: str = "/v1") -> str:
    """Return a suggested fix if the server does not know the base URL's path. `usual` is the most common path. The path
    itself is not shown, because it may be secret.
    """
    url = urlsplit(base_url)
    if url.path.strip("/"):
        return f"check the path in the server's URL (after '@', or in endpoint_base_url); most servers expect {usual}"
    return f"endpoint_base_url has no path; did you mean {url.scheme}://{url.netloc.rpartition('@')[2]}{usual}?"


def find_page_text(message: str) -> str | None:
    """Return the text of a web page quoted in `message` without its tags, or None. The web page must begin in the first
    5000 characters.
    """
    match = _QUOTED_PAGE.search(message[:_LOOKED_AT])
    if match is None:
        return None
    text = read_page_text(message[match.start() :].replace("\\n", " "))
    return text.rstrip("'\" ") if text is not None else None


def read_page_text(body: str) -> str | None:
    """Return the text of a web page without its tags, or None if `body` is not a web page. Only the first 5000
    characters are read.
    """
    if _PAGE.match(body) is None:
        return None
    text = _TAG.sub(" ", _NOT_READ.sub(" ", body[:_LOOKED_AT]))
    return " ".join(html.unescape(text).split())
