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
_THOUSAND: Final = 1000


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
    is for output tokens used for reasoning. `long_write` is for what the cache keeps for an hour, `audio_input` and
    `audio_output` for sound, and `web_search` for each search by the server; None means that the price is not known.
    """

    input: int
    output: int
    cached: int
    cache_write: int
    reasoning: int
    long_write: int | None = None
    audio_input: int | None = None
    audio_output: int | None = None
    web_search: int | None = None

    @classmethod
    def per_million(
        cls,
        input: Decimal,
        output: Decimal,
        *,
        cached: Decimal | None = None,
        cache_write: Decimal | None = None,
        reasoning: Decimal | None = None,
        long_write: Decimal | None = None,
        audio_input: Decimal | None = None,
        audio_output: Decimal | None = None,
        web_searches: Decimal | None = None,
    ) -> Self:
        """Create rates from prices in dollars per million tokens, and per thousand `web_searches`. `cached` and
        `cache_write` default to `input`, and `reasoning` to `output`. The prices after these are not known by default.
        """

        def one(price: Decimal, per: int = _MILLION) -> int:
            """Return the price of one in picodollars, from that of `per`."""
            return to_picodollars(price / per)

        def known(price: Decimal | None, per: int = _MILLION) -> int | None:
            """Return the price of one as `one` does, or None if it is not known."""
            return None if price is None else one(price, per)

        return cls(
            one(input),
            one(output),
            one(input if cached is None else cached),
            one(input if cache_write is None else cache_write),
            one(output if reasoning is None else reasoning),
            known(long_write),
            known(audio_input),
            known(audio_output),
            known(web_searches, _THOUSAND),
        )

    def extra_cost(self, usage: Usage) -> int | None:
        """Return what the counts that have rates of their own cost more than at the usual rates, in picodollars, or
        None if the rate of one is not known, or if cached tokens may be sound, which costs something else.
        """
        if usage.cached_tokens and usage.audio_input_tokens and self.audio_input != self.input:
            return None
        extra = 0
        for count, rate, usual in (
            (usage.long_write_tokens, self.long_write, self.cache_write),
            (usage.audio_input_tokens, self.audio_input, self.input),
            (usage.audio_output_tokens, self.audio_output, self.output),
            (usage.web_searches, self.web_search, 0),
        ):
            if count and rate is None:
                return None
            extra += count * ((rate or 0) - usual) if count else 0
        return extra


class Tariff(NamedTuple):
    """A model's tariff.

    `steps` contains pairs of a number of input tokens and rates, in ascending order. Requests with more input tokens
    than that number are charged at these rates. `request` is a fixed price per request, in picodollars. `tiers`
    contains the tariffs of service tiers ("flex" or "priority") by name. With `any_tier`, the tariff applies to all.
    """

    rates: Rates
    steps: tuple[tuple[int, Rates], ...] = ()
    request: int = 0
    tiers: tuple[tuple[str, Tariff], ...] = ()
    any_tier: bool = False

    def for_tier(self, tier: str) -> Tariff | None:
        """Return the tariff of a service tier, or None if its prices are not known."""
        return self if self.any_tier else next((tariff for name, tariff in self.tiers if name == tier), None)

    def known_cost(self, usage: Usage) -> int | None:
        """Return the cost of one or more requests, in picodollars, or None if it is not known, because something that
        the usage contains has no price.
        """
        tariff: Tariff | None = self
        if usage.flex_calls or usage.priority_calls:
            of_tiers = {(usage.calls, 0): "flex", (0, usage.calls): "priority"}
            tariff = self.for_tier(of_tiers.get((usage.flex_calls, usage.priority_calls), "several"))
        if tariff is None or usage.unpriced_calls:
            return None
        extra = tariff.rates_for(usage).extra_cost(usage)
        return None if extra is None else tariff.cost(usage) + extra

    def rates_for(self, usage: Usage) -> Rates:
        """Return the rates that apply to one or more requests. For several requests, their average number of input
        tokens decides which step applies.
        """
        rates = self.rates
        if self.steps:
            size = usage.input_tokens // max(1, usage.calls)
            for above, others in self.steps:
                if size > above:
                    rates = others
        return rates

    def cost(self, usage: Usage) -> int:
        """Return the cost of one or more requests at the rates for text, in picodollars, with the fixed price of each.
        Cached and cache-write tokens are part of the input tokens, and reasoning tokens are part of the output tokens.
        """
        rates = self.rates_for(usage)
        cached, written, thought = usage.cached_tokens, usage.cache_write_tokens, usage.reasoning_tokens
        cost = rates.input * usage.input_tokens + rates.output * usage.output_tokens
        if cached or written or thought:
            cost += (rates.cached - rates.input) * cached + (rates.cache_write - rates.input) * written
            cost += (rates.reasoning - rates.output) * thought
        return cost + self.request * usage.calls if self.request else cost


FREE: Final = Tariff(Rates(0, 0, 0, 0, 0, 0, 0, 0, 0), any_tier=True)
"""The tariff for models that cost nothing."""


_Dollars = Annotated[Decimal, Field(ge=0, le=1_000_000, decimal_places=6)]


class OwnPrice(StrictSettings):
    """A price set by the user for a model, in US dollars per million tokens.

    `cached` and `cache_write` default to `input`, `reasoning` defaults to `output`, and `long_write`, for what the
    cache keeps for an hour, to `cache_write`. `audio_input` and `audio_output` are the prices of sound, and default to
    `input` and `output`. `web_searches` is in dollars per thousand searches by the server. The prices apply to all
    service tiers.
    """

    input: _Dollars
    output: _Dollars
    cached: _Dollars | None = None
    cache_write: _Dollars | None = None
    reasoning: _Dollars | None = None
    long_write: _Dollars | None = None
    audio_input: _Dollars | None = None
    audio_output: _Dollars | None = None
    web_searches: _Dollars | None = None

    def tariff(self) -> Tariff:
        """Return the tariff with these prices. If all are 0, nothing costs anything."""
        if not any(self.model_dump().values()):
            return FREE
        written = self.cache_write if self.cache_write is not None else self.input
        return Tariff(
            Rates.per_million(
                self.input,
                self.output,
                cached=self.cached,
                cache_write=self.cache_write,
                reasoning=self.reasoning,
                long_write=self.long_write if self.long_write is not None else written,
                audio_input=self.audio_input if self.audio_input is not None else self.input,
                audio_output=self.audio_output if self.audio_output is not None else self.output,
                web_searches=self.web_searches,
            ),
            any_tier=True,
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
