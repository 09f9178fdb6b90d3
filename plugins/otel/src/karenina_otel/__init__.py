"""OpenTelemetry for Karenina's runs: spans, and an event for each verdict and score. The entry point names `plugin`.

Where it goes is said as for every program with OpenTelemetry, by the variables `OTEL_*`; a program that has set up the
SDK itself keeps its own. Nothing of the SDK is imported by a run that did not ask for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core import VerificationConfig
    from karenina_otel.settings import OtelSettings

__all__ = ["OtelSettings", "plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """What this distribution offers to Karenina."""

    @staticmethod
    @hookimpl
    def karenina_settings() -> list[type[BaseModel]]:
        """Whether runs are traced, and what of them is told."""
        from karenina_otel.settings import OtelSettings

        return [OtelSettings]

    @staticmethod
    @hookimpl
    def karenina_observers(config: VerificationConfig) -> list[object]:
        """What traces a run, where the configuration asks for it. Raises `ConfigError` where an exporter is missing."""
        from karenina_otel.settings import OtelSettings

        settings = config.section(OtelSettings)
        if not settings.otel:
            return []
        from karenina_otel import outlet
        from karenina_otel.observer import RunObserver

        if outlet.disabled():
            return []
        outlet.check()
        return [RunObserver(settings)]


def __getattr__(name: str) -> object:
    if name != "OtelSettings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from karenina_otel.settings import OtelSettings

    return OtelSettings
