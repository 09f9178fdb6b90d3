"""Model prices, and the interface for price lists.

Amounts are whole picodollars (10^-12 US dollars), so that sums are exact. A price of 0.15 dollars per million tokens is
150,000 picodollars per token.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_UP, Decimal
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, Protocol, Self, runtime_checkable

from pydantic import Field

from karenina_core.models.settings_models import StrictSettings

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage

PICODOLLARS: Final = 10**12
"""The number of picodollars in a dollar."""

_MILLION: Final = 10**6


def to_picodollars(dollars: Decimal) -> int:
    """Convert dollars to whole picodollars, rounding halves to even."""
    return int((dollars * PICODOLLARS).to_integral_value(ROUND_HALF_EVEN))


def to_dollars(picodollars: int) -> Decimal:
    """Convert picodollars to dollars without rounding."""
    return Decimal(picodollars).scaleb(-12)


def format_cost(picodollars: int) -> str:
    """Return an amount as text. Small amounts get more decimal places, and "$0" means exactly zero. Anything less than
    a millionth of a dollar is shown as "below $0.000001".
    """
    if not picodollars:
        return "$0"
    amount = to_dollars(picodollars)
    digits = 2 if abs(amount) >= 100 else 4 if abs(amount) >= Decimal("0.01") else 6
    smallest = Decimal(1).scaleb(-digits)
    if abs(amount) < smallest:
        return f"below ${smallest}"
    return f"${amount:,.{digits}f}"


def format_rounded_up(picodollars: int) -> str:
    """Return an amount as text, rounded up so that it is sufficient as a budget. The amount has two significant digits
    and at most six decimal places.
    """
    amount = to_dollars(picodollars)
    return f"${amount.quantize(Decimal(1).scaleb(max(amount.adjusted() - 1, -6)), ROUND_UP):f}"


class Rates(NamedTuple):
    """The prices of a single token, in picodollars.

    `cached` and `cache_write` are for input tokens that the provider reads from or writes to its cache, and `reasoning`
    is for output tokens used for reasoning.
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
        """Create rates from prices in dollars per million tokens. `cached` and `cache_write` default to `input`, and
        `reasoning` to `output`.
        """

        def one(price: Decimal | None, otherwise: Decimal) -> int:
            """Return the price per token in picodollars. If `price` is None, `otherwise` is used."""
            return to_picodollars((otherwise if price is None else price) / _MILLION)

        return cls(
            one(input, input),
            one(output, output),
            one(cached, input),
            one(cache_write, input),
            one(reasoning, output),
        )


class Tariff(NamedTuple):
    """A model's tariff.

    `steps` contains pairs of a number of input tokens and rates, in ascending order. Requests with more input tokens
    than that number are charged at these rates. `request` is a fixed price per request, in picodollars.
    """

    rates: Rates
    steps: tuple[tuple[int, Rates], ...] = ()
    request: int = 0

    def cost(self, usage: Usage) -> int:
        """Return the cost of one or more requests, in picodollars, with the fixed price of each. Cached and cache-write
        tokens are part of the input tokens, and reasoning tokens are part of the output tokens. For several requests,
        their average number of input tokens decides which step applies.
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
"""The tariff for models that cost nothing."""


_Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]


class OwnPrice(StrictSettings):
    """A price set by the user for a model, in US dollars per million tokens.

    `cached` and `cache_write` default to `input`, and `reasoning` defaults to `output`.
    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None
    reasoning: _Dollars | None = None

    def tariff(self) -> Tariff:
        """Return the tariff with these prices, which are in US dollars per million tokens."""
        return Tariff(
            Rates.per_million(
                self.input,
                self.output,
                cached=self.cached,
                cache_write=self.cache_write,
                reasoning=self.reasoning,
            )
        )


@runtime_checkable
class PriceSource(Protocol):
    """A price list provided by a plugin.

    `name` and `edition` are stored with each run that uses the list. Change `edition` whenever a price changes.
    """

    name: str

    @property
    def edition(self) -> str:
        """The edition of the list, such as a version, a date or a digest."""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str] | None:
        """Return a model's tariff and the list's own name for the model, or None if the list does not contain it.
        `served_by` is a base URL (containing `://`), the name of a provider, or None if the server is unknown.

        Implementations must not make requests.
        """
