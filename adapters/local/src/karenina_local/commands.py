"""The plugin that adds `karenina model` and `karenina demo`; they are loaded when the command line is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hookspecs import hookimpl

if TYPE_CHECKING:
    import typer


class commands:  # noqa: N801 - the entry point's name
    """Adds `model` and `demo` to the `karenina` command."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Called by the command before it reads its arguments."""
        from karenina_local.demo_command import demo
        from karenina_local.model_command import model_app

        app.command("demo")(demo)
        app.add_typer(model_app, name="model")
