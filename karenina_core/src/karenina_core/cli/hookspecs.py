"""The hook for commands."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from karenina_core.hookspecs import hookspec

if TYPE_CHECKING:
    import typer

    from karenina_core.plugins import Plugins

logger = logging.getLogger("karenina")


@hookspec
def karenina_commands(app: typer.Typer) -> None:
    """Add commands to the `karenina` command. Called once, before the arguments are read.

    Asked are plugins with an entry point in the group `karenina.plugins`: no stage or adapter is imported for it.
    """


def offered(plugins: Plugins) -> None:
    """Warn of commands that the command line does not offer, because it loads no stages and adapters to start."""
    others = {info.distribution for info in plugins.describe() if info.kind == "other"}
    for found in plugins.implementations(karenina_commands):
        if found.distribution not in others:
            logger.warning(
                "%s adds commands, which are not offered: name the plugin that does in its entry points of the "
                "group karenina.plugins",
                found.distribution,
            )
