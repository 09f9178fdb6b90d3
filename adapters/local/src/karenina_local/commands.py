"""The plugin for `karenina model` and the demo, which is loaded when the command line is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl
from karenina_terminal.command_hook import lazy_commands

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_local.demo import Demo


class commands:  # noqa: N801 - the entry point's name
    """The plugin with the `karenina model` commands and a demo."""

    @staticmethod
    @hookimpl
    def karenina_demos() -> Sequence[Demo]:
        """Return the demo with small models."""
        from karenina_local.demo import Demo

        return [Demo()]

    karenina_commands = lazy_commands(
        {
            "model": (
                "karenina_local.model_command:model_app",
                "Download, list, measure and remove models on this machine.",
            ),
        }
    )
