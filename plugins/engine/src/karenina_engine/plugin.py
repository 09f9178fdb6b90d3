"""The plugin of the engine; the entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations of the engine."""

    @staticmethod
    @hookimpl
    def karenina_settings() -> list[type[BaseModel]]:
        """Return the settings of runs: limits, retries, budget and prices, executor and journal."""
        from karenina_engine.settings import EngineSettings

        return [EngineSettings]
