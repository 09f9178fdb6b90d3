"""The settings for the LangChain interfaces, and the sources of their base URLs and keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.attachments import MediaLimit
from karenina_core.models.settings_models import AllowedInFiles
from karenina_langchain.providers import explain_missing_package, provider_name, provider_of
from karenina_toolkit import adapter_settings
from karenina_toolkit.attachments.media_types import MEDIA_TYPES
from karenina_toolkit.attachments.support import image_and_pdf_limits, usual_limits
from karenina_toolkit.http import endpoints
from karenina_toolkit.http.urls import is_loopback

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

DEFAULT_TIMEOUT = 120.0
_RESERVED = frozenset(
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
_RESERVED_ENDINGS = ("api_key", "api_base", "api_url", "base_url", "organization", "proxy")


class LangchainExtra(endpoints.ToolLoopExtra):
    """`ModelConfig.extra` for the LangChain interfaces. Header values are secrets."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Additional arguments for LangChain's chat model, such as seed or thinking."
    )

    @field_validator("parameters")
    @classmethod
    def _without_reserved(cls, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters. Raises `ValueError` if Karenina sets one of them itself, or if they ask for several
        replies or for a reply in the background.
        """
        endpoints.check_reply_count("parameters", parameters)
        for given in (parameters, parameters.get("extra_body"), parameters.get("model_kwargs")):
            if isinstance(given, Mapping) and given.get("background"):
                raise ValueError(
                    "background is not supported, because Karenina waits for each reply; remove it, and raise "
                    "request_timeout if replies take long"
                )
        for name in parameters:
            if name in _RESERVED or name.endswith(_RESERVED_ENDINGS):
                raise ValueError(
                    f"parameters.{name} is set by Karenina; remove the parameter, or use the corresponding field of "
                    "the model"
                )
        return parameters


def media(model: ModelConfig) -> Mapping[str, MediaLimit]:
    """Return the media types of attachments that LangChain's chat model can carry, each with its limits."""
    provider, extra = provider_of(model), extra_of(model)
    if provider is not None and provider.name == "anthropic":
        return image_and_pdf_limits(model, extra)
    return usual_limits(model, MEDIA_TYPES, extra)


def extra_of(model: ModelConfig) -> LangchainExtra:
    """Return a model's validated `extra`. Raises `AdapterConfigError` without its values if it is invalid."""
    return adapter_settings.extra_of(model, LangchainExtra)


def base_url_of(model: ModelConfig) -> str | None:
    """Return the server's base URL, without a trailing slash: the model's own, that in the environment, or the
    provider's. It is None if only LangChain knows it, or if an `openai_endpoint` model has none. Raises
    `AdapterConfigError` if no provider is configured or implied.

    For Anthropic, `/v1` is also removed.
    """
    if model.interface == "openai_endpoint":
        return (model.endpoint_base_url or "").rstrip("/") or None
    provider = provider_of(model)
    own = _own_base_url(model)
    url = model.endpoint_base_url or own
    if url is None:
        return None
    url = url.rstrip("/")
    # Anthropic's clients add the version themselves.
    return url.removesuffix("/v1") if provider is not None and provider.name == "anthropic" else url


def served_by(model: ModelConfig) -> str | None:
    """Return the server's base URL or, if it is not known, the configured provider, if any."""
    return base_url_of(model) or model.model_provider


def key_of(model: ModelConfig) -> str | None:
    """Return the model's own API key, or else the provider's key from the environment if it may be sent to the server,
    or None.

    A key from the environment is sent only to the provider's own host, to the URL in the environment
    (`OPENAI_BASE_URL`, `ANTHROPIC_BASE_URL`), and to localhost. Otherwise, someone else's benchmark could send it
    anywhere. For other providers, LangChain then looks for one itself.
    """
    return endpoints.find_api_key(model, base_url_of(model), _own_base_urls(model), _key_variables(model))


def _key_variables(model: ModelConfig) -> list[str]:
    """Return the environment variables for the provider's key, or none if only LangChain knows the provider."""
    provider = provider_of(model)
    return [provider.key_variable] if provider is not None else []


def is_trusted(model: ModelConfig) -> bool:
    """Return whether secrets from the environment may be sent to the model's server."""
    return endpoints.may_receive_secrets(base_url_of(model), _own_base_urls(model))


def concurrency(model: ModelConfig) -> int | None:
    """Return the maximum number of concurrent requests, or None if it is not set."""
    return extra_of(model).max_concurrency


def check(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` for a missing package, key or provider, or an invalid setting or URL. An
    `openai_endpoint` model must have a URL, and an `openrouter` model must not.
    """
    extra = extra_of(model)
    name = provider_name(model)
    reason = explain_missing_package(name)
    if reason is not None:
        raise AdapterConfigError(f"model {model.id!r}: {reason}")
    if model.interface == "openrouter" and model.endpoint_base_url is not None:
        raise AdapterConfigError(
            f"model {model.id!r}: the 'openrouter' interface uses its own base URL; remove endpoint_base_url, or use "
            "the 'openai_endpoint' interface"
        )
    if model.interface == "openai_endpoint" and model.endpoint_base_url is None:
        raise AdapterConfigError(
            f"model {model.id!r}: the 'openai_endpoint' interface requires endpoint_base_url, such as "
            "http://localhost:8000/v1"
        )
    base_url = base_url_of(model)
    if base_url is not None:
        endpoints.check_base_url(model, base_url)
    endpoints.check_api_key(model, key_of(model), _key_variables(model), needed=_why_needed(model, extra))


def _why_needed(model: ModelConfig, extra: LangchainExtra) -> str | None:
    """Return the reason why the model needs an API key, or None if it needs none or LangChain looks for it. The
    provider's own server needs a key, unless `extra` has a header for it. If only LangChain knows the provider, all
    servers except localhost need one.
    """
    provider, base_url = provider_of(model), base_url_of(model)
    host = urlsplit(base_url or "").hostname
    if provider is None:
        if base_url is None or is_loopback(host or ""):
            return None
        return (
            "set endpoint_api_key along with endpoint_base_url, because a key from the environment is not sent to a "
            "server named in a configuration"
        )
    if host != urlsplit(provider.base_url).hostname or extra.has_header("authorization", "x-api-key"):
        return None
    return f"{host} needs an API key; set {provider.key_variable} or endpoint_api_key"


def _own_base_urls(model: ModelConfig) -> list[str]:
    """Return the provider's default URL and the one set in the environment, or an empty list if only LangChain knows
    them.
    """
    provider, own = provider_of(model), _own_base_url(model)
    return [] if provider is None or own is None else [provider.base_url, own]


def _own_base_url(model: ModelConfig) -> str | None:
    """Return the provider's URL from the environment, or its default URL, or None if only LangChain knows it."""
    provider = provider_of(model)
    if provider is None:
        return None
    set_one = os.environ.get(provider.base_url_variable) if provider.base_url_variable else None
    return set_one or provider.base_url
