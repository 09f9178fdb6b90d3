"""Which plugins a configuration selects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import plugins as plugin_room
from karenina_core.plugins import Selection

if TYPE_CHECKING:
    from karenina_core.config.verification import VerificationConfig
    from karenina_core.plugins import Plugins


def plugins_of(config: VerificationConfig) -> Plugins:
    """Return the plugins under the selection of the configuration; those in force if it selects nothing."""
    chosen = config.core.plugins
    if not (chosen.block or chosen.only or chosen.pick):
        return plugin_room.current()
    return plugin_room.selected(Selection.of(chosen.block, chosen.only, chosen.pick))
