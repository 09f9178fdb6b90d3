"""Files of the Hugging Face hub, over plain HTTPS and without its client.

Two variables of that client are respected: `HF_ENDPOINT`, the address of a mirror, and `HF_HUB_OFFLINE`. So are the
proxies and certificates (`SSL_CERT_FILE`) of the environment. No token is sent: the models are public.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from karenina_core.version import __version__
from karenina_local.errors import PullError

if TYPE_CHECKING:
    from pyreqwest.client import SyncClient

    from karenina_local.catalogue import HubFile

ENDPOINT: Final = "https://huggingface.co"
CONNECT_SECONDS: Final = 5.0
"""For looking the host up and connecting to it. A machine that cannot reach the hub must find out soon."""
SILENCE_SECONDS: Final = 15.0
"""For the reply's head, and between two pieces of the file."""
OK: Final = 200
_ON: Final = {"1", "on", "yes", "true"}


def offline() -> bool:
    """Return whether the environment forbids requests to the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _ON


def read(file: HubFile) -> Iterator[bytes]:
    """Yield the content of `file`, piece by piece. Raises `PullError` if it cannot be read to its end."""
    from pyreqwest.exceptions import PyreqwestError

    if offline():
        raise PullError("HF_HUB_OFFLINE forbids requests to the hub: unset it, or pull `--from index` or from a file")
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or ENDPOINT
    url = f"{endpoint}/{quote(file.repository)}/resolve/{quote(file.revision, safe='')}/{quote(file.file)}"
    try:
        with _client(endpoint) as client, client.get(url).build_streamed() as response:
            if response.status != OK:
                raise PullError(f"{_host(endpoint)} answered {response.status} for {file.repository}/{file.file}")
            reader = response.body_reader
            while piece := reader.read_chunk():
                yield bytes(piece)
    except (PyreqwestError, ValueError) as error:
        raise PullError(f"{_host(endpoint)} did not deliver {file.repository}/{file.file}: {_reason(error)}") from error


def _client(endpoint: str) -> SyncClient:
    """Return a client for one file. It follows redirects, but from HTTPS never to HTTP."""
    from pyreqwest.client import SyncClientBuilder

    return (
        SyncClientBuilder()
        .user_agent(f"karenina/{__version__}")
        .https_only(not endpoint.lower().startswith("http://"))
        .error_for_status(False)
        .gzip(False)
        .brotli(False)
        .zstd(False)
        .deflate(False)
        .connect_timeout(timedelta(seconds=CONNECT_SECONDS))
        .read_timeout(timedelta(seconds=SILENCE_SECONDS))
        .build()
    )


def _host(endpoint: str) -> str:
    """Return the server's name for a message: an address of the user's may hold a secret."""
    try:
        return urlsplit(endpoint).hostname or "the hub"
    except ValueError:
        return "the hub"


def _reason(error: Exception) -> str:
    """Return the innermost cause of an error, without the request's address."""
    details: Any = getattr(error, "details", None) or {}
    causes = [str(cause["message"]) for cause in details.get("causes") or ()]
    causes = [cause for cause in causes if "for url" not in cause]
    return causes[-1] if causes else str(getattr(error, "message", error))
