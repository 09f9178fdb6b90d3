"""Reads datasets from Hugging Face's dataset server over HTTPS."""

from __future__ import annotations

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from karenina_core.errors import ConfigError
from karenina_importing.formats.tables import is_page, page_rows
from karenina_importing.source_files import SourceRow
from karenina_toolkit.files import bounded_files
from karenina_toolkit.http.urls import find_proxy, is_loopback

SERVER: Final = "https://datasets-server.huggingface.co"
"""The base URL of the dataset server."""
MOST_ROWS: Final = 10_000
"""The maximum number of rows that are read from a split if no limit is set."""
_PAGE: Final = 100
_SECONDS: Final = 60.0
_TOKEN: Final = "HF_TOKEN"  # noqa: S105 - the name of a variable


@dataclass(frozen=True, slots=True)
class Dataset:
    """A split of a dataset on the server.

    Set `subset` and `split` if there are several. `limit` is the maximum number of rows to read.
    """

    name: str
    subset: str | None = None
    split: str | None = None
    limit: int | None = None
    server: str = SERVER

    def rows(self) -> Iterator[SourceRow]:
        """Request the split page by page, and yield its rows, at most `limit` if it is set. Raises `ConfigError` if the
        server cannot be reached or sends fewer rows than it says, or if the split does not exist or is too large.

        A split is too large if its rows exceed the file size limit, or if there are more than `MOST_ROWS` rows and no
        limit is set.
        """
        _check_server(self.server)
        subset, split = self._choose()
        read, done, total = 0, 0, 1
        while done < min(total, self.limit or total):
            length = min(_PAGE, self.limit - done) if self.limit else _PAGE
            where = {"dataset": self.name, "config": subset, "split": split, "offset": done, "length": length}
            page, size = self._get("/rows", where)
            read += size
            if read > bounded_files.max_file_bytes():
                raise ConfigError([f"the rows of hf:{self.name} exceed the file size limit; set --limit"])
            if not is_page(page):
                raise ConfigError([f"the reply from {self.server} has no rows; import a downloaded file instead"])
            total = self._check_total(page.get("num_rows_total"), split)
            yield from page_rows(page)
            if not page["rows"]:
                if done < min(total, self.limit or total):
                    raise ConfigError([f"{self.server} returned {done} of {total} rows of hf:{self.name}; try again"])
                return
            done += len(page["rows"])

    def _check_total(self, total: Any, split: str) -> int:
        """Return the total number of rows in `split` as stated in a reply. Raises `ConfigError` if it is missing or too
        large. More than `MOST_ROWS` rows are too many if no limit is set.
        """
        if not isinstance(total, int) or isinstance(total, bool) or total < 0:
            what = f"the reply from {self.server} does not contain the total number of rows"
            raise ConfigError([f"{what}; import a downloaded file instead"])
        if self.limit is None and total > MOST_ROWS:
            what = f"the split {split!r} of hf:{self.name} has {total:,} rows, more than {MOST_ROWS:,}"
            raise ConfigError([f"{what}; set --limit, or download the split and import the file"])
        return total

    def _choose(self) -> tuple[str, str]:
        """Return the subset and split to read. Raises `ConfigError` unless exactly one of each matches."""
        reply, _ = self._get("/splits", {"dataset": self.name})
        listed = reply.get("splits") if isinstance(reply, Mapping) else None
        splits = [
            (str(split.get("config")), str(split.get("split")))
            for split in (listed if isinstance(listed, list) else ())
            if isinstance(split, Mapping)
        ]
        chosen = [
            (subset, split) for subset, split in splits if self.subset in (None, subset) and self.split in (None, split)
        ]
        if len(chosen) == 1:
            return chosen[0]
        names = ", ".join(f"{subset}/{split}" for subset, split in (chosen or splits)[:20]) or "none"
        what = "has no matching split" if not chosen else "has more than one matching split"
        raise ConfigError([f"hf:{self.name} {what}. Choose one with --subset and --split; the splits are {names}"])

    def _get(self, path: str, query: Mapping[str, Any]) -> tuple[Any, int]:
        """Request JSON, and return it with the size of the reply in bytes. Raises `ConfigError` if the server cannot be
        reached, or if the reply is an error, too large, or not JSON.
        """
        url = f"{self.server.rstrip('/')}{path}?{urlencode(query, errors='replace', quote_via=quote)}"
        request = urllib.request.Request(url, headers=self._headers())  # noqa: S310 - the scheme is checked
        parts = urlsplit(self.server)
        proxy = find_proxy(parts)
        proxies = urllib.request.ProxyHandler({} if proxy is None else {parts.scheme: proxy})
        opener = urllib.request.build_opener(_NoRedirects, proxies)
        most = bounded_files.max_file_bytes()
        try:
            with opener.open(request, timeout=_SECONDS) as reply:
                data = reply.read(most + 1)
        except urllib.error.HTTPError as error:
            raise ConfigError([self._explain(error)]) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or error
            cure = (
                "check the network connection, or download the dataset elsewhere and import its file "
                "(parquet, JSONL or CSV)"
            )
            raise ConfigError([f"cannot reach {self.server}: {reason}; {cure}"]) from error
        if len(data) > most:
            what = f"a reply from {self.server} exceeds the file size limit"
            raise ConfigError([f"{what}; set --limit, or import a downloaded file instead"])
        try:
            return json.loads(data), len(data)
        except (ValueError, RecursionError) as error:
            what = f"the reply from {self.server} is not JSON: {error}"
            raise ConfigError([f"{what}; try again, or import a downloaded file instead"]) from error

    def _headers(self) -> dict[str, str]:
        """Return the headers of a request. The user's token is only sent to Hugging Face's own server."""
        token = os.environ.get(_TOKEN, "").strip() if self.server == SERVER else ""
        return {"User-Agent": "karenina", **({"Authorization": f"Bearer {token}"} if token else {})}

    def _explain(self, error: urllib.error.HTTPError) -> str:
        """Return a message for an error status, with the server's reason if it gives one, and a fix."""
        reason = ""
        try:
            reply = json.loads(error.read(10_000))
            reason = f": {' '.join(str(reply['error']).split())[:300]}" if isinstance(reply, Mapping) else ""
        except (ValueError, KeyError, OSError, RecursionError, http.client.HTTPException):
            reason = ""
        cure = {
            401: f"check the name; if the dataset is not public, set {_TOKEN}",
            403: f"check that the token in {_TOKEN} has access to the dataset",
            404: "check the name (hf:OWNER/NAME)",
            429: "wait and try again",
        }.get(error.code, "try again, or download the dataset and import its file")
        return f"{self.server} returned status {error.code} for hf:{self.name}{reason}; {cure}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects, because they could lead to any server."""

    def redirect_request(self, *_args: Any, **_options: Any) -> None:
        """Return None so that a redirect is treated as an error."""


def _check_server(server: str) -> None:
    """Raise `ConfigError` unless the URL uses HTTPS, or HTTP on localhost."""
    parts = urlsplit(server)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return
    raise ConfigError([f"the dataset server must be an https:// URL, not {server!r}"])
