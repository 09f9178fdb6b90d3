"""`karenina new`, which writes a package for a plugin, and `karenina init`, which writes a first benchmark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    import typer


class plugin:  # noqa: N801 - the entry point's name
    """The plugin that adds both commands."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the commands `new` and `init`."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "init",
            "karenina_scaffold.commands:init",
            "Write a first benchmark and a configuration, with comments, and the schema with which editors check it.",
        )
        add_lazy_command(
            app,
            "new",
            "karenina_scaffold.commands:new",
            "Write a package for a plugin of your own, which can be installed, works, and has contract tests.",
        )
