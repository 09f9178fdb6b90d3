"""What the benchmark room itself offers: the formats of its files. The entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from karenina_benchmark.format import Format


class plugin:  # noqa: N801 - the entry point's name
    """Offers YAML, JSON-LD checkpoints, JSON lines, CSV and Excel."""

    @staticmethod
    @hookimpl
    def karenina_formats() -> list[Format]:
        """Return the formats."""
        from karenina_benchmark.builtin_formats import FORMATS

        return list(FORMATS)
