"""The run engine: model calls, costs, the journal, runs and their checks, offline work without calls, and results.

The entry point names `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel


class plugin:  # noqa: N801 - the entry point's name
    """The engine's hook implementations."""

    @staticmethod
    @hookimpl
    def karenina_settings() -> list[type[BaseModel]]:
        """Return the run settings: limits, retries, budget and prices, executor and journal."""
        from karenina_engine.settings import EngineSettings

        return [EngineSettings]
