"""Find the format of a file of another tool."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from karenina_benchmark.formats.format_registry import list_formats
from karenina_core.errors import ConfigError
from karenina_core.plugins import Plugins
from karenina_core.text import did_you_mean
from karenina_importing.file_head import head_of
from karenina_importing.import_format import Fit, ImportFormat


def import_formats(plugins: Plugins) -> list[ImportFormat]:
    """Return the formats of all plugins that can be imported."""
    return [one.value for one in list_formats(plugins) if isinstance(one.value, ImportFormat)]


def choose_format(formats: Sequence[ImportFormat], key: str) -> ImportFormat:
    """Return the format with this key. Raises `ConfigError` if there is none, or if two plugins offer one."""
    found = [one for one in formats if one.key == key]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError([f"two plugins offer the format {key!r}: block one of them"])
    keys = [one.key for one in formats]
    raise ConfigError([f"there is no format {key!r}{did_you_mean(key, keys)} All formats: {', '.join(keys)}"])


def detect_format(formats: Sequence[ImportFormat], path: Path) -> ImportFormat:
    """Return the only format that a file has. Raises `ConfigError` if it has none, or could have several."""
    head = head_of(path)
    fits = {one.key: (one.detect(head), one) for one in formats}
    for least in (Fit.YES, Fit.MAYBE):
        found = [one for fit, one in fits.values() if fit == least]
        if len(found) == 1:
            return found[0]
        if found:
            names = " or ".join(f"{one.key} ({one.name})" for one in found)
            raise ConfigError([f"{path} could be {names}: choose one with --from"])
    known = "; ".join(f"{one.key} ({one.name})" for one in formats)
    raise ConfigError([f"the format of {path} is not known; if it is one of these, choose it with --from: {known}"])
