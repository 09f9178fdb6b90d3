"""Self-tests of judges, which measure how often a judge is wrong on answers with known verdicts.

The entry point refers to `commands`.
"""

from __future__ import annotations

from karenina_terminal.command_hook import lazy_commands
from karenina_toolkit.lazy_names import offer


class commands:  # noqa: N801 - the entry point's name
    """The command `karenina selftest`, a section in reports, and notes about runs."""

    karenina_report_sections = offer("karenina_selftest.store:selftest_sections")
    karenina_run_notes = offer("karenina_selftest.store:selftest_notes")
    karenina_commands = lazy_commands(
        {
            "selftest": (
                "karenina_selftest.selftest_command:app",
                "Test a judge with attacks and honest answers whose verdicts are known, and print how often it is "
                "wrong.",
            ),
        }
    )
