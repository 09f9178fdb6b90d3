"""What the engine itself offers to Karenina. The entry point names `plugin`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookimpl

if TYPE_CHECKING:
    from pydantic import BaseModel


class plugin:  # noqa: N801 - the entry point's name
    """What the engine offers."""

    @staticmethod
    @hookimpl
    def karenina_settings() -> list[type[BaseModel]]:
        """Return the settings of runs: limits, retries, money, and where and how the work is done."""
        from karenina_engine.scheduling.settings import EngineSettings

        return [EngineSettings]
