"""Creation of LangChain chat models from model configurations, without sending a request."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.adapters import AdapterConfigError
from karenina_langchain.providers import provider_name, provider_of
from karenina_langchain.settings import DEFAULT_TIMEOUT, base_url_of, extra_of, is_trusted, key_of
from karenina_toolkit.http.http_errors import redact_text
from karenina_toolkit.http.reply_body import ACCEPTED_ENCODINGS, make_bounding_hook
from karenina_toolkit.http.urls import find_secrets, redact_url, uses_proxy
from karenina_toolkit.replies.reply_bounds import ReplyBounds

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from langchain_core.language_models import BaseChatModel

    from karenina_core.models.model import ModelConfig

BODY: ContextVar[bytearray] = ContextVar("karenina_langchain_body")
"""The body of the current call's reply, for data that LangChain and the SDKs drop or cannot read."""
_TRACING = ("LANGSMITH_TRACING", "LANGSMITH_TRACING_V2", "LANGCHAIN_TRACING", "LANGCHAIN_TRACING_V2")
_NO_KEY = "none"
_KEY_HEADERS = ("authorization", "x-api-key")
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "cohere": {"api_key": "cohere_api_key", "timeout": "timeout_seconds"},
    "google_genai": {"default_headers": "additional_headers"},
    "ollama": {"max_tokens": "num_predict"},
}
"""The arguments that packages name differently, by provider."""
_SETTINGS: Final = {
    "base_url": "endpoint_base_url",
    "api_key": "endpoint_api_key",
    "default_headers": "extra.headers",
    "max_tokens": "max_tokens",
}
"""The settings that must have an effect, by the argument that they become. A judge's temperature is not among them: the
run sets it, and accepts models without one."""
_OWNERS_HEADERS = ("openai-organization", "openai-project")
_HEADERS_VARIABLES = ("OPENAI_CUSTOM_HEADERS", "ANTHROPIC_CUSTOM_HEADERS")


def make_chat_model(model: ModelConfig) -> tuple[BaseChatModel, Callable[[], Awaitable[None]]]:
    """Return the chat model, without retries, cache and LangSmith tracing, and a function that closes its connections.
    Tracing is turned off by setting `LANGSMITH_TRACING`, unless the environment already sets it. Raises
    `AdapterConfigError` if a package is missing or LangChain rejects the settings.
    """
    if not any(name in os.environ for name in _TRACING):
        os.environ["LANGSMITH_TRACING"] = "false"
    provider = provider_of(model)
    try:
        if provider is None:
            return _other(model)
        return _anthropic(model) if provider.name == "anthropic" else _openai(model)
    except AdapterConfigError:
        raise
    except ImportError as error:
        raise AdapterConfigError(f"model {model.id!r}: {error.msg}") from None
    except (TypeError, ValueError) as error:  # pydantic's errors contain the values
        raise AdapterConfigError(
            f"model {model.id!r}: LangChain's chat model rejected its arguments "
            f"({type(error).__name__}{_error_locations(error)}); check extra.parameters"
        ) from None


def _openai(model: ModelConfig) -> tuple[BaseChatModel, Callable[[], Awaitable[None]]]:
    """Return LangChain's chat model for OpenAI's API, and a function that closes its connections. The Responses API is
    only allowed for `langchain` without a base URL.
    """
    import openai
    from langchain_openai import ChatOpenAI

    http = openai.DefaultAsyncHttpxClient(**_http_settings(model))
    own_service = model.interface == "langchain" and model.endpoint_base_url is None
    arguments: dict[str, Any] = {
        # Otherwise, LangChain would use the Responses API for models with certain names.
        **({} if own_service else {"use_responses_api": False}),
        **_common(model),
        "base_url": base_url_of(model),
        "api_key": key_of(model) or _NO_KEY,
        "http_async_client": http,
        "openai_proxy": None,
    }
    return ChatOpenAI(**arguments), http.aclose


def _anthropic(model: ModelConfig) -> tuple[BaseChatModel, Callable[[], Awaitable[None]]]:
    """Return LangChain's chat model for Anthropic's API, and a function that closes its connections."""
    import anthropic
    from langchain_anthropic import ChatAnthropic

    key = key_of(model) or _NO_KEY
    arguments: dict[str, Any] = {
        **_common(model),
        "base_url": base_url_of(model),
        "api_key": key,
        "anthropic_proxy": None,
    }
    chat = ChatAnthropic(**arguments)
    http = anthropic.DefaultAsyncHttpxClient(**_http_settings(model))
    # The default client is shared by all models in the process, so one model must not close it.
    chat.__dict__["_async_client"] = anthropic.AsyncAnthropic(
        api_key=key,
        base_url=base_url_of(model),
        max_retries=0,
        timeout=_timeout(model),
        default_headers=chat.default_headers,
        http_client=http,
    )
    return chat, http.aclose


