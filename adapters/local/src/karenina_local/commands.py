"""The plugin with `karenina model` and the demo; it is loaded when the command line is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Sequence

    import typer

    from karenina_local.demo import Demo


class commands:  # noqa: N801 - the entry point's name
    """The subcommand `model` of `karenina`, and a demo."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the subcommand before arguments are parsed."""
        from karenina_local.model_command import model_app

        app.add_typer(model_app, name="model")

    @staticmethod
    @hookimpl
    def karenina_demos() -> Sequence[Demo]:
        """Offer the demo of small models."""
        from karenina_local.demo import Demo

        return [Demo()]
