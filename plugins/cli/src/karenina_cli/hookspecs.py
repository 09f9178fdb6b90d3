"""Command-line hooks: commands, demos, checks of questions, and checks of the machine."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from karenina_core.hooks import hookspec
from karenina_toolkit.hook_policy import HookPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    import typer

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.plugins import Plugins
    from karenina_toolkit.package_check.metadata import Finding

logger = logging.getLogger("karenina")

Level = Literal["error", "warning", "note"]
"""How serious a message of a rehearsal is."""


@runtime_checkable
class Demo(Protocol):
    """A demo with questions and two local models, one to answer them and one to judge. It needs no API key.

    `answering` and `judge` are the names of the default models.
    """

    answering: str
    judge: str

    def get(self, names: Sequence[str], note: Callable[[str], None]) -> None:
        """Download missing models, describing each with `note`. Raises `KareninaError` if a download fails."""

    def questions(self) -> AbstractContextManager[Path]:
        """Return a context manager that yields the path of the benchmark file."""

    def config(self, answering: str, judge: str) -> Mapping[str, Any]:
        """Return the configuration for a run with the given models."""

    def recorded_config(self) -> Mapping[str, Any]:
        """Return the configuration for a run with recorded replies of the default models.

        Raises `KareninaError` if there are no recorded replies.
        """

    def agreement(self, judge: str) -> str:
        """Return a sentence about how often the judge agreed with people, or an empty string if this is not known."""


@runtime_checkable
class Diagnosis(Protocol):
    """A check of what a plugin needs of this machine, without calls or downloads."""

    def findings(self, config: VerificationConfig, plugins: Plugins) -> Iterable[Finding]:
        """Return what was found. `config` is valid."""


@runtime_checkable
class Rehearsal(Protocol):
    """A check of questions by what belongs to them, such as folders and programs. It calls no model."""

    def applies_to(self, question: Question) -> bool:
        """Return whether the question has anything to run. Must be fast."""

    def inspect(
        self, config: VerificationConfig, questions: Collection[Question], trust: Trust
    ) -> Iterable[tuple[tuple[Level, str], str]]:
        """Return messages about the questions, as pairs of a message, which is a level and a text, and the id of its
        question or an empty string.

        `questions` are those that the rehearsal applies to. This is called by `karenina check` with and without
        `--run-checks`. Nothing may be run.
        """

    def unavailable(self, config: VerificationConfig) -> str | None:
        """Return why nothing can be run with this configuration, with a cure, or None. May raise `ConfigError`."""

    async def run(self, config: VerificationConfig, question: Question, trust: Trust) -> Sequence[tuple[Level, str]]:
        """Run what belongs to a question, and return messages, each with its level."""


@hookspec
def karenina_commands(app: typer.Typer) -> None:
    """Add commands to `karenina`. Called once, before the arguments are read.

    Use `karenina_terminal.lazy_commands.add_lazy_command` for a command whose module is imported only when it is
    called.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """


@hookspec
@HookPolicy(stability="provisional")
def karenina_demos() -> Sequence[Demo]:
    """Return demos for `karenina demo`, which runs the first one.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """


@hookspec
@HookPolicy(stability="provisional")
def karenina_rehearsals() -> Sequence[Rehearsal]:
    """Return rehearsals for `karenina check`, with and without `--run-checks`.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """


@hookspec
@HookPolicy(stability="provisional")
def karenina_diagnoses() -> Sequence[Diagnosis]:
    """Return checks of this machine for `karenina doctor`.

    This hook is called for plugins with an entry point in the group `karenina.plugins`, without importing stages or
    adapters.
    """


def offered(plugins: Plugins) -> None:
    """Log a warning about commands added by stages and adapters, which do not work, because stages and adapters are not
    loaded at startup.
    """
    others = {info.distribution for info in plugins.describe() if info.kind == "other"}
    for implementation in plugins.implementations(karenina_commands):
        if implementation.distribution not in others:
            logger.warning(
                "the commands added by %s are not available; declare the plugin that adds them as an entry point "
                "in the group 'karenina.plugins'",
                implementation.distribution,
            )
