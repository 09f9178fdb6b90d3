"""Juries: several judges vote on an answer, and a stronger judge decides if they disagree.

The entry point names `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import typer
    from pydantic import BaseModel

    from karenina_core import VerificationConfig
    from karenina_engine.run.panel import Panel
    from karenina_report.page.section import PageRuns, PageSection
    from karenina_report.run_notes import NotedRun, RunNote


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_settings() -> list[type[BaseModel]]:
        """Return the settings class that defines `jury`."""
        from karenina_jury.votes import JurySettings

        return [JurySettings]

    @staticmethod
    @hookimpl
    def karenina_panel(config: VerificationConfig) -> Panel | None:
        """Return the jury of a run; None if none is configured. Raises `ConfigError` if the jury cannot vote."""
        from karenina_jury.votes import JurySettings

        jury = config.section(JurySettings).jury
        if jury is None:
            return None
        from karenina_jury.panel import make_panel

        return make_panel(config, jury)

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the command `karenina jury`."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "jury",
            "karenina_jury.jury_command:jury",
            "Print how a jury voted: its pass rate beside that of each judge, their agreement, "
            "and what escalation saved.",
        )

    @staticmethod
    @hookimpl
    def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        """Return the function that makes the report section on juries."""
        from karenina_jury.page_section import jury_sections

        return [jury_sections]

    @staticmethod
    @hookimpl
    def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
        """Return the function that makes the notes on juries."""
        from karenina_jury.page_section import jury_notes

        return [jury_notes]
