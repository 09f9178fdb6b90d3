"""Judge self-tests: answers with known verdicts, and how often a judge gets the verdict wrong.

The entry point is `commands`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import typer

    from karenina_report.page.section import PageRuns, PageSection
    from karenina_report.run_notes import NotedRun, RunNote


class commands:  # noqa: N801 - the entry point's name
    """The plugin that adds the command `karenina selftest`, a report section, and notes on runs."""

    @staticmethod
    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        """Add the command."""
        from karenina_terminal.lazy_commands import add_lazy_command

        add_lazy_command(
            app,
            "selftest",
            "karenina_selftest.selftest_command:app",
            "Test a judge with attacks and honest answers whose verdicts are known, and print how often it is wrong.",
        )

    @staticmethod
    @hookimpl
    def karenina_report_sections() -> Sequence[Callable[[PageRuns], Sequence[PageSection]]]:
        """Offer the report section on self-tests of the judges."""
        from karenina_selftest.store import selftest_sections

        return [selftest_sections]

    @staticmethod
    @hookimpl
    def karenina_run_notes() -> Sequence[Callable[[Sequence[NotedRun]], Sequence[RunNote]]]:
        """Offer the notes on self-tests."""
        from karenina_selftest.store import selftest_notes

        return [selftest_notes]
