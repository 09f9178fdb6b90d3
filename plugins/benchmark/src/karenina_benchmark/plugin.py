"""The plugin for the built-in file formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from karenina_benchmark.formats.format import Format


class plugin:  # noqa: N801 - the entry point's name
    """The plugin for the formats YAML, JSON-LD, JSON lines, CSV, Excel and Parquet."""

    @staticmethod
    @hookimpl
    def karenina_formats() -> list[Format]:
        """Return the built-in formats. This imports their modules."""
        from karenina_benchmark.formats.format_registry import FORMATS

        return list(FORMATS)
