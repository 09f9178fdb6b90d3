"""Loopback hosts, proxies, incomplete URLs, and masking of secrets in URLs and text."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from karenina_toolkit.lazy_patterns import lazy_pattern
from karenina_toolkit.raising import raises

MASK: Final = "***"
"""The text that replaces any part of a URL that may be secret."""

_COMMON: Final = frozenset(
    {
        *("anthropic", "api", "chat", "compatible-mode", "completions", "deployments", "engines", "inference", "llm"),
        *("mcp", "messages", "model", "models", "openai", "paas", "projects", "proxy", "router", "serverless"),
        *("serving", "sse"),
        *("gateway", "judge", "litellm", "llama", "lmstudio", "ollama", "sglang", "tgi", "vllm"),  # of own servers
    }
)
_VERSION: Final = lazy_pattern(r"v\d{1,2}((alpha|beta)\d{0,2})?")
_HALF_SCHEME: Final = lazy_pattern(r"(?:(?P<scheme>https?):)?/{0,2}", re.IGNORECASE)
_ADDRESS: Final = lazy_pattern(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(?P<port>\d{1,5}))?(?P<path>/.*)?", re.IGNORECASE
)
_PORT_ONLY: Final = lazy_pattern(r":\d{1,5}(?:/.*)?")
_DOMAIN: Final = lazy_pattern(r".+\.[a-z]{2,}", re.IGNORECASE)
_SHORTEST: Final = 8
"""The minimum length of a part of a secret to be masked."""
_LONGEST_WORDS: Final = 15
"""The maximum length of whole words that are not masked, as in `sk-proj-`. Longer ones may be a passphrase.
"""
_WORDS: Final = lazy_pattern(r"[-_ ./]*(?:(?:[A-Za-z]?[a-z]+|[A-Z]+|v\d+)(?:[-_ ./]+|$))+")
_URL: Final = "://"


def is_loopback(host: str) -> bool:
    """Return whether `host` is the local machine. It may be a name or IP address, without a port."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_local(url: str) -> bool:
    """Return whether the server of a URL runs on the local machine. An invalid URL has no server."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def find_proxy(url: SplitResult) -> str | None:
    """Return the proxy that the environment sets for `url`, or for all URLs with `all_proxy`, or None. Localhost and
    the hosts in `no_proxy` have no proxy. `http://` is added to a proxy that is only a host and a port.
    """
    from urllib.request import getproxies, proxy_bypass  # loads http.client and ssl

    host, proxies = url.hostname or "", getproxies()
    exempt = proxies.get("no", "").replace(",", " ").split()
    if is_loopback(host) or proxy_bypass(host) or any(_is_exempt(url, entry) for entry in exempt):
        return None
    proxy = proxies.get(url.scheme) or proxies.get("all")
    if proxy and "://" not in proxy and proxy.rpartition(":")[2].isdecimal():
        return f"http://{proxy.removeprefix('//')}"
    return proxy


def uses_proxy(url: str) -> bool:
    """Return whether the environment sets a proxy for `url`. An invalid URL has none."""
    try:
        return find_proxy(urlsplit(url)) is not None
    except ValueError:
        return False


def find_proxy_problem(proxy: str) -> str | None:
    """Return why requests cannot go through a proxy, or None if its scheme is supported or missing."""
    scheme, found, _ = proxy.partition("://")
    if not found or scheme.lower() in ("http", "https"):
        return None
    named = f"the scheme {scheme}://, which" if scheme.isalnum() else "a scheme that"  # it may be part of a password
    return (
        f"the proxy set in the environment (such as ALL_PROXY) has {named} is not supported; set one with http:// or "
        "https://, or name the server in NO_PROXY"
    )


def _is_exempt(url: SplitResult, entry: str) -> bool:
    """Return whether an entry of `no_proxy` names the host of `url`. It is `*`, a domain (which includes its
    subdomains) with or without a port, an address, or a network such as `10.0.0.0/8`.
    """
    if entry == "*":
        return True
    host = (url.hostname or "").rstrip(".")
    if not raises(ValueError, ip_network, entry.strip("[]"), strict=False):
        network = ip_network(entry.strip("[]"), strict=False)
        return not raises(ValueError, ip_address, host) and ip_address(host) in network
    try:
        named = urlsplit(f"//{entry}")
        name, port = (named.hostname or "").removeprefix("*").strip("."), named.port
        same_port = port is None or port == (url.port or {"http": 80, "https": 443}.get(url.scheme))
    except ValueError:
        return False
    return bool(name) and same_port and f".{host}".endswith(f".{name}")


def find_proxy_secrets() -> list[str]:
    """Return the secrets of the environment's proxies that have credentials: their URLs and the user names and
    passwords in them, as written, decoded, and as sent in a header.

    A user name is included too, because it may be a token.
    """
    from urllib.request import getproxies

    secrets: list[str] = []
    for proxy in getproxies().values():
        user, at, _ = proxy.rpartition("://")[2].rpartition("@")
        if at:
            name, colon, password = user.partition(":")
            plain, secret = unquote(user), password or name
            sent = base64.b64encode((plain if colon else f"{plain}:").encode()).decode()
            secrets += [proxy, user, plain, sent, secret, unquote(secret)]
    return secrets


def complete_url(text: str) -> str | None:
    """Return the URL intended by an incomplete one that lacks `http://` or `https://`, such as `localhost:8000/v1`,
    `:8000`, `10.0.0.7`, `api.example.com` or `http:/gpu1/v1`, or None if the text is complete or ambiguous, such as
    `20240620`, `cf/meta/llama` or `v1.5`.
    """
    if _PORT_ONLY.fullmatch(text):
        text = f"localhost{text}"
    begun = _HALF_SCHEME.match(text)
    assert begun is not None  # it also matches the empty string
    match = _ADDRESS.fullmatch(text, begun.end())
    if match is None:
        return None
    host, path = match["host"].strip("[]"), match["path"] or ""
    here = is_loopback(host)
    is_address = not raises(ValueError, ip_address, host)
    named = here or is_address or _DOMAIN.fullmatch(host) or begun[0]
    if not named and not match["port"] and not _VERSION.fullmatch(path.strip("/").split("/")[0]):
        return None
    public = not here and not match["port"] and not is_address and "." in host
    scheme = (begun["scheme"] or ("https" if public else "http")).lower()
    url = f"{scheme}://{text[begun.end() :]}"
    return url if url.lower() != text.lower() else None


def redact_url(url: str) -> str:
    """Return `url` with `***` in place of all parts that may be secret, so that it can be printed and stored. The
    scheme, host and port are shown, and the path if it consists of common words such as `/openai/v1`. Text without a
    scheme or host is `***` completely.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return MASK
    if not parts.scheme or not host:
        return MASK
    at = f"[{host}]" if ":" in host else host
    user = f"{MASK}@" if "@" in parts.netloc else ""
    plain = all(not part or part in _COMMON or _VERSION.fullmatch(part) for part in parts.path.split("/"))
    path = parts.path if plain else f"/{MASK}"
    query = f"?{MASK}" if parts.query or parts.fragment else ""
    return f"{parts.scheme}://{user}{at}{f':{port}' if port is not None else ''}{path}{query}"


