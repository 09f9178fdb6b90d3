"""The configuration: flat names that users set, each owned by the core or by a single plugin.

The core owns the names read by several distributions; every other name belongs to the settings model of a stage. A
value is taken from the first of these sources that sets it: arguments, the environment, a file, the owner's default.
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
