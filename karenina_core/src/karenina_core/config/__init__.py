"""The configuration: flat names that users write, each owned by the core or by one plugin.

The core owns what several distributions read; every other name belongs to the settings model of some stage. Values
come, in this order, from arguments, the environment, a file, and the owner's default.
"""

from karenina_core.config.core_settings import CoreSettings, PluginSelection
from karenina_core.config.environment import read_environment, read_value
from karenina_core.config.plugin_lookup import find_adapter, plugins_of, prompt_instructions, registered_adapters
from karenina_core.config.setting_owners import Setting, all_settings, prompt_tasks
from karenina_core.config.verification import VerificationConfig

__all__ = [
    "CoreSettings",
    "PluginSelection",
    "Setting",
    "VerificationConfig",
    "all_settings",
    "find_adapter",
    "plugins_of",
    "prompt_instructions",
    "prompt_tasks",
    "read_environment",
    "read_value",
    "registered_adapters",
]
