"""The configuration: flat names that users write, each owned by the core or by one plugin.

The core owns what several distributions read; every other name belongs to the settings model of some stage. Values
come, in this order, from arguments, the environment, a file, and the owner's default.
"""

from karenina_core.config.core import CoreSettings, PluginSelection
from karenina_core.config.environment import from_environment, read_value
from karenina_core.config.names import Setting, prompt_tasks, settings
from karenina_core.config.plugins import adapter_named, offered_adapters, plugins_of, prompt_instructions
from karenina_core.config.verification import VerificationConfig

__all__ = [
    "CoreSettings",
    "PluginSelection",
    "Setting",
    "VerificationConfig",
    "adapter_named",
    "from_environment",
    "offered_adapters",
    "plugins_of",
    "prompt_instructions",
    "prompt_tasks",
    "read_value",
    "settings",
]
