"""Karenina plugin for prices: the public ones of many providers, as genai-prices collects them. It asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_engine.cost.price_source import PriceSource

__all__ = ["plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """What this distribution offers to Karenina."""

    @staticmethod
    @hookimpl
    def karenina_prices() -> list[PriceSource]:
        """The list that the installed release of genai-prices carries."""
        from karenina_prices.published import PublishedPrices

        return [PublishedPrices()]
