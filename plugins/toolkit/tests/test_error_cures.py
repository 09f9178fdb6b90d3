"""Cures for errors of servers: web pages, addresses, credit, and requests that are too long."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import NO_USAGE, ErrorCategory, Message, PortError
from karenina_toolkit.http.error_cures import (
    BEYOND_THE_LIMIT,
    BLOCKED,
    FAILED_GENERATION,
    NO_CREDIT,
    NO_MEDIA,
    NOT_IN_REGION,
    TOO_LARGE_FILE,
    TOO_LONG,
    TOO_MANY_FILES,
    UNREADABLE_FILE,
    WRITE_HTTP,
    WRITE_HTTPS,
    WRONG_PATH,
    cure_for_path,
    cure_for_tls_error,
    find_page_text,
)
from karenina_toolkit.http.http_errors import (
    HTTPStatusError,
    error_in_reply,
    messages_api_error,
    not_json_error,
    status_error,
)

pytestmark = pytest.mark.alone

PAGE = """<!DOCTYPE html>
<html><head><title>Open WebUI</title><style>p {color: red}</style><script>if (1 < 2) start()</script></head>
<body><!-- made by hand --><h1 class="x">Welcome &amp; hello</h1></body></html>"""
PROMPT = [Message.user("Which gene is the target of the drug venetoclax?")]


def failure(status: int, body: Any) -> HTTPStatusError:
    said = body if isinstance(body, str) else json.dumps(body)
    return status_error("any:m at HOST", status, {}, said, [], PROMPT)


def unusable(body: bytes) -> PortError:
    return not_json_error("any:m at HOST", body, ["sk-secret"], PROMPT, "check the path")


def openai(message: str, code: str | None = None) -> Any:
    return {"error": {"message": message, "type": "invalid_request_error", "code": code}}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("This model's maximum context length is 8192 tokens.", "context_length_exceeded")),
        (400, {"object": "error", "message": "This model's maximum context length is 4096 tokens."}),
        (400, [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}]),
        (400, {"error": {"message": "exceeds the available context size", "type": "exceed_context_size_error"}}),
        (400, {"error": {"message": "prompt is too long: 208310 tokens > 200000 maximum"}}),
        (413, "Input is too long"),
        (400, {"why": "too long"}),
        (400, "Too long."),
        (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000"}),
        (400, openai("too many input tokens: 9000")),
    ],
)
def test_a_request_beyond_the_context_names_the_cure(status: int, body: Any) -> None:
    error = failure(status, body)
    assert error.category is ErrorCategory.PERMANENT
    assert str(error).endswith(f"; {TOO_LONG}")


def test_a_parameter_that_is_too_long_is_not_the_request() -> None:
    assert TOO_LONG not in str(failure(400, openai("tools.0.name is too long (at most 64 characters)")))


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (402, "Payment Required"),
        (402, openai("Insufficient credits. Add more.")),
        (403, openai("Your credit balance is too low to access the API.")),
        (429, openai("You exceeded your current quota.", "insufficient_quota")),
        (429, {"error": {"message": "You spent your allowance.", "type": "budget_exceeded", "code": "429"}}),
        (400, openai("litellm.BadRequestError: OpenAIException - Budget has been exceeded! Current cost: 2")),
        (429, {"error": {"message": "Your account is suspended", "type": "exceeded_current_quota_error"}}),
        (400, openai("Access denied, please make sure your account is in good standing.", "Arrearage")),
        (429, openai("余额不足或无可用资源包,请充值。", "1113")),
        (403, {"code": 30001, "message": "Sorry, your account balance is insufficient"}),
        (403, {"code": "no permission", "error": "Your newly created teams doesn't have any credits yet."}),
        (429, {"error": "Your team has either used all available credits or reached its monthly spending limit."}),
        (412, openai("Account a is suspended, possibly due to reaching the monthly spending limit")),
        (400, openai("You have reached your specified API usage limits. You will regain access on 2026-02-01")),
    ],
)
def test_an_account_without_credit_is_not_asked_again(status: int, body: Any) -> None:
    error = failure(status, body)
    assert (error.category, error.retriable) == (ErrorCategory.PERMANENT, False)
    assert str(error).endswith(f"; {NO_CREDIT}")


@pytest.mark.parametrize(
    ("kind", "message"),
    [("billing_error", "Pay first."), ("api_error", "Insufficient balance"), ("", "Out of credits.")],
)
def test_an_account_without_credit_is_named_in_a_reply_of_the_messages_api(kind: str, message: str) -> None:
    error = messages_api_error("any:m at HOST", kind, message, [], PROMPT)
    assert error.category is ErrorCategory.PERMANENT
    said = f"{kind}: {message}" if kind else message
    assert str(error) == f"any:m at HOST forwarded an error: {said.removesuffix('.')}; {NO_CREDIT}"


@pytest.mark.parametrize(("message", "seconds"), [("Too busy. Please try again in 20s.", 20), ("Too busy.", None)])
def test_a_stated_wait_without_a_code_is_a_rate_limit(message: str, seconds: float | None) -> None:
    category = ErrorCategory.SERVER if seconds is None else ErrorCategory.RATE_LIMIT
    for error in (
        error_in_reply("any:m", {"message": message}, NO_USAGE, [], []),
        error_in_reply("any:m", message, NO_USAGE, [], []),
        messages_api_error("any:m", "", message, [], []),
    ):
        assert (error.category, error.retry_after) == (category, seconds)


@pytest.mark.parametrize("code", ["rate_limit_exceeded", "rate_limit_error"])
def test_a_rate_limit_in_a_reply_waits_as_long_as_it_says(code: str) -> None:
    message = "Rate limit reached for m. Please try again in 20s."
    of_messages_api = messages_api_error("any:m", "rate_limit_error", message, [], [])

    for error in (error_in_reply("any:m", {"code": code, "message": message}, NO_USAGE, [], []), of_messages_api):
        assert (error.category, error.retry_after) == (ErrorCategory.RATE_LIMIT, 20)


@pytest.mark.parametrize(
    ("code", "message", "category", "cure"),
    [
        (400, "maximum context length is 8192 tokens", ErrorCategory.PERMANENT, TOO_LONG),
        ("context_length_exceeded", "Your input exceeds it.", ErrorCategory.PERMANENT, TOO_LONG),
        (400, "The model did not output valid JSON.", ErrorCategory.SERVER, FAILED_GENERATION),
        (429, "Request too large for m on tokens per min (TPM)", ErrorCategory.PERMANENT, BEYOND_THE_LIMIT),
        (403, "User location is not supported", ErrorCategory.PERMANENT, NOT_IN_REGION),
        (503, "the context length is being computed", ErrorCategory.SERVER, None),
    ],
)
def test_an_error_in_a_reply_has_the_cure_of_one_with_a_status(
    code: int | str, message: str, category: ErrorCategory, cure: str | None
) -> None:
    error = error_in_reply("any:m", {"code": code, "message": message}, NO_USAGE, [], [])

    assert error.category is category
    assert str(error).endswith(message if cure is None else f"{message.removesuffix('.')}; {cure}")


@pytest.mark.parametrize(
    ("code", "message", "category"),
    [
        ("429", "Too many tokens, please wait before trying again.", ErrorCategory.RATE_LIMIT),  # Bedrock
        ("rate_limit_error", "too many input tokens in a minute", ErrorCategory.RATE_LIMIT),
        ("server_error", "Too many tokens, please wait before trying again.", ErrorCategory.SERVER),
        ("503", "the context length is being computed", ErrorCategory.SERVER),
    ],
)
def test_an_error_in_a_reply_that_may_pass_is_tried_again(code: str, message: str, category: ErrorCategory) -> None:
    gateways = error_in_reply("any:m", {"code": code, "message": message}, NO_USAGE, [], [])

    assert gateways.category is category
    assert messages_api_error("any:m", code, message, [], []).category is category


def test_a_prompt_that_is_too_long_is_named_in_a_reply_of_the_messages_api() -> None:
    said = "prompt is too long: 210000 tokens > 200000 maximum"
    error = messages_api_error("any:m", "invalid_request_error", said, [], [])

    assert error.category is ErrorCategory.PERMANENT
    assert str(error) == f"any:m forwarded an error: invalid_request_error: {said}; {TOO_LONG}"


def test_a_rate_limit_that_is_called_a_quota_stays_one() -> None:
    assert failure(429, openai("You exceeded your current quota, try again in 30 s")).retriable
    assert failure(429, openai("Your token budget has been exceeded for this minute")).retriable


@pytest.mark.parametrize("status", [413, 429])
def test_a_request_beyond_the_limit_per_minute_is_not_repeated(status: int) -> None:
    said = "Request too large for m in organization o on tokens per min (TPM): Limit 30000, Requested 41000."
    error = failure(status, openai(said, "rate_limit_exceeded"))
    assert error.category is ErrorCategory.PERMANENT
    assert str(error).endswith(f"; {BEYOND_THE_LIMIT}")


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "Country, region, or territory not supported"),
        (400, "User location is not supported for the API use."),
        (403, "Access to this model is not available in your region."),
    ],
)
def test_a_country_that_is_not_served_is_named_as_the_cause(status: int, message: str) -> None:
    assert str(failure(status, openai(message))).endswith(f"; {NOT_IN_REGION}")


def test_an_unsupported_location_of_a_file_is_no_country() -> None:
    assert NOT_IN_REGION not in str(failure(400, openai("file location not supported")))


def test_a_page_of_a_firewall_is_not_about_the_model() -> None:
    error = failure(403, "<!DOCTYPE html><html><title>Access denied</title></html>")
    assert str(error).endswith(f"a web page, Access denied; {BLOCKED}")


def test_an_unknown_path_with_status_200_is_permanent() -> None:
    said = "Unexpected endpoint or method. (POST /chat/completions)"
    error = error_in_reply("any:m", said, NO_USAGE, [], [])
    assert error.category is ErrorCategory.PERMANENT
    assert str(error).endswith(f"{said}; {WRONG_PATH}")


@pytest.mark.parametrize(
    "said", ["The plain HTTP request was sent to HTTPS port", "Client sent an HTTP request to an HTTPS server."]
)
def test_http_to_an_https_port_names_the_scheme(said: str) -> None:
    assert str(failure(400, f"<html><body>{said}</body></html>")).endswith(f"; {WRITE_HTTPS}")


@pytest.mark.parametrize(
    ("said", "cure"),
    [
        ("received corrupt message of type InvalidContentType", WRITE_HTTP),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)", WRITE_HTTP),
        ("[SSL] record layer failure (_ssl.c:1006)", WRITE_HTTP),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", None),
    ],
)
def test_https_to_an_http_port_names_the_scheme(said: str, cure: str | None) -> None:
    assert cure_for_tls_error(said) == cure


def test_a_web_page_is_quoted_without_its_tags() -> None:
    assert str(failure(502, PAGE)) == "any:m at HOST responded with HTTP 502: a web page, Open WebUI Welcome & hello"
    error = unusable(PAGE.encode())
    assert str(error) == ("any:m at HOST sent a web page instead of JSON (Open WebUI Welcome & hello); check the path")
    assert not error.retriable
    assert find_page_text(f"got str: {PAGE!r}") == "Open WebUI Welcome & hello"


def test_a_body_that_is_not_json_is_quoted_and_retriable() -> None:
    error = unusable(b"upstream timed out for sk-secret")
    assert str(error) == "any:m at HOST sent no usable reply: the body is not JSON: upstream timed out for ***"
    assert error.category is ErrorCategory.SERVER
    assert str(unusable(b" ")).endswith("the body is empty")


def test_a_page_without_end_is_looked_at_in_part() -> None:
    assert str(unusable(b"<html>" + b"<script" * 140_000)).startswith("any:m at HOST sent a web page")


@pytest.mark.parametrize(
    ("url", "cure"),
    [
        ("http://localhost:8000", "endpoint_base_url has no path; did you mean http://localhost:8000/v1?"),
        (
            "http://localhost:8000/api",
            "check the path in the server's URL (after '@', or in endpoint_base_url); most servers expect /v1",
        ),
    ],
)
def test_a_base_url_without_a_path_gets_the_usual_one(url: str, cure: str) -> None:
    assert cure_for_path(url) == cure


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (403, "Your account was blocked by our safety policy review."),
        (400, "Unknown field in 'My mail was flagged for spam'"),
        (403, "This key is not covered by our content management policy; ask an administrator."),
        (400, "unknown parameter: content_filter"),
        (403, "Your account was flagged for review."),
        (400, "Output guardrail 'ours' failed to evaluate: messages.0 is empty"),
    ],
)
def test_words_about_filters_are_no_filter(status: int, message: str) -> None:
    assert failure(status, openai(message)).category is ErrorCategory.PERMANENT
    assert failure(status, {"error": message}).category is ErrorCategory.PERMANENT


@pytest.mark.parametrize(
    "message",
    [
        "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        "Output blocked by content filtering policy",
        "The request was rejected because it was considered high risk",
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        'a/b requires moderation on OpenInference. Your input was flagged for "violence".',
        "Input blocked by our safety policy",
        "content_filter: blocked",
        "This content was flagged for possible cybersecurity risk.",
        "OpenAI flagged this request for potential high-risk cyber activity",
        'BAD_REQUEST: {"input_guardrail":[{"flagged":true}],"finishReason":"input_guardrail_triggered"}',
        "Request blocked by input guardrail 'ours'",
        "Response blocked due to security configurations",
    ],
)
def test_what_providers_say_of_their_filter_is_one(message: str) -> None:
    assert failure(400, {"error": message}).category is ErrorCategory.FILTERED


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, openai("Not allowed.", "cyber_policy")),
        (424, {"name": "AiGatewayError", "message": "Prompt blocked due to security configurations", "code": 2016}),
        (446, {"error": {"message": "The guardrail checks in the config failed", "type": "hooks_failed"}}),
        (498, {"message": "blocked input or output"}),
        (446, {"code": "900514", "type": "Status report", "message": "Runtime Error"}),
    ],
)
def test_codes_and_statuses_of_guardrails_are_filters(status: int, body: Any) -> None:
    assert failure(status, body).category is ErrorCategory.FILTERED


PICTURE = Attachment("plot.png", "image/png", "0" * 64, 10)
WITH_FILE = [Message("user", "What does the plot show?", attachments=(PICTURE,))]
# As read in November 2026 in the servers' sources, and in reports of users.
REFUSED = [
    # llama.cpp and its forks
    (500, "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", NO_MEDIA),
    (500, "audio input is not supported - hint: if this is unexpected, you may need to provide the mmproj", NO_MEDIA),
    (500, "image input is not supported by this server", NO_MEDIA),
    (400, "unsupported content[].type", NO_MEDIA),
    (400, "Failed to load image or audio file", UNREADABLE_FILE),
    # Ollama
    (
        500,
        "Failed to create new sequence: failed to process inputs: this model is missing data required for image input",
        NO_MEDIA,
    ),
    (400, "this model does not support image input (ref: b8bd630e)", NO_MEDIA),
    (400, '"registry.ollama.ai/library/llama3:latest" does not support vision', NO_MEDIA),
    # vLLM
    (400, "Qwen/Qwen3-8B is not a multimodal model", NO_MEDIA),
    (400, "At most 0 image(s) may be provided in one prompt. (parameter=image)", NO_MEDIA),
    (
        400,
        "At most 1 image(s) may be provided in one prompt. Set `--limit-mm-per-prompt` to increase this limit.",
        TOO_MANY_FILES,
    ),
    (400, "Unknown part type: file", NO_MEDIA),
    # services
    (400, "Invalid content type. image_url is only supported by certain models.", NO_MEDIA),
    (
        400,
        "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png']",
        UNREADABLE_FILE,
    ),
    (404, "No endpoints found that support image input", NO_MEDIA),
    (404, "No endpoints found that support input audio", NO_MEDIA),
    (400, "'messages.0' : one must be satisfied[('messages.0.content' : value must be a string)]", NO_MEDIA),
    (400, "messages.0.content.0.image.source.base64: image exceeds 5 MB maximum: 8 bytes > 5 bytes", TOO_LARGE_FILE),
    (400, "base64.data: At least one of the image dimensions exceed max allowed size: 8000 pixels", TOO_LARGE_FILE),
    (400, "messages.0.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided.", TOO_LARGE_FILE),
    (400, "Image size too large: 23.00 MB. The maximum is 20 MB", TOO_LARGE_FILE),
    (400, "The image was not valid. Maximum image size is 33177600 pixels", TOO_LARGE_FILE),
    (413, "Request exceeds the maximum size", TOO_LARGE_FILE),
    (400, "Invalid MIME type. Only image types are supported.", UNREADABLE_FILE),
    (400, "Unable to process input image. Please retry", UNREADABLE_FILE),
    (400, "The PDF specified is password protected.", UNREADABLE_FILE),
    (
        400,
        "Failed to deserialize the JSON body: messages[0]: unknown variant `image_url`, expected `text`",
        NO_MEDIA,
    ),
    (400, "Invalid value for 'messages[0].content[1].type': 'image_url' is not one of ['text']", NO_MEDIA),
    (400, "Only 'text' content type is supported.", NO_MEDIA),
    (400, "messages[3].content must be a string", NO_MEDIA),
    (400, "Could not process image", UNREADABLE_FILE),
]


@pytest.mark.parametrize(("status", "said", "cure"), REFUSED)
def test_a_refused_attachment_is_not_sent_again(status: int, said: str, cure: str) -> None:
    error = status_error("any:m at HOST", status, {}, json.dumps(openai(said)), [], WITH_FILE)
    forwarded = error_in_reply("any:m at HOST", {"code": status, "message": said}, NO_USAGE, [], WITH_FILE)
    of_messages_api = messages_api_error("any:m at HOST", "api_error", said, [], WITH_FILE)

    for one in (error, forwarded, of_messages_api):
        assert (one.category, one.retriable) == (ErrorCategory.PERMANENT, False)
        assert str(one).endswith(f"; {cure}")


def test_a_filtered_attachment_is_filtered_and_not_refused() -> None:
    said = "The response was filtered due to the prompt triggering our content management policy: invalid image"
    error = messages_api_error("any:m at HOST", "api_error", said, [], WITH_FILE)

    assert error.category is ErrorCategory.FILTERED


def test_a_download_of_an_attachment_that_takes_too_long_is_tried_again() -> None:
    error = error_in_reply(
        "any", {"code": 504, "message": "image download exceeds the timeout"}, NO_USAGE, [], WITH_FILE
    )
    assert error.retriable
    assert TOO_LARGE_FILE not in str(error)


def test_a_request_that_is_too_large_may_be_so_for_its_attachments() -> None:
    page = "<html><head><title>413 Request Entity Too Large</title></head></html>"
    too_long = "the prompt does not fit into the context window"
    assert str(status_error("any", 413, {}, page, [], WITH_FILE)).endswith(f"; {TOO_LARGE_FILE}")
    assert str(status_error("any", 413, {}, json.dumps(openai(too_long)), [], WITH_FILE)).endswith(f"; {TOO_LONG}")


def test_a_server_error_without_attachments_is_tried_again() -> None:
    assert failure(500, openai("image input is not supported")).category is ErrorCategory.SERVER
