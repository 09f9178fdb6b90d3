"""`karenina new`, which writes packages for plugins, and `karenina init`, which writes a first benchmark."""

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
        """Add the commands, without loading the templates."""
        from karenina_scaffold.init_command import init
        from karenina_scaffold.new_command import new

        app.command("init")(init)
        app.command("new")(new)
