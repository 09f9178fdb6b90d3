"""Find the panel of judges of a run among the plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.errors import ConfigError
from karenina_engine.scheduling.hookspecs import karenina_panel

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.scheduling.panel import Panel


def find_panel(plugins: Plugins, config: VerificationConfig) -> Panel | None:
    """Return the panel of a run under `config`; None if each judge is asked for itself.

    Raises `ConfigError` for several panels, and the `KareninaError` with which a plugin refuses the configuration.
    """
    offers = plugins.implementations(karenina_panel)
    found = [(one.distribution, panel) for one in offers if (panel := one.value(config=config)) is not None]
    if len(found) > 1:
        names = " and ".join(distribution for distribution, _ in found)
        raise ConfigError([f"a run can have one panel of judges, and {names} offer one each: configure only one"])
    return found[0][1] if found else None
