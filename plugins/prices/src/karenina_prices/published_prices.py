"""The price list of the installed genai-prices release, converted to tariffs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from importlib.metadata import version
from importlib.resources import files
from typing import TYPE_CHECKING, Final, TypeGuard

from karenina_engine.cost.price_source import FREE, Rates, Tariff, to_picodollars

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, TieredPrices

_AZURE: Final = "azure"
_THOUSAND: Final = 1000
_AUDIO_AS_TEXT: Final = ("google",)
"""Providers that charge sound like text unless the list has a price for it. For others, the list may lack the price."""
_SAME_FLEX: Final = ("groq",)
"""Providers whose service tier "flex" has the usual prices (https://console.groq.com/docs/flex-processing)."""


@dataclass
class PublishedPrices:
    """The price list of genai-prices, in dollars and without individual discounts.

    Some prices only apply from a certain day or at certain hours. `at` is the time for which to look up prices, or None
    for the time of the lookup. A run looks up each model once.
    """

    name: str = "genai-prices"
    at: datetime | None = None

    @cached_property
    def edition(self) -> str:
        """The genai-prices release and a digest of its data, because the release alone is not unique."""
        data = files("genai_prices").joinpath("data.py").read_bytes()
        return f"{version('genai-prices')} (data {hashlib.sha256(data).hexdigest()[:12]})"

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str] | None:
        """Return a model's tariff at the time `at` (by default, now) and its name in the list, or None if the list has
        no price for it at `served_by`, a provider or base URL, or by default the provider that its name suggests. A
        listed model without prices is free if its name ends in ":free".
        """
        from genai_prices.data_snapshot import get_snapshot

        provider_id, url = None, None
        if served_by is not None:
            provider_id, url = (None, served_by) if "://" in served_by else (_provider(served_by), None)
        try:
            provider, model = get_snapshot().find_provider_model(model_name, None, provider_id, url)
        except LookupError:
            return None
        at = self.at if self.at is not None else datetime.now(UTC)
        listed_as = f"{provider.id}/{model.id}"
        tariff = _tariff(model.get_prices(at), audio_is_text=provider.id in _AUDIO_AS_TEXT)
        if tariff is None:
            # No prices can mean that the model is free, or that its price is missing: the name decides.
            return (FREE, listed_as) if model_name.lower().endswith(":free") else None
        tiers = {tier: _tariff_of_tier(model, tier, at) for tier in ("flex", "priority")}
        if provider.id in _SAME_FLEX:
            tiers["flex"] = tariff
        return tariff._replace(tiers=tuple((name, each) for name, each in tiers.items() if each)), listed_as


def _tariff_of_tier(model: ModelInfo, tier: str, at: datetime) -> Tariff | None:
    """Return a model's tariff at a service tier, or None if the list has none for it at the time `at`."""
    listed = [variant for variant in model.price_variants or () if variant.when == {"service_tier": tier}]
    if not any(variant.constraint is None or variant.constraint.active(at) for variant in listed):
        return None
    return _tariff(model.get_prices(at, {"service_tier": tier}), audio_is_text=False)


def _provider(name: str) -> str:
    """Return the name that the list uses for a provider. Names such as `azure_openai` stand for Azure."""
    return _AZURE if name.lower().startswith(_AZURE) else name


def _tariff(price: ModelPrice, *, audio_is_text: bool) -> Tariff | None:
    """Return the tariff for tokens, searches and requests, or None if input or output tokens have no price. With
    `audio_is_text`, sound without a price of its own costs as much as text.
    """
    if price.input_mtok is None or price.output_mtok is None:
        return None
    heard, spoken = price.input_audio_mtok, price.output_audio_mtok
    if audio_is_text:
        heard, spoken = heard or price.input_mtok, spoken or price.output_mtok
    listed = [price.input_mtok, price.output_mtok, price.cache_read_mtok, price.cache_write_mtok]
    listed += [price.output_reasoning_mtok, price.cache_write_1h_mtok, heard, spoken, price.web_searches_kcount]
    starts = sorted({tier.start for tiered in listed if _is_tiered(tiered) for tier in tiered.tiers})
    requests = price.requests_kcount
    return Tariff(
        _rates(listed, 0),
        tuple((start, _rates(listed, start + 1)) for start in starts),
        to_picodollars(_price_at(requests, 0) / _THOUSAND) if requests is not None else 0,
    )


def _is_tiered(price: Decimal | TieredPrices | None) -> TypeGuard[TieredPrices]:
    """Return whether a price depends on the size of the request."""
    return hasattr(price, "tiers")


def _rates(listed: list[Decimal | TieredPrices | None], size: int) -> Rates:
    """Return the rates for `size` input tokens. `listed` contains the prices of all rates, in their order."""
    read, write, cached, cache_write, reasoning, long_write, heard, spoken, searches = (
        _price_at(price, size) if price is not None else None for price in listed
    )
    assert read is not None
    assert write is not None
    return Rates.per_million(
        read,
        write,
        cached=cached,
        cache_write=cache_write,
        reasoning=reasoning,
        long_write=long_write,
        audio_input=heard,
        audio_output=spoken,
        web_searches=searches,
    )


def _price_at(price: Decimal | TieredPrices, size: int) -> Decimal:
    """Return the price for `size` input tokens. A tier only applies above its start."""
    if isinstance(price, Decimal):
        return price
    rate: Decimal = price.base
    for tier in price.tiers:
        if size > tier.start:
            rate = tier.price
    return rate
