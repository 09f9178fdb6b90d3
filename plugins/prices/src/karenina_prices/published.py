"""The prices that the installed release of genai-prices carries, as tariffs."""

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
    from genai_prices.types import ModelPrice, TieredPrices

_AZURE: Final = "azure"
_THOUSAND: Final = 1000


@dataclass
class PublishedPrices:
    """The list of genai-prices: what providers publish, in dollars, without discounts of anybody's own.

    `at` is the time whose prices are meant, now where it is None: prices that begin on a day, or hold for hours of the
    day, are those of that time. It is looked at when a model is looked up, which a run does once.
    """

    name: str = "genai-prices"
    at: datetime | None = None

    @cached_property
    def edition(self) -> str:
        """The release, and the digest of the prices in it: the release alone does not say what was unpacked."""
        data = files("genai_prices").joinpath("data.py").read_bytes()
        return f"{version('genai-prices')} (data {hashlib.sha256(data).hexdigest()[:12]})"

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str] | None:
        """The tariff of the model at this provider; where the provider is not known, of the one whose name it has."""
        from genai_prices.data_snapshot import get_snapshot

        provider_id, url = None, None
        if served_by is not None:
            provider_id, url = (None, served_by) if "://" in served_by else (_provider(served_by), None)
        try:
            provider, model = get_snapshot().find_provider_model(model_name, None, provider_id, url)
        except LookupError:
            return None
        at = self.at if self.at is not None else datetime.now(UTC)
        known = f"{provider.id}/{model.id}"
        tariff = _tariff(model.get_prices(at))
        if tariff is None:
            # An empty list of prices means that there is none, or that nobody wrote it down: the name tells.
            return (FREE, known) if model_name.lower().endswith(":free") else None
        return tariff, known


def _provider(name: str) -> str:
    """The provider's name as the list knows it: LangChain's `azure_openai` and `azure_ai` are not OpenAI's own."""
    return _AZURE if name.lower().startswith(_AZURE) else name


def _tariff(price: ModelPrice) -> Tariff | None:
    """The tariff of what is charged for text; None where input or output has no price."""
    if price.input_mtok is None or price.output_mtok is None:
        return None
    listed = [price.input_mtok, price.output_mtok, price.cache_read_mtok, price.cache_write_mtok]
    listed.append(price.output_reasoning_mtok)
    starts = sorted({tier.start for one in listed if _is_tiered(one) for tier in one.tiers})
    requests = price.requests_kcount
    return Tariff(
        _rates(listed, 0),
        tuple((start, _rates(listed, start + 1)) for start in starts),
        to_picodollars(_at(requests, 0) / _THOUSAND) if requests is not None else 0,
    )


def _is_tiered(price: Decimal | TieredPrices | None) -> TypeGuard[TieredPrices]:
    return hasattr(price, "tiers")


def _rates(listed: list[Decimal | TieredPrices | None], size: int) -> Rates:
    """The rates of a request of so many input tokens."""
    read, write, cached, cache_write, reasoning = (_at(one, size) if one is not None else None for one in listed)
    assert read is not None
    assert write is not None
    return Rates.per_million(read, write, cached=cached, cache_write=cache_write, reasoning=reasoning)


def _at(price: Decimal | TieredPrices, size: int) -> Decimal:
    if isinstance(price, Decimal):
        return price
    found: Decimal = price.base
    for tier in price.tiers:
        if size > tier.start:
            found = tier.price
    return found
