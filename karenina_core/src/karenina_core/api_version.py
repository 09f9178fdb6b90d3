"""Check whether a plugin was made for this version of the plugin interface."""

from __future__ import annotations

from karenina_core.hooks import API_VERSION


def version_mismatch(thing: object) -> str | None:
    """Return an error message if `thing`, a plugin or a module, states in `karenina_api` that it was made for another
    plugin interface version, or None if it states the same version or nothing.
    """
    version = getattr(thing, "karenina_api", API_VERSION)
    differs = f"it requires version {version!r} of the plugin interface, but this core has version {API_VERSION}"
    return None if version == API_VERSION else differs
