"""The plugin that adds `karenina import`, and the formats of other tools; the entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

    from karenina_benchmark.format import Format


class plugin:  # noqa: N801 - the entry point's name
    """Adds the command `karenina import`, and offers the formats that it reads."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the command."""
        from karenina_toolkit.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "import",
            "karenina_importing.import_command:app",
            "Convert questions and answers of another tool to a benchmark and recordings. "
            "Nothing in the source is executed.",
        )

    @staticmethod
    @hookimpl
    def karenina_formats() -> Sequence[Format]:
        """Return the formats of other tools."""
        from karenina_importing.builtin_formats import FORMATS

        return FORMATS
