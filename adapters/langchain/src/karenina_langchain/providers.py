"""Model providers, and whether their packages are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from karenina_core.catalog import install_command
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig


class Provider(NamedTuple):
    """A provider whose chat models this adapter creates itself, with its environment variables for URL and key."""

    name: str
    package: str
    base_url: str
    base_url_variable: str | None
    key_variable: str


OPENAI: Final = Provider("openai", "langchain_openai", "https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY")
ANTHROPIC: Final = Provider(
    "anthropic", "langchain_anthropic", "https://api.anthropic.com", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"
)
OPENROUTER: Final = Provider("openai", "langchain_openai", "https://openrouter.ai/api/v1", None, "OPENROUTER_API_KEY")

_KNOWN: Final = {"openai": OPENAI, "anthropic": ANTHROPIC}
_BEGINNINGS: Final = {
    "claude": "anthropic",
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
}
# Only these are suggested for installation: a misspelt name must not suggest a package of that name.
_PACKAGES: Final = {
    "azure_openai": "langchain_openai",
    "bedrock": "langchain_aws",
    "bedrock_converse": "langchain_aws",
    "anthropic_bedrock": "langchain_aws",
    "google_anthropic_vertex": "langchain_google_vertexai",
    "nvidia": "langchain_nvidia_ai_endpoints",
    "azure_ai": "langchain_azure_ai",
    "google_vertexai": "langchain_google_vertexai",
    "google_genai": "langchain_google_genai",
    "cohere": "langchain_cohere",
    "deepseek": "langchain_deepseek",
    "fireworks": "langchain_fireworks",
    "groq": "langchain_groq",
    "huggingface": "langchain_huggingface",
    "ibm": "langchain_ibm",
    "mistralai": "langchain_mistralai",
    "ollama": "langchain_ollama",
    "perplexity": "langchain_perplexity",
    "together": "langchain_together",
    "xai": "langchain_xai",
}


def provider_name(model: ModelConfig) -> str:
    """Return a model's provider, in lower case with underscores, as configured or as the model's name implies; it is
    "openai" unless the interface is `langchain`. Raises `AdapterConfigError` if no provider is configured or implied.
    """
    if model.interface != "langchain":
        return "openai"
    if model.model_provider:
        return model.model_provider.strip().lower().replace("-", "_")
    for beginning, name in _BEGINNINGS.items():
        if model.model_name.startswith(beginning):
            return name
    raise AdapterConfigError(
        f"model {model.id!r}: the provider of {model.model_name!r} is unknown; set model_provider, for example to "
        "openai or anthropic"
    )


def provider_of(model: ModelConfig) -> Provider | None:
    """Return the model's provider, or None if it is left to LangChain's `init_chat_model`.

    Raises `AdapterConfigError` if no provider is configured or implied.
    """
    return OPENROUTER if model.interface == "openrouter" else _KNOWN.get(provider_name(model))


def explain_missing_package(name: str) -> str | None:
    """Return a message about a provider's missing package and how to install it, or None if nothing is missing. For an
    unknown provider, the message says so and suggests a similar name.
    """
    if name in _KNOWN:
        if find_spec(_KNOWN[name].package) is None:
            command = install_command(f"karenina-langchain[{name}]")
            return f"{_distribution_name(_KNOWN[name].package)} is not installed: {command}"
        return None
    is_listed = name in _PACKAGES
    package = _PACKAGES.get(name, f"langchain_{name}")
    if package.isidentifier() and find_spec(package) is not None and find_spec("langchain") is not None:
        return None
    if is_listed:
        return (
            f"the provider {name!r} needs packages that are not installed: "
            f"{install_command('karenina-langchain[others]')} {_distribution_name(package)}"
        )
    return f"unknown provider {name!r}{did_you_mean(name, sorted({*_KNOWN, *_PACKAGES}))}"


def unavailable(interface: str) -> str | None:
    """Return the reason why an interface cannot be used, with the pip command that fixes it, or None if it can. For
    `langchain`, the packages of any one provider are enough.
    """
    if interface != "langchain":
        return explain_missing_package("openai")
    if find_spec("langchain") is not None or any(find_spec(own.package) is not None for own in _KNOWN.values()):
        return None
    return (
        f"no provider is installed: {install_command('karenina-langchain[openai]')}, or use the extra 'anthropic', or "
        "the extra 'others' with the package of another provider"
    )


def _distribution_name(package: str) -> str:
    """Return the name of the distribution that contains an import package."""
    return package.replace("_", "-")
