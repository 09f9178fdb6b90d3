"""Files with the evaluated starts of prompts, which llama.cpp saves and restores per slot.

The instructions and examples in a judge's prompt are the same for all items. llama.cpp evaluates them once, saves the
state of the slot, and restores it for later calls, including those of later runs and other processes.

llama.cpp crashes if it restores a file that was cut off, so each file ends with a digest.

A restored state is identical, bit for bit, to one that was just evaluated, because every call is evaluated in the same
two batches: the start of its prompt, and the rest.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from hashlib import blake2b, file_digest, sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from karenina_toolkit.files.state_folder import UserStateError, make_own_folder, state_folder

logger = logging.getLogger("karenina")

SUFFIX: Final = ".slot"
UNFINISHED: Final = ".unfinished"
ABANDONED_SECONDS: Final = 3600.0
"""The age in seconds from which an unfinished file is considered abandoned by a killed process."""
_CACHE_TYPE: Final = "f16"  # llama.cpp's default
_SAMPLED_BYTES = _READ_BYTES = 2**20
_TIMEOUT: Final = 60.0
_DIGEST_BYTES: Final = 32
_WARNED: Final[set[str]] = set()


@dataclass(frozen=True, slots=True)
class Slot:
    """The URL of a server's slot on the loopback interface, and the server's API key."""

    url: str
    key: str


class PromptCache:
    """The saved slots for one model with one context size.

    `megabytes` limits the size of the user's folder of saved slots, which all models share. The least recently used
    slots are deleted. If the limit is 0 or the folder is not safe, slots are saved in a temporary folder while the
    server runs.
    """

    def __init__(self, model: Path, context: int, megabytes: int) -> None:
        self._model = model
        self._context = context
        self._most_bytes = megabytes * 1_000_000
        self._folder: Path | None = None
        self._temporary: Path | None = None
        self._identity = ""
        self._checked: dict[str, tuple[int, int, int]] = {}

    def open(self) -> Path:
        """Return the folder for saved slots, creating it if necessary. Raises `OSError` if it cannot be created."""
        if self._folder is None:
            self._identity = f"{_fingerprint(self._model)}\n{version('xllamacpp')}\n{self._context}\n{_CACHE_TYPE}"
            self._folder = self._own_folder() if self._most_bytes else None
        if self._folder is None:
            self._folder = self._temporary = Path(tempfile.mkdtemp(prefix="karenina-prompts-"))
        return self._folder

    def close(self) -> None:
        """Delete the temporary folder, if there is one."""
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._folder = self._temporary = None

    def restore(self, slot: Slot, prompt: str) -> bool:
        """Restore the state after `prompt` from its file into a slot. Returns False if there is no usable file. A file
        that is damaged or that llama.cpp rejects is deleted.
        """
        file = self.open() / self._name(prompt)
        try:
            self._check(file)
            _post(slot, "restore", file.name)
        except ValueError:
            file.unlink(missing_ok=True)
            return False
        except OSError:  # there is no such file, or the call itself will report what is wrong with the server
            return False
        return True

    def _check(self, file: Path) -> None:
        """Check a file's digest and mark the file as recently used, unless it was checked before and is unchanged.
        Raises `ValueError` if it is damaged, and `OSError` if it cannot be read.
        """
        about = file.stat()
        if self._checked.get(file.name) == (about.st_ino, about.st_size, about.st_mtime_ns):
            return
        with file.open("rb") as stream:
            digest, left = blake2b(digest_size=_DIGEST_BYTES), about.st_size - _DIGEST_BYTES
            while left > 0 and (part := stream.read(min(left, _READ_BYTES))):
                digest.update(part)
                left -= len(part)
            if digest.digest() != stream.read():
                raise ValueError("it is damaged")
        os.utime(file)
        about = file.stat()
        self._checked[file.name] = about.st_ino, about.st_size, about.st_mtime_ns

    def save(self, slot: Slot, prompt: str) -> None:
        """Save a slot's state after `prompt` to a file, and delete the least recently used ones beyond the size limit.
        If this fails, a warning is logged once.
        """
        file = self.open() / self._name(prompt)
        unfinished = file.with_name(f"{file.stem}.{secrets.token_hex(8)}{UNFINISHED}")
        try:
            saved = _post(slot, "save", unfinished.name)
            if not 0 < saved.get("n_written", 0) == unfinished.stat().st_size:
                raise OSError("the file is incomplete; is the disk full?")
            with unfinished.open("r+b") as stream:
                digest = file_digest(stream, lambda: blake2b(digest_size=_DIGEST_BYTES)).digest()
                stream.seek(0, os.SEEK_END)
                stream.write(digest)
            unfinished.replace(file)
            if self._temporary is None:
                self._delete_oldest(file)
        except (OSError, ValueError) as error:
            unfinished.unlink(missing_ok=True)
            _warn(
                f"cannot save evaluated prompts in {file.parent} ({error}), so each call evaluates "
                "its whole prompt; free space on the disk, or delete files in this folder"
            )

    def _own_folder(self) -> Path | None:
        """Return the user's folder for saved slots, creating it if necessary. If it is not safe or cannot be written,
        log a warning and return None.
        """
        try:
            folder = state_folder() / "prompts"
            make_own_folder(folder)
            with tempfile.TemporaryFile(dir=folder):
                return folder
        except (OSError, UserStateError) as error:
            _warn(f"evaluated prompts are not kept after this run: {error}")
            return None

    def _name(self, prompt: str) -> str:
        """Return the name of the file with the state after `prompt`."""
        return sha256(f"{self._identity}\n{prompt}".encode("utf-8", "surrogatepass")).hexdigest() + SUFFIX

    def _delete_oldest(self, newest: Path) -> None:
        """Delete temporary files of processes that were killed, and the least recently used files until the folder is
        below its size limit, but keep `newest`. Raises `OSError` if a file cannot be deleted.
        """
        files = []
        for file in newest.parent.iterdir():
            try:
                about = file.stat()
            except FileNotFoundError:  # another process deleted it
                continue
            if file.suffix == UNFINISHED and about.st_mtime < time.time() - ABANDONED_SECONDS:
                file.unlink(missing_ok=True)
            elif file.suffix == SUFFIX:
                files.append((file == newest, about.st_mtime_ns, about.st_size, file))
        size = sum(entry[2] for entry in files)
        for is_newest, _, its_size, file in sorted(files):
            if size > self._most_bytes and not is_newest:
                file.unlink(missing_ok=True)
                size -= its_size


def _warn(problem: str) -> None:
    """Log a warning once per process."""
    if problem not in _WARNED:
        _WARNED.add(problem)
        logger.warning("%s", problem)


def _fingerprint(model: Path) -> str:
    """Return a string that identifies a model file: its path, size and time, and a digest of its start and end.

    Hashing the whole file would take longer than loading it. Raises `OSError` if the file cannot be read.
    """
    about = model.stat()
    with model.open("rb") as file:
        digest = sha256(file.read(_SAMPLED_BYTES))
        file.seek(max(0, about.st_size - _SAMPLED_BYTES))
        digest.update(file.read(_SAMPLED_BYTES))
    return f"{model}\n{about.st_size}\n{about.st_mtime_ns}\n{digest.hexdigest()}"


def _post(slot: Slot, action: str, name: str) -> dict[str, Any]:
    """Ask llama.cpp to do `action`, which is "save" or "restore", with a slot and the file `name`, and return its
    reply. Raises `ValueError` if llama.cpp reports an error, and `OSError` if it cannot be reached.
    """
    request = urllib.request.Request(  # noqa: S310 - a server on the loopback interface
        f"{slot.url}?action={action}",
        json.dumps({"filename": name}).encode(),
        {"Authorization": f"Bearer {slot.key}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TIMEOUT) as reply:
            answer: dict[str, Any] = json.load(reply)
            return answer
    except urllib.error.HTTPError as error:
        raise ValueError(f"llama.cpp responded with status {error.code}") from error
