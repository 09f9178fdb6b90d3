"""Prices of many providers, taken from the genai-prices package.

The entry point refers to `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_engine.cost.price_source import PriceSource

__all__ = ["plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations that this distribution provides."""

    @staticmethod
    @hookimpl
    def karenina_prices() -> list[PriceSource]:
        """Return the price list of the installed genai-prices release."""
        from karenina_prices.published_prices import PublishedPrices

        return [PublishedPrices()]
