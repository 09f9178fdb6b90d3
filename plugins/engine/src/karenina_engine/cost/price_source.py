"""Prices of models: the contract of price lists, and amounts of money without rounding errors.

Money is counted in whole picodollars (10^-12 US dollars), so that the sum of a million small amounts is exact: a price
of 0.15 dollars for a million tokens is 150,000 picodollars per token.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_UP, Decimal
from typing import TYPE_CHECKING, Annotated, Final, Protocol, Self

from pydantic import Field

from karenina_core.models.settings_models import StrictSettings

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage

PICODOLLARS: Final = 10**12
"""Picodollars in a dollar."""

_MILLION: Final = 10**6


def to_picodollars(dollars: Decimal) -> int:
    """Convert dollars to whole picodollars, halves to the even neighbour."""
    return int((dollars * PICODOLLARS).to_integral_value(ROUND_HALF_EVEN))


def to_dollars(picodollars: int) -> Decimal:
    """Convert picodollars to dollars, exactly."""
    return Decimal(picodollars).scaleb(-12)


def format_cost(picodollars: int) -> str:
    """Return an amount as text, with more digits if it is small. `$0` means exactly zero."""
    if not picodollars:
        return "$0"
    amount = to_dollars(picodollars)
    digits = 2 if abs(amount) >= 100 else 4 if abs(amount) >= Decimal("0.01") else 6
    smallest = Decimal(1).scaleb(-digits)
    if abs(amount) < smallest:
        return f"below ${smallest}"
    return f"${amount:,.{digits}f}"


def format_rounded_up(picodollars: int) -> str:
    """Return an amount as text with two digits, rounded up, so that it covers the amount as a budget."""
    amount = to_dollars(picodollars)
    return f"${amount.quantize(Decimal(1).scaleb(max(amount.adjusted() - 1, -6)), ROUND_UP):f}"


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of one token, in picodollars.

    `cached` is the price of an input token that the provider read from its cache, `cache_write` that of one that it
    wrote there, and `reasoning` that of an output token of the model's reasoning. They default to the prices of other
    input and output tokens.
    """

    input: int
    output: int
    cached: int
    cache_write: int
    reasoning: int

    @classmethod
    def per_million(
        cls,
        input: Decimal,
        output: Decimal,
        *,
        cached: Decimal | None = None,
        cache_write: Decimal | None = None,
        reasoning: Decimal | None = None,
    ) -> Self:
        """Return rates from prices in dollars for a million tokens, as providers publish them."""

        def one(price: Decimal | None, otherwise: Decimal) -> int:
            return to_picodollars((otherwise if price is None else price) / _MILLION)

        return cls(
            one(input, input),
            one(output, output),
            one(cached, input),
            one(cache_write, input),
            one(reasoning, output),
        )


@dataclass(frozen=True, slots=True)
class Tariff:
    """The tariff of a model.

    `steps` are other rates for requests with more than so many input tokens, in rising order, which apply to all tokens
    of such a request. `request` is the price of each request apart from its tokens, in picodollars.
    """

    rates: Rates
    steps: tuple[tuple[int, Rates], ...] = ()
    request: int = 0

    def cost(self, usage: Usage) -> int:
        """Return the cost of the usage of one or several requests, in picodollars.

        For requests that were counted together, their average decides the step.
        """
        rates = self.rates
        if self.steps:
            size = usage.input_tokens // max(1, usage.calls)
            for above, others in self.steps:
                if size > above:
                    rates = others
        cached, written, thought = usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens
        cost = rates.input * usage.input_tokens + rates.output * usage.output_tokens
        if cached or written or thought:
            cost += (rates.cached - rates.input) * cached + (rates.cache_write - rates.input) * written
            cost += (rates.reasoning - rates.output) * thought
        return cost + self.request * usage.calls if self.request else cost


FREE: Final = Tariff(Rates(0, 0, 0, 0, 0))
"""The tariff of models that cost nothing."""


_Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]


class OwnPrice(StrictSettings):
    """A price that the user sets for a model, in US dollars for a million tokens.

    Prices that are left out default to those of other input or output tokens.
    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None
    reasoning: _Dollars | None = None

    def tariff(self) -> Tariff:
        """Return the tariff of this price."""
        return Tariff(
            Rates.per_million(
                self.input,
                self.output,
                cached=self.cached,
                cache_write=self.cache_write,
                reasoning=self.reasoning,
            )
        )


class PriceSource(Protocol):
    """A price list of a plugin.

    `name` and `edition` identify the list; both are stored with each run that uses one of its prices. `edition` must
    change whenever a price of the list does.
    """

    name: str

    @property
    def edition(self) -> str:
        """The edition of the list: a version, a date or a digest."""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str] | None:
        """Return the tariff of a model and the list's own name for it; None if the list does not have it.

        `served_by` is the server of the model as its adapter knows it: a base URL (with `://`) or the name of a
        provider; None if it is not known. No request is made.
        """
