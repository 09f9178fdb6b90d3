"""Converts the providers in a promptfoo configuration to models for a run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from karenina_importing.formats.structured_values import as_mapping
from karenina_toolkit.printable import in_one_line

_SERVERS: Final = {
    "ollama": "http://localhost:11434/v1",
    "groq": "https://api.groq.com/openai/v1",
    "mistral": "https://api.mistral.ai/v1",
    "deepseek": "https://api.deepseek.com/v1",
    "google": "https://generativelanguage.googleapis.com/v1beta/openai",
}
"""Providers with a chat completions API, with the base URLs of their servers."""
_KINDS: Final = ("chat", "completion", "responses", "messages", "assistant", "embedding", "embeddings")
_NAME: Final = re.compile(r"[A-Za-z0-9][\w./:+-]{0,200}")
_URL: Final = re.compile(r"https?://[\w.:/~%-]+")
_HOST: Final = re.compile(r"[\w.:/~%-]+")
_HOSTS: Final = ("apiHost",)
_ADDRESSES: Final = ("apiBaseUrl", "baseUrl", "baseURL", "base_url")
_UNCHANGING: Final = frozenset({*_HOSTS, *_ADDRESSES, "apiKey", "apiKeyEnvar", "apiKeyRequired", "basePath", "cost"})
"""Settings of a provider that are read, reported elsewhere, or do not change answers."""
_OWN_API: Final = ("google",)
"""Providers whose own base URL does not serve chat completions."""
_ADDRESS: Final = "ADDRESS"
"""A placeholder for a base URL that only promptfoo knows, such as one with an environment variable."""
_MOST: Final = 20


@dataclass(frozen=True, slots=True)
class _Provider:
    """A provider in a configuration, with its name, its settings, and its environments in order of precedence."""

    name: str
    settings: Mapping[str, Any]
    environments: Sequence[Mapping[str, Any]]


def describe_providers(config: Mapping[str, Any]) -> list[str]:
    """Return notes for the user on how to run the models of a configuration, and on which of their settings are not
    carried over or have to be replaced.
    """
    models: list[str] = []
    others: list[str] = []
    unknown: list[str] = []
    unread: list[str] = []
    for provider in _providers(config):
        where, address = _address(provider)
        model = _model(provider.name, address)
        if model is None:
            others.append(provider.name)
            continue
        models.append(model)
        unread += [in_one_line(str(key))[:40] for key in provider.settings if key not in _UNCHANGING]
        if address == _ADDRESS:
            unknown.append(f"{where} of {in_one_line(provider.name)[:80]}")
    notes = []
    if models:
        notes.append(
            "To answer with the models in the configuration, use "
            f"{' '.join(f'-a {quote(fromkey)}' for fromkey in dict.fromkeys(models))}"
        )
    if unknown:
        shown = ", ".join(list(dict.fromkeys(unknown))[:_MOST])
        notes.append(
            f"Replace {_ADDRESS} with the server's base URL, because these settings do not contain a plain URL: {shown}"
        )
    if unread:
        shown = ", ".join(list(dict.fromkeys(unread))[:_MOST])
        notes.append(
            f"Not carried over from the providers: {shown}; to set options that affect answers, write -a "
            "as a JSON object"
        )
    if others:
        shown = ", ".join(in_one_line(fromkey)[:80] for fromkey in list(dict.fromkeys(others))[:_MOST])
        notes.append(
            f"Providers without a corresponding interface: {shown}. To judge their answers, run "
            "`promptfoo eval -o results.json` and import the results"
        )
    return notes


def _providers(config: Mapping[str, Any]) -> Iterator[_Provider]:
    """Yield the first 1,000 providers in a configuration. Entries without a name are skipped."""
    providers = config.get("providers") or config.get("targets")
    environment = as_mapping(config.get("env"))
    for entry in (providers if isinstance(providers, list) else [providers])[:1000]:
        if isinstance(entry, str):
            yield _Provider(entry, {}, [environment])
        elif isinstance(entry, Mapping):
            name, inner = entry.get("id"), entry
            if name is None and len(entry) == 1:
                name, inner = next(iter(entry.items()))
            if isinstance(name, str):
                own = as_mapping(as_mapping(inner).get("env"))
                yield _Provider(name, as_mapping(as_mapping(inner).get("config")), [own, environment])


def _address(provider: _Provider) -> tuple[str, str | None]:
    """Return the name of the setting with a provider's own base URL, and the URL. The URL is None if there is none, and
    `_ADDRESS` if only promptfoo knows it.
    """
    prefix = provider.name.partition(":")[0].upper()
    candidates = [(key, provider.settings.get(key), True) for key in _HOSTS]
    candidates += [(key, provider.settings.get(key), False) for key in _ADDRESSES]
    for environment in provider.environments:
        candidates.append((f"{prefix}_API_HOST", environment.get(f"{prefix}_API_HOST"), True))
        variables = (f"{prefix}_API_BASE_URL", f"{prefix}_BASE_URL")
        candidates += [(key, environment.get(key), False) for key in variables]
    key, value, is_host = next((candidate for candidate in candidates if candidate[1]), ("", None, False))
    if value is None:
        return "", None
    text = value.strip() if isinstance(value, str) else ""
    if is_host and "://" not in text and _HOST.fullmatch(text):
        text = f"https://{text.rstrip('/')}/v1"
    if prefix == "OLLAMA":
        text = f"{text.rstrip('/').removesuffix('/v1')}/v1"
    return key, text if _URL.fullmatch(text) else _ADDRESS


def _model(name: str, address: str | None) -> str | None:
    """Return the model of a provider such as `openai:chat:gpt-5` as `interface:model_name`, or None if no interface
    supports it. If there is an `address`, or the provider's server is known, `@` and the base URL are appended.
    """
    provider, _, rest = name.partition(":")
    kind, _, model = rest.partition(":")
    model = model if kind in _KINDS and model else rest
    if kind in ("embedding", "embeddings", "assistant") or not _NAME.fullmatch(model):
        return None
    own = f"@{address}" if address else ""
    if provider == "anthropic":
        return f"claude_tool:{model}{own}"
    if provider == "openai" or (provider == "openrouter" and own):
        return f"openai:{model}{own}"
    if provider == "openrouter":
        return f"openrouter:{model}"
    if provider not in _SERVERS or (provider in _OWN_API and own):
        return None
    return f"openai:{model}{own or f'@{_SERVERS[provider]}'}"
