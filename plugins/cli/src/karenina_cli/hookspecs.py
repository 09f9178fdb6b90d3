"""The hooks of the command line: commands, and what `karenina demo` runs."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typer

    from karenina_core.plugins import Plugins

logger = logging.getLogger("karenina")


class Demo(Protocol):
    """Questions, and two models on this machine that need no key: one answers and one judges.

    `answering` and `judge` are the names of those that are taken by default.
    """

    answering: str
    judge: str

    def get(self, names: Sequence[str], note: Callable[[str], None]) -> None:
        """Get those of the models that are not here, and describe each with `note`. Raises `KareninaError`."""

    def questions(self) -> AbstractContextManager[Path]:
        """Return the file of the benchmark, for as long as the context lasts."""

    def config(self, answering: str, judge: str) -> Mapping[str, Any]:
        """Return the configuration of a run with these models."""

    def agreement(self, judge: str) -> str:
        """Return how far the verdicts of this judge agreed with people; an empty text if it was not measured."""


@hookspec
def karenina_commands(app: typer.Typer) -> None:
    """Add commands to the `karenina` command. Called once, before the arguments are read.

    Asked are plugins with an entry point in the group `karenina.plugins`: no stage or adapter is imported for it.
    """


@hookspec
def karenina_demos() -> Sequence[Demo]:
    """Offer what `karenina demo` runs; the first is taken.

    Called for plugins with an entry point in the group `karenina.plugins`: no stage or adapter is imported for it.
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
