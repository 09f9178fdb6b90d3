"""The values that a shell completes for `karenina import`: files of other tools, formats, and names of the mapping."""

from __future__ import annotations

from karenina_toolkit.completion import complete_files, matching
from karenina_toolkit.files import SUFFIXES

_HF = "hf:"
_MAPPINGS = (".mapping.yaml", ".yaml", ".yml")


def sources(incomplete: str) -> list[str]:
    """Return files that a format could read, and `hf:` for a dataset by name."""
    from karenina_core.plugins import active_plugins
    from karenina_importing.detection import import_formats

    of_formats = {suffix for one in import_formats(active_plugins()) for suffix in one.suffixes}
    endings = sorted({*SUFFIXES, *of_formats})
    return [*complete_files(incomplete, endings), *matching([_HF] if incomplete else [], incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return the keys of the formats of all plugins."""
    from karenina_core.plugins import active_plugins
    from karenina_importing.detection import import_formats

    return matching((one.key for one in import_formats(active_plugins())), incomplete)


def mapped_names(incomplete: str) -> list[str]:
    """Return `NAME=` for each name of a mapping, and `NAME=VALUE` for those with fixed values."""
    from karenina_benchmark.tables.lettered_options import CHOICE_BY
    from karenina_importing.field_mapping import ANSWER_TYPES, NAMES

    fixed = {"answer": ANSWER_TYPES, "choice_by": CHOICE_BY}
    if "=" in incomplete:
        return matching((f"{name}={value}" for name, values in fixed.items() for value in values), incomplete)
    return matching([*(f"{name}=" for name in (*NAMES, *fixed, "answer_pattern")), "metadata."], incomplete)


def mapping_files(incomplete: str) -> list[str]:
    """Return files that could hold a mapping."""
    return complete_files(incomplete, _MAPPINGS)
