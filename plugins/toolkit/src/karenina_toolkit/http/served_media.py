"""What servers state about the attachments that their models understand.

Only servers that run models state it: llama.cpp in `GET /props`, and Ollama in `POST /api/show`. Both cost nothing, and
load no model. vLLM states nothing. The shapes are from the documentation of both servers, read in November 2026.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from karenina_toolkit.http.urls import uses_proxy

SECONDS: Final = 3.0
"""The time limit for a request."""
_MOST_BYTES: Final = 5_000_000


@dataclass(frozen=True, slots=True)
class ServedMedia:
    """What a server states about a model: whether it understands images and sound. `server` names the program."""

    images: bool
    sound: bool
    server: str


def ask_server(base_url: str, model_name: str) -> ServedMedia | None:
    """Return whether a model understands images and audio according to its server, as Ollama and llama.cpp state, or
    None if the server does not state it, or cannot be reached. No key is sent, and no proxy is used: servers behind a
    proxy are not asked.
    """
    if uses_proxy(base_url):
        return None
    root = base_url.rstrip("/").removesuffix("/v1")
    try:
        shown = _read(f"{root}/api/show", {"model": model_name})
        capabilities = shown.get("capabilities")
        if isinstance(capabilities, list):
            return ServedMedia("vision" in capabilities, "audio" in capabilities, "Ollama")
        # With several models, llama.cpp states the properties of a model that is loaded, and must not load another one.
        properties = _read(f"{root}/props?model={quote(model_name, safe='')}&autoload=false", None)
    except OSError:
        return None
    modalities = properties.get("modalities")
    if not isinstance(modalities, Mapping) or not isinstance(modalities.get("vision"), bool):
        return None
    return ServedMedia(modalities["vision"], modalities.get("audio") is True, "llama.cpp")


def _read(url: str, body: Mapping[str, str] | None) -> Mapping[str, Any]:
    """Return the JSON object in the reply to a GET request, or to a POST request with `body` as JSON. Any error status
    and any other content give an empty object. Raises `OSError` if there is no reply.
    """
    from http.client import HTTPException, HTTPMessage
    from typing import IO
    from urllib.error import HTTPError
    from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

    class NoRedirects(HTTPRedirectHandler):
        """Follows no redirect, because only the configured server is asked."""

        def redirect_request(
            self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
        ) -> None:
            return None

    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"Content-Type": "application/json"})  # noqa: S310 - the scheme was checked
    try:
        with build_opener(ProxyHandler({}), NoRedirects).open(request, timeout=SECONDS) as response:
            value = json.loads(response.read(_MOST_BYTES))
    except (HTTPError, HTTPException, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
