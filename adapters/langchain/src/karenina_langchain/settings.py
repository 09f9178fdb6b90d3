"""What can be set for these interfaces, and where the server and the key come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from karenina_core.adapters import AdapterConfigError
from karenina_core.hosts import is_loopback
from karenina_langchain.providers import missing, provider_name, provider_of

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig

DEFAULT_TIMEOUT = 120.0
_OURS = frozenset(
    {
        "model",
        "model_name",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "timeout",
        "request_timeout",
        "default_request_timeout",
        "max_retries",
        "streaming",
        "cache",
        "callbacks",
        "verbose",
        "n",
        "http_client",
        "http_async_client",
        "default_headers",
    }
)
_OURS_WITH = ("api_key", "api_base", "api_url", "base_url", "organization", "proxy")


class LangchainExtra(BaseModel):
    """`ModelConfig.extra` of these interfaces. Values of `headers` are treated as secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    structured: Literal["auto", "json_schema", "tool", "prompt"] = Field(
        default="auto", description="How a judge is asked for JSON; auto finds the best way that the server accepts."
    )
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="HTTP headers added to each request.")
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="More arguments of LangChain's chat model, such as seed or thinking."
    )
    max_concurrency: int | None = Field(
        default=None, ge=1, description="Most requests under way at once; else the run finds out."
    )
    first_turn: Literal["free", "tool"] = Field(
        default="free", description="tool: an agent has to call a tool in its first turn, before it may answer."
    )

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if any(mark in name + value.get_secret_value() for mark in "\r\n\0"):
                raise ValueError(f"the header {name!r} holds a line break")
        return headers

    @field_validator("parameters")
    @classmethod
    def _not_ours(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        for name in parameters:
            if name in _OURS or name.endswith(_OURS_WITH):
                raise ValueError(
                    f"parameters.{name} is set by Karenina; remove it, or use the model's own field for it"
                )
        return parameters


def extra_of(model: ModelConfig) -> LangchainExtra:
    """The validated `extra` of `model`. Raises `AdapterConfigError`, which shows no value."""
    try:
        return LangchainExtra.model_validate(model.extra)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(("extra", *map(str, first["loc"])))
        raise AdapterConfigError(f"model {model.id!r}, {place}: {first['msg']}") from None


def base_url_of(model: ModelConfig) -> str | None:
    """The server's base URL without a closing slash: the model's, else the environment's, else the provider's own.

    None where only LangChain knows it, and for an `openai_endpoint` that names none.
    """
    if model.interface == "openai_endpoint":
        return (model.endpoint_base_url or "").rstrip("/") or None
    provider = provider_of(model)
    own = _own_base_url(model)
    found = model.endpoint_base_url or own
    if found is None:
        return None
    found = found.rstrip("/")
    # Anthropic's clients add the version themselves.
    return found.removesuffix("/v1") if provider is not None and provider.name == "anthropic" else found


def served_by(model: ModelConfig) -> str | None:
    """Who serves the model: the base URL of the server, else the provider that LangChain is told."""
    return base_url_of(model) or model.model_provider


def key_of(model: ModelConfig) -> str | None:
    """The API key: the model's, else that of the provider's environment variable; None where there is none.

    The key of the environment goes only to the provider's own host, where the user's environment points to
    (`OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL`) and to this machine: a configuration that came with a stranger's
    benchmark cannot have it sent elsewhere. For other providers, None leaves it to LangChain to find their key.
    """
    if model.endpoint_api_key is not None:
        return model.endpoint_api_key.get_secret_value() or None
    provider = provider_of(model)
    return os.environ.get(provider.key_variable) or None if provider is not None and is_trusted(model) else None


def is_trusted(model: ModelConfig) -> bool:
    """Whether what the user's environment holds for this provider may go to the model's server."""
    here = base_url_of(model)
    if here is None:
        return True
    url = urlsplit(here)
    if is_loopback(url.hostname or ""):
        return True
    provider = provider_of(model)
    known = [provider.base_url] if provider is not None else []
    if (own := _own_base_url(model)) is not None:
        known.append(own)
    return any((url.scheme, url.netloc) == (one.scheme, one.netloc) for one in map(urlsplit, known))


def concurrency(model: ModelConfig) -> int | None:
    """How many requests may be under way at once."""
    return extra_of(model).max_concurrency


def check(model: ModelConfig) -> None:
    """Refuse what would fail every item: a missing package or key, a bad URL or unknown settings."""
    extra = extra_of(model)
    name = provider_name(model)
    reason = missing(name)
    if reason is not None:
        raise AdapterConfigError(f"model {model.id!r}: {reason}")
    if model.interface == "openrouter" and model.endpoint_base_url is not None:
        raise AdapterConfigError(
            f"model {model.id!r}: the interface 'openrouter' has its own base URL; remove endpoint_base_url, or use "
            "the interface openai_endpoint"
        )
    if model.interface == "openai_endpoint" and model.endpoint_base_url is None:
        raise AdapterConfigError(
            f"model {model.id!r}: the interface 'openai_endpoint' needs endpoint_base_url, such as "
            "http://localhost:8000/v1"
        )
    base_url = base_url_of(model)
    if base_url is not None:
        _check_url(model, base_url)
    _check_key(model, {header.lower() for header in extra.headers})


def _check_url(model: ModelConfig, base_url: str) -> SplitResult:
    where = f"model {model.id!r}, endpoint_base_url"
    try:
        url = urlsplit(base_url)
        _ = url.port
    except ValueError as error:
        raise AdapterConfigError(f"{where}: not a URL ({error}); it looks like http://localhost:8000/v1") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise AdapterConfigError(f"{where}: it must begin with http:// or https:// and name a host")
    if url.username is not None or url.password is not None:
        raise AdapterConfigError(f"{where}: it holds a user name or password; put the key into endpoint_api_key")
    if url.query or url.fragment:
        raise AdapterConfigError(f"{where}: it has a query; give the base URL alone")
    if url.path.endswith(("/chat/completions", "/completions", "/responses", "/messages")):
        raise AdapterConfigError(f"{where}: give the base URL, not that of one method")
    return url


def _check_key(model: ModelConfig, headers: set[str]) -> None:
    key = key_of(model)
    if key is not None:
        if not (key.isascii() and key.isprintable()):
            raise AdapterConfigError(
                f"model {model.id!r}: the API key holds a line break or other characters no key has"
            )
        return
    provider = provider_of(model)
    base_url = base_url_of(model)
    if provider is None:
        if base_url is not None and not is_loopback(urlsplit(base_url).hostname or ""):
            raise AdapterConfigError(
                f"model {model.id!r}: set endpoint_api_key beside endpoint_base_url; a key of the environment is not "
                "sent to a server that a configuration names"
            )
        return
    own_host = urlsplit(provider.base_url).hostname
    if urlsplit(base_url or "").hostname == own_host and not headers & {"authorization", "x-api-key"}:
        raise AdapterConfigError(
            f"model {model.id!r}: {own_host} needs an API key; set {provider.key_variable} or endpoint_api_key"
        )


def _own_base_url(model: ModelConfig) -> str | None:
    """Where the user's environment has the provider, else the provider's own address."""
    provider = provider_of(model)
    if provider is None:
        return None
    set_one = os.environ.get(provider.base_url_variable) if provider.base_url_variable else None
    return set_one or provider.base_url