def find_secret_parts(url: str | None) -> list[str]:
    """Return the parts of `url` that `redact_url` hides, longest first, so that they can be masked elsewhere. The first
    part is the URL itself. If nothing is hidden or `url` is None, the list is empty.
    """
    if url is None or MASK not in redact_url(url):
        return []
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    path = [part for part in parts.path.split("/") if part not in _COMMON and not _VERSION.fullmatch(part)]
    queried = [value for _, value in parse_qsl(parts.query)]
    secrets = [url, parts.path, parts.query, parts.fragment, parts.password, parts.username, *path, *queried]
    return sorted({part for part in secrets if part and part != "/"}, key=len, reverse=True)


def find_secrets(base_url: str | None, *values: str | None) -> list[str]:
    """Return all strings that errors must not show: `values`, and the secret parts of the URL and of any proxies.
    Strings of three characters or fewer are omitted.
    """
    secrets = (*values, *find_secret_parts(base_url), *find_proxy_secrets())
    return [value for value in secrets if value is not None and len(value) > 3]


def mask_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with `***` in place of each secret, and of each part of at least 8 characters of a secret that is
    not a URL. Whole words that also occur in a secret stay, such as `production` of `production-4711`, unless there are
    asterisks next to them.

    This also handles servers that shorten keys or put asterisks in the middle.
    """
    longest_first = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    for secret in longest_first:
        text = text.replace(secret, MASK)
    for secret in longest_first:
        if len(secret) > _SHORTEST and _URL not in secret:  # the secret parts of a URL are in the list themselves
            text = _mask_parts(text, secret)
    return text


def _mask_parts(text: str, secret: str) -> str:
    """Return `text` with every substring of `secret` with at least 8 characters masked, except for ordinary words."""
    starts = {secret[at : at + _SHORTEST] for at in range(len(secret) - _SHORTEST + 1)}
    pieces: list[str] = []
    shown = at = 0
    while at <= len(text) - _SHORTEST:
        end = at + _SHORTEST
        if text[at:end] not in starts:
            at += 1
            continue
        while end < len(text) and text[at : end + 1] in secret:
            end += 1
        if not _is_ordinary(text, at, end, secret):
            pieces += [text[shown:at], MASK]
            shown = end
        at = end
    return "".join([*pieces, text[shown:]])


def _is_ordinary(text: str, at: int, end: int, secret: str) -> bool:
    """Return whether `text[at:end]`, which is a part of `secret`, consists of a few whole words without asterisks next
    to them, so that it need not be masked.
    """
    part = text[at:end]
    if len(part) > _LONGEST_WORDS or not _WORDS.fullmatch(part):
        return False
    if (end < len(text) and _is_starred(text[end:])) or _is_starred(text[:at][::-1]):
        return False
    before, _, after = secret.partition(part)
    return not ((before[-1:].isalpha() and part[0].isalpha()) or (after[:1].isalpha() and part[-1].isalpha()))


def _is_starred(rest: str) -> bool:
    """Return whether `rest` starts with characters that replace the rest of a secret."""
    return rest[:1] in ("*", "•", "…") or (rest[:2] in ("..", "xx", "XX", "##"))
