"""The configuration: flat names that users set, each owned by the core or a plugin.

The core owns the settings that several distributions read. All others belong to a stage's settings model. A value is
taken from the arguments, the environment, a file, or the owner's default, in this order.
"""

from karenina_core.config.setting_owners import (
    CoreSettings,
    PluginSelection,
    Setting,
    all_settings,
    flatten_settings,
    prompt_tasks,
    read_environment,
    read_value,
    translate_settings,
)
from karenina_core.config.verification import VerificationConfig

__all__ = [
    "CoreSettings",
    "PluginSelection",
    "Setting",
    "VerificationConfig",
    "all_settings",
    "flatten_settings",
    "prompt_tasks",
    "read_environment",
    "read_value",
    "translate_settings",
]
