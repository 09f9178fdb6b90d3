"""The file in which the user's trusted digests are stored."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from karenina_core.data.trust import Trust
from karenina_core.errors import KareninaError
from karenina_core.text import replace_surrogates
from karenina_engine.user.private_files import locked, read_private
from karenina_toolkit.files import replace_file

_DIGEST_LENGTH = 64


class TrustFileError(KareninaError, ValueError):
    """Raised when the user's file of trusted digests cannot be read or written."""


def load_trust() -> Trust:
    """Return the digests that this user has trusted with `karenina trust`; none if the file does not exist yet.

    Raises `TrustFileError` if the file is malformed, or if another user could have written it.
    """
    return Trust(frozenset(_read(trust_path())))


def trust_path() -> Path:
    """Return the path of the file with the trusted digests.

    Its folder is `KARENINA_CONFIG_HOME`, else `karenina` in `XDG_CONFIG_HOME`, else `~/.config/karenina`.
    """
    own = os.environ.get("KARENINA_CONFIG_HOME")
    if own:
        return Path(own) / "trusted.json"
    shared = os.environ.get("XDG_CONFIG_HOME")
    return (Path(shared) if shared else Path.home() / ".config") / "karenina" / "trusted.json"


def store_trust(digests: Iterable[str], note: str = "") -> Path:
    """Add `digests` (as `digest_of` returns them) to the user's file with `note` and the time, and return its path.

    Digests that are already stored keep their note. Raises `ValueError` if a digest is not a SHA-256 in lowercase
    hexadecimal, and `TrustFileError` if the file is malformed or cannot be written.
    """
    wanted = list(digests)
    for digest in wanted:
        if not _is_digest(digest):
            raise ValueError(f"{digest!r} is not a SHA-256 digest: 64 characters of 0-9 and a-f")
    path = trust_path()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    try:
        with locked(path):  # without the lock, two commands at once could overwrite each other's digests
            entries = _read(path)
            for digest in wanted:
                entries.setdefault(digest, {"note": replace_surrogates(note), "trusted_at": now})
            text = json.dumps({"version": 1, "trusted": entries}, indent=2, ensure_ascii=False)
            replace_file(path, lambda file: file.write(text.encode()), private=True)
    except OSError as error:
        raise TrustFileError(f"{path}: the trusted digests cannot be written: {error}") from error
    return path


def _read(path: Path) -> dict[str, Any]:
    try:
        text = read_private(path)
    except (OSError, UnicodeDecodeError) as error:
        raise TrustFileError(f"{path}: the trusted digests cannot be read: {error}") from error
    if text is None:
        return {}
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TrustFileError(_broken(path, str(error))) from error
    entries = data.get("trusted") if isinstance(data, dict) else None
    if not isinstance(entries, dict) or data.get("version") != 1:
        raise TrustFileError(_broken(path, 'it is not of the form {"version": 1, "trusted": {...}}'))
    wrong = [digest for digest in entries if not _is_digest(digest)]
    if wrong:
        raise TrustFileError(_broken(path, f"{wrong[0]!r} is not a SHA-256 digest"))
    return entries


def _broken(path: Path, why: str) -> str:
    return f"{path}: this file of trusted digests is broken ({why}); repair it, or delete it and trust your files again"


def _is_digest(text: str) -> bool:
    return len(text) == _DIGEST_LENGTH and not set(text) - set("0123456789abcdef")
