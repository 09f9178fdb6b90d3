"""Loopback hosts, proxies, incomplete URLs, and the parts of a URL that may be shown. For adapters."""

from __future__ import annotations

import base64
import re
from ipaddress import ip_address
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from karenina_toolkit.lazy_patterns import lazy_pattern

MASK: Final = "***"
"""The text that replaces a part of a URL that may be a secret."""

_COMMON: Final = frozenset(
    {
        *("anthropic", "api", "chat", "compatible-mode", "completions", "deployments", "engines", "inference", "llm"),
        *("mcp", "messages", "model", "models", "openai", "paas", "projects", "proxy", "router", "serverless"),
        *("serving", "sse"),
    }
)
_VERSION: Final = lazy_pattern(r"v\d{1,2}((alpha|beta)\d{0,2})?")
_HALF_SCHEME: Final = lazy_pattern(r"(?:(?P<scheme>https?):)?/{0,2}", re.IGNORECASE)
_ADDRESS: Final = lazy_pattern(
    r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?)(?::(?P<port>\d{1,5}))?(?P<path>/.*)?", re.IGNORECASE
)
_DOMAIN: Final = lazy_pattern(r".+\.[a-z]{2,}", re.IGNORECASE)


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or IP address without a port, is localhost."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def find_proxy(url: SplitResult) -> str | None:
    """Return the proxy set in the environment for requests to `url`; None if there is none, and for localhost."""
    from urllib.request import getproxies, proxy_bypass  # loads http.client and ssl

    host = url.hostname or ""
    return None if is_loopback(host) or proxy_bypass(host) else getproxies().get(url.scheme)


def find_proxy_secrets() -> list[str]:
    """Return what errors must not show of the proxies set in the environment: URLs with credentials, and these alone.

    A user name without a password is included, because it can be a token.
    """
    from urllib.request import getproxies

    found: list[str] = []
    for proxy in getproxies().values():
        user, at, _ = proxy.rpartition("://")[2].rpartition("@")
        if at:
            name, colon, password = user.partition(":")
            plain, secret = unquote(user), password or name
            sent = base64.b64encode((plain if colon else f"{plain}:").encode()).decode()
            found += [proxy, user, plain, sent, secret, unquote(secret)]
    return found


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def complete_url(text: str) -> str | None:
    """Return the URL that `text` means if it is a server's URL without a complete `http://` or `https://`.

    Examples are `localhost:8000/v1`, `10.0.0.7`, `api.example.com` and `http:/gpu1/v1`. Return None for a complete URL,
    and for anything that may mean something else: `20240620`, `cf/meta/llama`, `v1.5`.
    """
    begun = _HALF_SCHEME.match(text)
    assert begun is not None  # it also matches the empty string
    found = _ADDRESS.fullmatch(text, begun.end())
    if found is None:
        return None
    host, path = found["host"].strip("[]"), found["path"] or ""
    here = is_loopback(host)
    named = here or _is_ip(host) or _DOMAIN.fullmatch(host) or begun[0]
    if not named and not found["port"] and not _VERSION.fullmatch(path.strip("/").split("/")[0]):
        return None
    public = not here and not found["port"] and not _is_ip(host) and "." in host
    scheme = (begun["scheme"] or ("https" if public else "http")).lower()
    url = f"{scheme}://{text[begun.end() :]}"
    return url if url.lower() != text.lower() else None


def redact_url(url: str) -> str:
    """Return `url` as it may be printed and stored: parts that may be secrets are replaced by `***`.

    Scheme, host and port are shown. A path is shown if it consists of words and versions that are common in the base
    URLs of model servers, such as `/v1` and `/openai/v1`. A user name, a password, a query and any other path may be a
    secret, and are masked. What has no scheme or host is masked as a whole.
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
    """Return the parts of `url` that `redact_url` does not show, the longest first: to mask them in other texts."""
    if url is None or MASK not in redact_url(url):
        return []
    try:
        parts = urlsplit(url)
    except ValueError:
        return [url]
    path = [part for part in parts.path.split("/") if part not in _COMMON and not _VERSION.fullmatch(part)]
    queried = [value for _, value in parse_qsl(parts.query)]
    found = [url, parts.path, parts.query, parts.fragment, parts.password, parts.username, *path, *queried]
    return sorted({part for part in found if part and part != "/"}, key=len, reverse=True)
