"""Drafts answer templates with a model.

Drafts are checked automatically. If a draft fails, the user has to write the template. The entry points refer to
`commands` and `plugin`.
"""

from __future__ import annotations

from karenina_terminal.command_hook import lazy_commands
from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry point's name
    """The plugin that provides this distribution's stage."""

    karenina_extra_stages = offer("karenina_drafting.draft_stage:DraftTemplate")


class commands:  # noqa: N801 - the entry point's name
    """The plugin that adds the `karenina draft` command."""

    karenina_commands = lazy_commands(
        {
            "draft": (
                "karenina_drafting.draft_command:app",
                "Draft a template for each question from its answer, check the drafts, and write them for review.",
            ),
        }
    )
