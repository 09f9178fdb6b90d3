"""OpenTelemetry for runs: spans, and an event for each verdict and score.

As usual, the `OTEL_*` environment variables configure the destination. If the program has set up the SDK itself, that
setup is used. The SDK is only imported by runs with `otel = true`. The entry point refers to `plugin`.
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
    """The hook implementations that this distribution provides."""

    @staticmethod
    @hookimpl
    def karenina_settings() -> list[type[BaseModel]]:
        """Return the tracing settings."""
        from karenina_otel.settings import OtelSettings

        return [OtelSettings]

    @staticmethod
    @hookimpl
    def karenina_observers(config: VerificationConfig) -> list[object]:
        """Return a list with the observer that traces a run, or an empty one if `otel` is off or the SDK is disabled.
        The SDK is disabled by `OTEL_SDK_DISABLED`. Raises `ConfigError` if an exporter is not installed.
        """
        from karenina_otel.settings import OtelSettings

        settings = config.section(OtelSettings)
        if not settings.otel:
            return []
        from karenina_otel import telemetry
        from karenina_otel.observer import RunObserver

        if telemetry.is_disabled():
            return []
        telemetry.check_exporters()
        return [RunObserver(settings)]


def __getattr__(name: str) -> object:
    if name != "OtelSettings":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from karenina_otel.settings import OtelSettings

    return OtelSettings
