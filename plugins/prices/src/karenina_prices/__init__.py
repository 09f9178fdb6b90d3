"""Prices of many providers, from the package genai-prices.

The entry point refers to `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_engine.cost.price_source import PriceSource

__all__ = ["plugin"]


class plugin:  # noqa: N801 - the entry point's name
    """The hook implementations of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_prices() -> list[PriceSource]:
        """Return the price list in the installed release of genai-prices."""
        from karenina_prices.published_prices import PublishedPrices

        return [PublishedPrices()]