def _other(model: ModelConfig) -> tuple[BaseChatModel, Callable[[], Awaitable[None]]]:
    """Return the chat model for any other provider, with arguments that most LangChain chat models accept, and a no-op
    to close it, because LangChain owns the connections. Raises `AdapterConfigError` if the chat model has no argument
    for a setting, which would have no effect, or if the provider's package cannot create it.
    """
    from langchain.chat_models import init_chat_model

    provider = provider_name(model)
    base_url, key = base_url_of(model), key_of(model)
    arguments = _common(model)
    name = arguments.pop("model")
    headers = arguments.pop("default_headers")
    if provider == "ollama":  # its package passes headers to its client only in this form
        headers = {**({"Authorization": f"Bearer {key}"} if key is not None else {}), **headers}
        clients = arguments.get("client_kwargs", {})
        arguments["client_kwargs"] = {**clients, "headers": {**clients.get("headers", {}), **headers}}
        headers, key = {}, None
    given = {"default_headers": headers or None, "base_url": base_url, "api_key": key}
    arguments |= {argument: value for argument, value in given.items() if value is not None}
    names = _NAMES.get(provider, {})
    arguments = {names.get(argument, argument): value for argument, value in arguments.items()}
    try:
        chat: BaseChatModel = init_chat_model(name, model_provider=provider, **arguments)
    except (ImportError, TypeError, ValueError):
        raise
    except Exception as error:  # of the provider's package, for example without a key
        secrets = find_secrets(base_url, key_of(model), *headers.values())
        raise AdapterConfigError(
            f"model {model.id!r}: LangChain's chat model cannot be created ({type(error).__name__}: "
            f"{redact_text(str(error), secrets)})"
        ) from None
    known = _argument_names(type(chat)) | set(getattr(chat, "model_kwargs", None) or ())  # some move others there
    for argument, setting in _SETTINGS.items():
        used = names.get(argument, argument)
        if used in arguments and used not in known:
            raise AdapterConfigError(
                f"model {model.id!r}: LangChain's {type(chat).__name__} has no argument {used}, so {setting} has no "
                "effect; remove it, and set what the chat model has instead in extra.parameters"
            )

    async def nothing() -> None:
        """Do nothing, because LangChain owns the connections."""

    return chat, nothing


def _argument_names(kind: type[BaseChatModel]) -> set[str]:
    """Return the names of the arguments of a chat model, which ignores others."""
    names = set(kind.model_fields)
    for field in kind.model_fields.values():
        for alias in (field.alias, field.validation_alias):
            names.update(str(name) for name in getattr(alias, "choices", [alias]))
    return names


def _common(model: ModelConfig) -> dict[str, Any]:
    """Return the arguments for all chat models, without retries and cache. Karenina's own replace those in
    `extra.parameters`.
    """
    extra = extra_of(model)
    limits = {"temperature": model.temperature, "max_tokens": model.max_tokens}
    return {
        **extra.parameters,
        "model": model.model_name,
        "max_retries": 0,
        "timeout": _timeout(model),
        "cache": False,
        "default_headers": {name: value.get_secret_value() for name, value in extra.headers.items()},
        **{name: value for name, value in limits.items() if value is not None},
    }


def describe_server(model: ModelConfig) -> str:
    """Name the model and, if known, its server for error messages. Secrets in the URL are masked."""
    base_url = base_url_of(model)
    return f"{model.display_string} at {redact_url(base_url)}" if base_url else model.display_string


def _http_settings(model: ModelConfig) -> dict[str, Any]:
    """Return the settings of an HTTP client that follows no redirects, limits replies, and removes unwanted headers.
    For localhost and the hosts in `NO_PROXY`, it uses no proxy.
    """
    import httpx2

    unwanted = _unwanted_headers(model)

    async def strip(request: Any) -> None:
        for name in unwanted:
            request.headers.pop(name, None)

    bound = make_bounding_hook(
        httpx2.AsyncByteStream, describe_server(model), ReplyBounds.of(model), keep=lambda: BODY.get(None)
    )
    base_url = base_url_of(model)
    return {
        "verify": _tls(),
        "timeout": _timeout(model),
        "follow_redirects": False,
        "trust_env": base_url is None or uses_proxy(base_url),
        "headers": {"Accept-Encoding": ACCEPTED_ENCODINGS},
        "event_hooks": {"request": [strip], "response": [bound]},
    }


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS context with trusted certificates, which is cached because loading them is slow."""
    import httpx2

    return httpx2.create_ssl_context()


def _unwanted_headers(model: ModelConfig) -> list[str]:
    """Return the lower-case names of headers that SDKs take from the environment but that must not be sent to this
    server. If the model has no key, this includes key headers, which would contain a placeholder.
    """
    own = {name.lower() for name in extra_of(model).headers}
    names = [] if key_of(model) is not None else [*_KEY_HEADERS]
    if not is_trusted(model):
        names += _OWNERS_HEADERS
        for variable in _HEADERS_VARIABLES:
            lines = os.environ.get(variable, "").splitlines()
            names += [line.partition(":")[0].strip().lower() for line in lines if ":" in line]
    sent = {"content-type", "content-length", "host", "accept", *own}
    if key_of(model) is not None:
        sent.update(_KEY_HEADERS)
    return [name for name in names if name not in sent]


def _timeout(model: ModelConfig) -> float:
    return model.request_timeout or DEFAULT_TIMEOUT


def _error_locations(error: Exception) -> str:
    """Return the fields that pydantic rejected, as the end of a sentence, or an empty string for other errors."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return ""
    details = error.errors(include_input=False, include_url=False, include_context=False)
    return f" at {', '.join(sorted({'.'.join(map(str, detail['loc'])) for detail in details if detail['loc']}))}"
