"""Find, select, load and register plugins, and relay the hooks. stevedore and pluggy live here and nowhere else.

Failures are data: a plugin that cannot be loaded is listed with its reason, and stops only those who need it.
"""

from karenina_core.plugins.discovery import GROUPS, Kind, PluginInfo, Selection, State, described
from karenina_core.plugins.in_force import current, for_commands, plugins_of, selected, using
from karenina_core.plugins.offers import Plugins
from karenina_core.plugins.registry import STAGE_HOOKS, Offer, PluginError
from karenina_core.plugins.specifications import Hook

__all__ = [
    "GROUPS",
    "STAGE_HOOKS",
    "Hook",
    "Kind",
    "Offer",
    "PluginError",
    "PluginInfo",
    "Plugins",
    "Selection",
    "State",
    "current",
    "described",
    "for_commands",
    "plugins_of",
    "selected",
    "using",
]
