"""Images, PDFs and sound in the messages of other tools, which become files beside the imported benchmark."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from karenina_toolkit.attachments.media_types import HEAD, SUFFIXES, find_media_type

FOLDER: Final = "attachments"
"""The folder beside the benchmark in which the files are written."""
_DATA_URL: Final = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")
_KINDS: Final = ("image", "audio", "document")


def take_media(value: Any, files: dict[str, bytes]) -> Any:
    """Return messages without the parts that contain a file, and add the contents to `files`, by path.

    The paths are relative to the benchmark, and contain a digest of the contents. Parts with a URL, or with a file of a
    type that cannot be attached, are kept, so that they are reported.
    """
    if isinstance(value, Mapping):
        return {key: take_media(inner, files) if key == "content" else inner for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    return [take_media(part, files) for part in value if not _take(part, files)]


def _take(part: Any, files: dict[str, bytes]) -> bool:
    """Return whether a content part contained a file that can be attached, which is then added to `files`."""
    if not isinstance(part, Mapping):
        return False
    kind = part.get("type")
    url = part.get(kind) if kind in _KINDS else None
    if not isinstance(url, str) or (found := _DATA_URL.match(url)) is None:
        return False
    try:
        data = b64decode(url[found.end() :], validate=True)
        media_type = find_media_type(data[:HEAD])
    except ValueError:
        return False
    suffix = next((suffix for suffix, name in SUFFIXES.items() if name == media_type), None)
    if suffix is None:
        return False
    files[f"{FOLDER}/{hashlib.sha256(data).hexdigest()[:16]}{suffix}"] = data
    return True
