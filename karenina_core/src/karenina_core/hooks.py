"""The markers for hook specifications and implementations, and the version of the plugin interface."""

from __future__ import annotations

from typing import Final

import pluggy

API_VERSION: Final = 1
"""The version of the plugin interface. Plugins with a different `karenina_api` are not loaded."""

PROJECT: Final = "karenina"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)
