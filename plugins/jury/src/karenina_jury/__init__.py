"""Juries: several judges vote on each answer, and a stronger judge decides if they disagree.

The package's entry point refers to `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_terminal.command_hook import lazy_commands
from karenina_toolkit.lazy_names import offer

if TYPE_CHECKING:
    from karenina_core import VerificationConfig
    from karenina_engine.run.panel import Panel


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations of this distribution."""

    karenina_settings = offer("karenina_jury.votes:JurySettings")
    karenina_report_sections = offer("karenina_jury.page_section:jury_sections")
    karenina_run_notes = offer("karenina_jury.page_section:jury_notes")
    karenina_commands = lazy_commands(
        {
            "jury": (
                "karenina_jury.jury_command:jury",
                "Print how a jury voted: its pass rate, each judge's, their agreement, and what escalation saved.",
            ),
        }
    )

    @staticmethod
    @hookimpl
    def karenina_panel(config: VerificationConfig) -> Panel | None:
        """Return the run's jury, or None if none is configured. Raises `ConfigError` if the jury is misconfigured."""
        from karenina_jury.votes import JurySettings

        jury = config.section(JurySettings).jury
        if jury is None:
            return None
        from karenina_jury.panel import make_panel

        return make_panel(config, jury)
