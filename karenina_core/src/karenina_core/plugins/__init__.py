"""Discovery, selection, loading and registration of plugins. No other package uses stevedore or pluggy.

Failures are data: a plugin that cannot be loaded is listed with the reason, and only affects runs that need it.
"""

from karenina_core.plugins.discovery import GROUPS, PluginInfo, Selection
from karenina_core.plugins.registry import (
    Offer,
    Plugins,
    active_plugins,
    installed_plugins,
    is_a,
    use_plugins,
)

__all__ = [
    "GROUPS",
    "Offer",
    "PluginInfo",
    "Plugins",
    "Selection",
    "active_plugins",
    "installed_plugins",
    "is_a",
    "use_plugins",
]
