"""Chooses or detects the format of a file from another tool, and provides shell completions."""

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
    """Return the import formats provided by plugins, all of which are loaded for this."""
    from karenina_benchmark.formats.format_registry import list_formats

    values = [offer.value for offer in list_formats(plugins)]
    formats = [value.load() if isinstance(value, UnloadedFormat) else value for value in values]
    return [import_format for import_format in formats if isinstance(import_format, ImportFormat)]


def choose_format(formats: Sequence[ImportFormat], key: str) -> ImportFormat:
    """Return the format called `key`. Raises `ConfigError` if there is none, or if it is ambiguous."""
    matches = [import_format for import_format in formats if import_format.key == key]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ConfigError([f"more than one plugin provides the format {key!r}; block all but one of them"])
    keys = [import_format.key for import_format in formats]
    raise ConfigError([f"unknown format {key!r}{did_you_mean(key, keys, '.')} Choose one of {', '.join(keys)}"])


def detect_format(formats: Sequence[ImportFormat], path: Path) -> ImportFormat:
    """Detect the format of a file. Formats that match for certain are preferred to formats that may match. Raises
    `ConfigError` if none or several match, and `BenchmarkFileError` for YAML or JSON that is invalid or consists of
    columns.
    """
    from karenina_benchmark.errors import BenchmarkFileError
    from karenina_benchmark.tables.table_reader import COLUMNS_NOT_ROWS, has_columns
    from karenina_importing.formats.promptfoo.files import YAML, read_document  # not for completion in a shell

    head = head_of(path)
    fits = {import_format.key: (import_format.detect(head), import_format) for import_format in formats}
    for least in (Fit.YES, Fit.MAYBE):
        fitting = [import_format for fit, import_format in fits.values() if fit == least]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            names = " or ".join(f"{import_format.key} ({import_format.name})" for import_format in fitting)
            raise ConfigError([f"{path} could be {names}; choose one with --from"])
    if has_columns(head.document):
        raise BenchmarkFileError(path, "", *COLUMNS_NOT_ROWS)
    if path.suffix.lower() in YAML:
        read_document(path)
    elif path.suffix.lower() in (*LINES, ".json") and head.start.strip() and not head.lines:
        read_json(path)
    choices = "; ".join(f"{import_format.key} ({import_format.name})" for import_format in formats)
    table = "" if path.suffix.lower() in SUFFIXES else " If it is a table, save it as .csv, .xlsx, .jsonl or .parquet."
    what = f"cannot detect the format of {path}.{table} If the format is one of the following, choose it with --from"
    raise ConfigError([f"{what}: {choices}"])


def sources(incomplete: str) -> list[str]:
    """Return completions for SOURCE: files with the suffix of a format, and `hf:` for a dataset by name."""
    from karenina_core.plugins import active_plugins

    of_formats = {suffix for import_format in import_formats(active_plugins()) for suffix in import_format.suffixes}
    endings = sorted({*SUFFIXES, *of_formats})
    return [*complete_files(incomplete, endings), *matching([_HF] if incomplete else [], incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return completions for `--from`, which are the keys of all formats."""
    from karenina_core.plugins import active_plugins

    return matching((import_format.key for import_format in import_formats(active_plugins())), incomplete)


def mapped_names(incomplete: str) -> list[str]:
    """Return completions for `--map`: `NAME=` for each name, and `NAME=VALUE` for names with fixed values."""
    from karenina_benchmark.tables.lettered_options import CHOICE_BY
    from karenina_importing.field_mapping import ANSWER_TYPES, NAMES

    fixed = {"answer": ANSWER_TYPES, "choice_by": CHOICE_BY}
    if "=" in incomplete:
        return matching((f"{name}={value}" for name, values in fixed.items() for value in values), incomplete)
    return matching([*(f"{name}=" for name in (*NAMES, *fixed, "answer_pattern")), "metadata."], incomplete)


def mapping_files(incomplete: str) -> list[str]:
    """Return completions for `--map-file`, which are YAML files."""
    return complete_files(incomplete, _MAPPINGS)
