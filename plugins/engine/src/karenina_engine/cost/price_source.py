"""What a model's tokens cost: the contract of price lists, and sums of money that lose nothing.

Money is counted in whole picodollars (10^-12 US dollars), so that a million small sums are exactly their total: a price
of 0.15 dollars for a million tokens is 150,000 of them a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import TYPE_CHECKING, Annotated, Final, Protocol, Self

from pydantic import Field

from karenina_core.models.strict_settings import StrictSettings

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage

PICODOLLARS: Final = 10**12
"""How many picodollars a dollar has."""

_MILLION: Final = 10**6


def to_picodollars(dollars: Decimal) -> int:
    """A sum in dollars as whole picodollars; half of one goes to the even neighbour."""
    return int((dollars * PICODOLLARS).to_integral_value(ROUND_HALF_EVEN))


def to_dollars(picodollars: int) -> Decimal:
    """A sum in picodollars as dollars, exactly."""
    return Decimal(picodollars).scaleb(-12)


def format_cost(picodollars: int) -> str:
    """A sum as people read it: with more digits where it is small. `$0` is exactly that."""
    if not picodollars:
        return "$0"
    amount = to_dollars(picodollars)
    digits = 2 if abs(amount) >= 100 else 4 if abs(amount) >= Decimal("0.01") else 6
    smallest = Decimal(1).scaleb(-digits)
    if abs(amount) < smallest:
        return f"below ${smallest}"
    return f"${amount:,.{digits}f}"


@dataclass(frozen=True, slots=True)
class Rates:
    """What one token costs, in picodollars.

    `cached` is a token that the provider read from its cache, `cache_write` one that it put there: both are input
    tokens. `reasoning` is an output token that the model thought aloud with. Where the provider has no price of its own
    for these they cost what other input and output tokens cost.
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
        """Rates in dollars for a million tokens, as providers print them."""

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
    """What a model's calls cost.

    `steps` are other rates for requests with more than so many input tokens, in rising order: such a request costs
    them for all of its tokens. `request` is what each request costs beside its tokens, in picodollars.
    """

    rates: Rates
    steps: tuple[tuple[int, Rates], ...] = ()
    request: int = 0

    def cost(self, usage: Usage) -> int:
        """What the usage of one or several requests costs, in picodollars.

        Of several requests that were counted together the average decides about the step.
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
"""The tariff of what costs nothing."""


_Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]


class OwnPrice(StrictSettings):
    """What a model costs as the user says, in US dollars for a million tokens.

    What is left out costs what other input or output tokens cost.
    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None
    reasoning: _Dollars | None = None

    def tariff(self) -> Tariff:
        """The tariff that this is."""
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
    """A list of prices that a plugin brings.

    `name` and `edition` say which list it is; both are stored with each run that took a price from it. `edition` has
    to change whenever a price of the list does.
    """

    name: str

    @property
    def edition(self) -> str:
        """Which edition of the list this is: a version, a date or a digest."""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str] | None:
        """The tariff of a model and the list's own name for it, or None where the list does not have it.

        `served_by` is who serves the model, as its adapter knows it: the base URL of a server (it holds `://`) or the
        name of a provider; None where it is not known. Asks nobody.
        """
