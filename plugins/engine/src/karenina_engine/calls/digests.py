"""Digests of data on which the reply to a call depends."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from karenina_core.version import __version__

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig


def digest_recordings(model: ModelConfig) -> str | None:
    """Return a digest of a model's recorded answers; None if it has none, or their file cannot be read."""
    recorded = model.manual_traces
    if recorded is None:
        return None
    if not isinstance(recorded, Path):
        return digest_json(recorded).hex()
    try:
        with recorded.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def digest_json(value: Any) -> bytes:
    """Return a digest of `value` as JSON and of the core's version. Values that are not data are replaced by names."""
    plain = to_jsonable_python(value, fallback=_named)
    return hashlib.sha256(json.dumps([__version__, plain], sort_keys=True).encode()).digest()


def _named(value: object) -> str:
    """Return the name that replaces a value that is not data, such as a function: the same in every process."""
    return getattr(value, "__qualname__", type(value).__qualname__)
