"""Downloads from the Hugging Face hub, over plain HTTPS and without its client library.

Two variables of that library are used: `HF_ENDPOINT`, the address of a mirror, and `HF_HUB_OFFLINE`; also the proxies
and certificates (`SSL_CERT_FILE`) of the environment. No token is sent, because the models are public.
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
"""The time limit for the DNS lookup and the connection, short because the hub may be unreachable."""
SILENCE_SECONDS: Final = 15.0
"""The time limit for the headers of the reply, and between two chunks of the file."""
OK: Final = 200
_ON: Final = {"1", "on", "yes", "true"}


def offline() -> bool:
    """Return whether the environment forbids requests to the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _ON


def read(file: HubFile) -> Iterator[bytes]:
    """Yield the content of `file` in chunks. Raises `PullError` if it cannot be read to its end."""
    from pyreqwest.exceptions import PyreqwestError

    if offline():
        raise PullError("HF_HUB_OFFLINE forbids requests to the hub: unset it, or use `--from index` or a file")
    endpoint = os.environ.get("HF_ENDPOINT", "").rstrip("/") or ENDPOINT
    url = f"{endpoint}/{quote(file.repository)}/resolve/{quote(file.revision, safe='')}/{quote(file.file)}"
    try:
        with _client(endpoint) as client, client.get(url).build_streamed() as response:
            if response.status != OK:
                raise PullError(f"{_host(endpoint)} returned HTTP {response.status} for {file.repository}/{file.file}")
            reader = response.body_reader
            while piece := reader.read_chunk():
                yield bytes(piece)
    except (PyreqwestError, ValueError) as error:
        raise PullError(
            f"{file.repository}/{file.file} could not be downloaded from {_host(endpoint)}: {_reason(error)}"
        ) from error


def _client(endpoint: str) -> SyncClient:
    """Return a client for one file. It follows redirects, but never from HTTPS to HTTP."""
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
    """Return the server's name for a message, because a user's address may contain a secret."""
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
