"""The check that a plugin was made for this version of the plugin interface."""

from __future__ import annotations

from karenina_core.hooks import API_VERSION


def version_mismatch(thing: object) -> str | None:
    """Return an error message if a plugin or module was made for another plugin interface version, or None.

    The version is the attribute `karenina_api`; without it, there is no mismatch.
    """
    version = getattr(thing, "karenina_api", API_VERSION)
    differs = f"it requires version {version} of the plugin interface, but this core has version {API_VERSION}"
    return None if version == API_VERSION else differs
