"""The commands `karenina new`, for writing a plugin, and `karenina init`, for a first benchmark."""

from __future__ import annotations

from karenina_terminal.command_hook import lazy_commands


class plugin:  # noqa: N801 - the entry point's name
    """The plugin that adds both commands."""

    karenina_commands = lazy_commands(
        {
            "init": (
                "karenina_scaffold.commands:init",
                "Write a first benchmark and a configuration, with comments, and a schema for editors to check the "
                "benchmark.",
            ),
            "new": (
                "karenina_scaffold.commands:new",
                "Write a package for a plugin of your own with contract tests, or a task for coding agents.",
            ),
        }
    )
