"""Choose or detect the format of another tool's file; shell completion for files, formats and mapped names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_importing.import_format import Fit, ImportFormat, UnloadedFormat
from karenina_importing.source_files import head_of, read_json
from karenina_terminal.completion import complete_files, matching
from karenina_toolkit.files import LINES, SUFFIXES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from karenina_core.plugins import Plugins

_HF: Final = "hf:"
_MAPPINGS: Final = (".mapping.yaml", ".yaml", ".yml")


def import_formats(plugins: Plugins) -> list[ImportFormat]:
    """Return the import formats that plugins offer."""
    from karenina_benchmark.formats.format_registry import list_formats

    listed = [one.value for one in list_formats(plugins)]
    offered = [one.load() if isinstance(one, UnloadedFormat) else one for one in listed]
    return [one for one in offered if isinstance(one, ImportFormat)]


def choose_format(formats: Sequence[ImportFormat], key: str) -> ImportFormat:
    """Return the format with this key. Raises `ConfigError` if there is none, or if two plugins offer it."""
    found = [one for one in formats if one.key == key]
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError([f"two plugins offer the format {key!r}: block one of them"])
    keys = [one.key for one in formats]
    raise ConfigError([f"there is no format {key!r}{did_you_mean(key, keys)} All formats: {', '.join(keys)}"])


def detect_format(formats: Sequence[ImportFormat], path: Path) -> ImportFormat:
    """Return the only format that a file has. Raises `ConfigError` if it has none, or could have several.

    Raises `BenchmarkFileError` for YAML or JSON that is not valid.
    """
    from karenina_importing.formats.promptfoo.files import YAML, read_document  # not for completion in a shell

    head = head_of(path)
    fits = {one.key: (one.detect(head), one) for one in formats}
    for least in (Fit.YES, Fit.MAYBE):
        found = [one for fit, one in fits.values() if fit == least]
        if len(found) == 1:
            return found[0]
        if found:
            names = " or ".join(f"{one.key} ({one.name})" for one in found)
            raise ConfigError([f"{path} could be {names}: choose one with --from"])
    if path.suffix.lower() in YAML:
        read_document(path)
    elif path.suffix.lower() in (*LINES, ".json") and head.start.strip() and not head.lines:
        read_json(path)
    known = "; ".join(f"{one.key} ({one.name})" for one in formats)
    raise ConfigError([f"the format of {path} is not known; if it is one of these, choose it with --from: {known}"])


def sources(incomplete: str) -> list[str]:
    """Return completions for SOURCE: files with the suffix of a format, and `hf:` for a dataset by name."""
    from karenina_core.plugins import active_plugins

    of_formats = {suffix for one in import_formats(active_plugins()) for suffix in one.suffixes}
    endings = sorted({*SUFFIXES, *of_formats})
    return [*complete_files(incomplete, endings), *matching([_HF] if incomplete else [], incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return completions for `--from`: the keys of all formats."""
    from karenina_core.plugins import active_plugins

    return matching((one.key for one in import_formats(active_plugins())), incomplete)


def mapped_names(incomplete: str) -> list[str]:
    """Return completions for `--map`: `NAME=` for each name, and `NAME=VALUE` for names with fixed values."""
    from karenina_benchmark.tables.lettered_options import CHOICE_BY
    from karenina_importing.field_mapping import ANSWER_TYPES, NAMES

    fixed = {"answer": ANSWER_TYPES, "choice_by": CHOICE_BY}
    if "=" in incomplete:
        return matching((f"{name}={value}" for name, values in fixed.items() for value in values), incomplete)
    return matching([*(f"{name}=" for name in (*NAMES, *fixed, "answer_pattern")), "metadata."], incomplete)


def mapping_files(incomplete: str) -> list[str]:
    """Return completions for `--map-file`: YAML files."""
    return complete_files(incomplete, _MAPPINGS)
