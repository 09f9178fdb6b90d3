"""The hook `karenina_commands` for plugins with lazy commands, and the plugins that implement it.

Importing this module does not import typer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl
from karenina_core.plugins import PluginInfo, Plugins, active_plugins

if TYPE_CHECKING:
    import typer


def command_plugins() -> Plugins:
    """Return the plugins that may add commands: those of a `use_plugins` block, or else those installed. To keep the
    command line fast, stages and adapters are not imported.
    """
    return active_plugins(("other",))


def failed_commands(plugins: Plugins) -> Iterator[PluginInfo]:
    """Yield the plugins that `plugins` lists as loaded, but whose commands could not be added, each with the reason."""
    loaded = {(info.name, info.distribution) for info in plugins.describe() if info.state == "loaded"}
    for info in command_plugins().describe():
        if info.state == "failed" and (info.name, info.distribution) in loaded:
            yield info


def lazy_commands(commands: Mapping[str, tuple[str, str]]) -> staticmethod[[typer.Typer], None]:
    """Return an implementation of the hook `karenina_commands`, as an attribute for a plugin class. It adds commands
    that are only imported when needed. `commands` maps each name to a location, in the form `module:object`, and a
    summary.

    This function is for internal use. Other plugins implement the hook with `hookimpl` and call `add_lazy_command`.
    """

    @hookimpl
    def karenina_commands(app: typer.Typer) -> None:
        from karenina_terminal.lazy_commands import add_lazy_command

        for name, (target, summary) in commands.items():
            add_lazy_command(app, name, target, summary)

    return staticmethod(karenina_commands)
