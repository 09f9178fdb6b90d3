"""The names that installed plugins offer, which a new plugin of the same kind cannot have."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from karenina_core import plugins
from karenina_core.errors import ConfigError

if TYPE_CHECKING:
    from karenina_scaffold.kinds import PluginKind
    from karenina_scaffold.names import Names


def check_not_offered(kind: PluginKind, names: Names) -> None:
    """Raise `ConfigError` if an installed plugin offers something of this kind with the name."""
    name = names.suffix if kind.name == "format" else names.class_name
    if name in _offered(kind):
        raise ConfigError([f"an installed plugin has the {kind.name} {name!r} already: choose another name"])


def _offered(kind: PluginKind) -> Collection[str]:
    installed = plugins.active_plugins()
    if kind.group == "karenina.stages":
        return {one.value.name for one in installed.of_kind("stage")}
    if kind.name != "format":
        return ()  # their names begin with the package, which is new
    from karenina_benchmark.format_registry import list_formats

    return {suffix for one in list_formats(installed) for suffix in one.value.suffixes}
