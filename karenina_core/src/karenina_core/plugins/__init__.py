"""Find, select, load and register plugins, and relay the hooks. stevedore and pluggy live here and nowhere else.

Failures are data: a plugin that cannot be loaded is listed with its reason, and stops only those who need it.
"""

from karenina_core.plugins.active import active_plugins, command_plugins, installed_plugins, use_plugins
from karenina_core.plugins.discovery import GROUPS, PluginInfo, Selection
from karenina_core.plugins.registry import Offer, Plugins
from karenina_core.plugins.specifications import Hook

__all__ = [
    "GROUPS",
    "Hook",
    "Offer",
    "PluginInfo",
    "Plugins",
    "Selection",
    "active_plugins",
    "command_plugins",
    "installed_plugins",
    "use_plugins",
]
