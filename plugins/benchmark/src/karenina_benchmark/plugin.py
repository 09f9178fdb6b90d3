"""The plugin that provides the built-in file formats. The entry point is `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from karenina_benchmark.formats.format import Format


class plugin:  # noqa: N801 - the entry point's name
    """The plugin that provides the formats YAML, JSON-LD, JSON lines, CSV, Excel and Parquet."""

    @staticmethod
    @hookimpl
    def karenina_formats() -> list[Format]:
        """Return the built-in formats. Their modules are imported only when this is called."""
        from karenina_benchmark.formats.format_registry import FORMATS

        return list(FORMATS)
