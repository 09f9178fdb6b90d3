"""Images, PDFs and sound in the messages of other tools, which become files beside the imported benchmark."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Collection, Mapping
from typing import Any, Final

from karenina_toolkit.attachments.media_types import HEAD, SUFFIXES, find_media_type

FOLDER: Final = "attachments"
"""The folder beside the benchmark in which the files are written."""
_DATA_URL: Final = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,")


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


def store_media(data: bytes, files: dict[str, bytes]) -> str | None:
    """Add contents to `files` under a path with their digest, and return it, or None if they cannot be attached."""
    try:
        media_type = find_media_type(data[:HEAD])
    except ValueError:
        return None
    suffix = next((suffix for suffix, name in SUFFIXES.items() if name == media_type), None)
    if suffix is None:
        return None
    path = f"{FOLDER}/{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
    files[path] = data
    return path


def store_url(url: str, files: dict[str, bytes]) -> str | None:
    """Add the contents of a data URL to `files`, and return their path. Returns None for other texts."""
    found = _DATA_URL.match(url)
    return _store_encoded(url[found.end() :], files) if found is not None else None


def take_named(value: Any, paths: Collection[str]) -> Any:
    """Return a prompt without the given file paths: they are removed from its strings, and parts that contain one are
    dropped.
    """
    if isinstance(value, str):
        for path in paths:
            value = value.replace(path, "")
        return value.strip()
    if isinstance(value, Mapping):
        return {key: take_named(inner, paths) for key, inner in value.items()}
    if not isinstance(value, list):
        return value
    return [
        take_named(part, paths)
        for part in value
        if not isinstance(part, Mapping) or "content" in part or not any(path in str(part) for path in paths)
    ]


def _store_encoded(text: str, files: dict[str, bytes]) -> str | None:
    """Decode base64, add the contents to `files`, and return their path, or None if they cannot be attached."""
    try:
        return store_media(b64decode(text, validate=True), files)
    except ValueError:
        return None


def _take(part: Any, files: dict[str, bytes]) -> bool:
    """Add the file that a content part contains to `files`, and return whether there was one that can be attached.

    These are the parts of Inspect (`image`, `audio` and `document`), of OpenAI (`image_url`, `input_image`, `file`,
    `input_file` and `input_audio`) and of Anthropic (`source`).
    """
    if not isinstance(part, Mapping) or not isinstance(part.get("type"), str):
        return False
    kind = part["type"]
    holders = [one for one in (part, part.get(kind), part.get("source")) if isinstance(one, Mapping)]
    urls = [holder.get(key) for holder in holders for key in (kind, "image_url", "url", "file_data")]
    if any(isinstance(url, str) and store_url(url, files) is not None for url in urls):
        return True
    contents = [holder.get("data") for holder in holders]
    return any(isinstance(data, str) and _store_encoded(data, files) is not None for data in contents if data)
