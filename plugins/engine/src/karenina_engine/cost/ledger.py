"""The cost of calls: the prices of models, and a ledger of calls, tokens and costs.

Prices come from the user or from price lists. The ledger has one line for each model, stage and judge.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

from karenina_core.errors import PluginError, type_and_message
from karenina_core.models.ports import Usage
from karenina_engine.cost.hookspecs import karenina_prices
from karenina_engine.cost.price_source import FREE, OwnPrice, PriceSource, Tariff, format_cost, to_dollars
from karenina_toolkit.http.urls import is_local, redact_url
from karenina_toolkit.plugin_lookup import find_adapter
from karenina_toolkit.traces.token_counts import service_tier

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import CallRecord

logger = logging.getLogger("karenina")


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model. `why` states where the price comes from, or why it is unknown.

    If the price is unknown, `tariff` is None. If `assumed` is set, the price may be wrong, because a server on
    localhost may forward calls to a paid provider. `listed` states that the price is from a list. `expected` is the
    tariff for estimates, which depends on the service tier and the lifetime of the cache that the model's configuration
    asks for.
    """

    tariff: Tariff | None
    why: str
    assumed: bool = False
    listed: bool = False
    expected: Tariff | None = None


def list_price_sources(plugins: Plugins) -> list[PriceSource]:
    """Return the installed price lists, sorted by name. If a plugin offers something else, a warning is logged."""
    earlier = plugins.describe()
    sources: list[PriceSource] = []
    for offer in plugins.offers(karenina_prices, PriceSource):
        name: object = offer.value.name
        if isinstance(name, str):
            sources.append(offer.value)
        else:
            what = f"the name of {type(offer.value).__name__} must be a string, not {name!r:.80}"
            plugins.reject(offer, TypeError(what))
    for info in plugins.describe():
        if info.state == "failed" and info not in earlier:
            logger.warning("the price list of %s %s is not used: %s", info.distribution, info.version, info.failure)
    return sorted(sources, key=lambda source: source.name)


@dataclass(slots=True)
class PriceTable:
    """The prices of models. Each price is looked up only once.

    `own` contains the user's prices, by model id or by the provider's name for the model. They take precedence.
    Otherwise, recordings and local models are free, and other models get their price from the first list that contains
    them. An unknown price is never treated as zero.
    """

    plugins: Plugins
    own: Mapping[str, OwnPrice] = field(default_factory=dict)
    _sources: list[PriceSource] | None = None
    _editions: dict[str, str] = field(default_factory=dict)
    _found: dict[int, tuple[ModelConfig, Price]] = field(default_factory=dict)

    def price(self, model: ModelConfig) -> Price:
        """Return the price of the model, which is unknown (with a reason) if no list has it. It is looked up once for
        each model object.
        """
        entry = self._found.get(id(model))
        if entry is None:
            price = self._find(model)
            if price.tariff is not None:
                price = replace(price, expected=_expected_tariff(price.tariff, model))
            entry = self._found[id(model)] = model, price
        return entry[1]

    def is_free(self, model: ModelConfig) -> bool:
        """Return whether the model is recorded or local, without a price set by the user."""
        spec = find_adapter(self.plugins, model.interface).spec
        return (spec.recorded or spec.free) and not self.own.keys() & {model.id, model.model_name}

    def snapshot(self) -> dict[str, Any]:
        """Return the prices used so far and their sources, as JSON-compatible data."""
        models: dict[str, Any] = {}
        for model, price in self._found.values():
            rates = price.tariff.rates if price.tariff is not None else None
            models[f"{model.id} ({model.display_string})"] = {
                "from": price.why,
                "known": rates is not None,
                "usd_per_million_tokens": None
                if rates is None
                else {
                    "input": rates.input / 10**6,
                    "output": rates.output / 10**6,
                    "cached": rates.cached / 10**6,
                    "cache_write": rates.cache_write / 10**6,
                    "reasoning": rates.reasoning / 10**6,
                },
                "steps": len(price.tariff.steps) if price.tariff is not None else 0,
            }
        return {"lists": dict(self._editions), "models": models}

    def _find(self, model: ModelConfig) -> Price:
        """Return the price of a model: the user's own price, by id or name; otherwise, zero for recorded models and
        those on this machine, or the price in the first list that contains it. If there is none, a server on localhost
        is assumed to be free unless the user has set any prices; otherwise, the result has no tariff, and its text says
        how to set one. Raises `PluginError` if a list or the model's adapter fails.
        """
        for name in (model.id, model.model_name):
            if name in self.own:
                return Price(self.own[name].tariff(), f"your own price for {name!r}")
        spec = find_adapter(self.plugins, model.interface).spec
        if spec.recorded:
            return Price(FREE, "free because its answers are recorded")
        if spec.free:
            return Price(FREE, "free because it runs on this machine")
        configured = model.endpoint_base_url or model.model_provider
        server = configured
        if spec.served_by is not None:
            try:
                server = spec.served_by(model)
            except Exception as error:
                why = type_and_message(error)
                raise PluginError(f"served_by() of the adapter {model.interface!r} failed: {why}") from error
        if self._sources is None:
            self._sources = list_price_sources(self.plugins)
        for source in self._sources:
            listed = _look_up(source, model.model_name, server)
            if listed is not None:
                edition = self._editions[source.name] = source.edition
                return Price(listed[0], f"{source.name} {edition}: {listed[1]}", listed=True)
        own = f"prices.{model.id} = {{input = ..., output = ...}}"
        if server and not self.own and is_local(server):
            why = "assumed to be free because its server is on localhost; if the server forwards to a paid provider, "
            why += f"set {own}"
            return Price(FREE, why, assumed=True)
        where = f" at {redact_url(server) if '://' in server else server}" if server else ""
        lists = " or ".join(source.name for source in self._sources)
        problem = f"{lists} has no price for {model.model_name!r}{where}" if lists else "no price list is installed"
        return Price(
            None,
            f"unknown because {problem}; set a price, in US dollars per million tokens, in the configuration file: "
            f"{own}",
        )


def _expected_tariff(tariff: Tariff, model: ModelConfig) -> Tariff:
    """Return the tariff of the service tier that the model's configuration asks for, if its price is known, otherwise
    `tariff`. If it asks for a cache that lasts an hour, this determines the price of what is written to it.
    """
    for name in ("body", "parameters"):
        added = model.extra.get(name)
        if isinstance(added, Mapping):
            tariff = tariff.for_tier(service_tier(added.get("service_tier"))) or tariff
    long = tariff.rates.long_write
    if model.extra.get("prompt_caching") == "1h" and long is not None:
        tariff = tariff._replace(rates=tariff.rates._replace(cache_write=long))
    return tariff


def _look_up(source: PriceSource, model_name: str, server: str | None) -> tuple[Tariff, str] | None:
    """Return a model's tariff in a price list and the list's name for it, or None if the list does not contain it.
    Raises `PluginError` if the list fails, or returns something else or a negative price.
    """
    try:
        listed = source.tariff(model_name, server)
        if listed is not None:
            returned: object = listed
            if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], Tariff)):
                raise TypeError(f"tariff() must return (Tariff(...), name) or None, not {returned!r:.80}")
            edition: object = source.edition
            if not isinstance(edition, str):
                raise TypeError(f"edition must be a string, not {edition!r:.80}")
            tariff, _ = listed
            for each in (tariff, *(tier for _, tier in tariff.tiers)):
                rates = (each.request, *each.rates, *(rate for _, step in each.steps for rate in step))
                if any(rate is not None and rate < 0 for rate in rates):
                    raise ValueError("a price is below 0")
    except Exception as error:
        raise PluginError(
            f"the price list {source.name!r} has no usable price for {model_name!r}: {type_and_message(error)}; set "
            "the price in the configuration file, or block the list's plugin with [plugins] block"
        ) from error
    return listed


_BILLIONTH: Final = 1000  # of a dollar, in picodollars
_INPUT_TOKEN: Final = Usage(input_tokens=1)
_OUTPUT_TOKEN: Final = Usage(output_tokens=1)
UNKNOWN_COST: Final = "unknown"
"""The text that is shown for an unknown cost. It is never shown as zero."""


@dataclass(slots=True)
class SpendCounts:
    """The number of calls with a reply, their tokens, and their cost in picodollars.

    `unpriced` is the number of calls of unknown cost. They are not included in `cost`.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: int = 0
    unpriced: int = 0

    def add(self, usage: Usage, cost: int | None) -> None:
        """Add the usage and cost of one or more calls, in place. If the cost is None (unknown), the calls are counted
        as unpriced.
        """
        self.calls += usage.calls
        self.input_tokens += usage.input_tokens
        self.cached_tokens += usage.cached_tokens
        self.cache_write_tokens += usage.cache_write_tokens
        self.output_tokens += usage.output_tokens
        self.reasoning_tokens += usage.reasoning_tokens
        if cost is None:
            self.unpriced += usage.calls
        else:
            self.cost += cost

    def merge(self, other: SpendCounts) -> None:
        """Add the counts from `other` to these counts."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    @property
    def known(self) -> bool:
        """Whether the whole cost is known."""
        return not self.unpriced

    def format_cost(self) -> str:
        """Return the cost as text. If only part of it is known, the text says "at least". It may also be "unknown"."""
        if self.known:
            return format_cost(self.cost)
        return f"at least {format_cost(self.cost)}" if self.unpriced < self.calls or self.cost else UNKNOWN_COST

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON-compatible data. `cost_usd` is None if the cost is unknown, and a lower bound if
        only part of it is known.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in COUNTED if name != "cost"}
        nothing = self.unpriced and self.unpriced >= self.calls and not self.cost
        return {**values, "cost_usd": None if nothing else float(to_dollars(self.cost))}


COUNTED: Final = tuple(count.name for count in fields(SpendCounts))


@dataclass(slots=True)
class LedgerLine:
    """A line in a ledger, for one model, stage and judge.

    `judge` is empty for calls that all judges of an answer share. `spent` counts the calls made by this run, and
    `cached` counts replies that were reused. The cost of a reused reply is the amount that the call would have cost.
    """

    model: str
    interface: str
    model_name: str
    stage: str
    judge: str
    spent: SpendCounts = field(default_factory=SpendCounts)
    cached: SpendCounts = field(default_factory=SpendCounts)

    @property
    def names(self) -> tuple[str, str, str, str, str]:
        """The key of the line: model id, interface, model name, stage and judge."""
        return (self.model, self.interface, self.model_name, self.stage, self.judge)


@dataclass(slots=True)
class Ledger:
    """The ledger of a run.

    `before` contains the lines from earlier runs with the same journal. `free` is True if all models are free.
    """

    prices: PriceTable
    before: list[LedgerLine] = field(default_factory=list)
    free: bool = False
    changed: dict[int, LedgerLine] = field(default_factory=dict)
    """The lines with calls that are not in the journal yet, by the lines' `id()`."""
    on_call: Callable[[], None] | None = None
    """A function to call after a call has been recorded."""
    _lines: dict[tuple[int, str, str], LedgerLine] = field(default_factory=dict)
    _by_names: dict[tuple[str, str, str, str, str], LedgerLine] = field(default_factory=dict)

    def record_call(self, call: CallRecord, usage: Usage, *, is_blank: bool = False) -> int | None:
        """Record a call that was made. Returns its cost in picodollars, or None if the cost is not known."""
        line = self.line(call)
        cost = self.cost(call, usage, is_blank=is_blank)
        line.spent.add(usage, cost)
        self.changed[id(line)] = line
        if self.on_call is not None:
            self.on_call()
        return cost

    def record_cached(self, call: CallRecord, usage: Usage, *, is_blank: bool = False) -> None:
        """Record a call that was answered by a stored reply or by the reply to an identical call."""
        self.line(call).cached.add(usage, self.cost(call, usage, is_blank=is_blank))

    def cost(self, call: CallRecord, usage: Usage, *, is_blank: bool = False) -> int | None:
        """Return the cost, in picodollars, of a call with the given usage, or None if it is not known, because the
        model, its service tier or something that the usage contains has no price, or because the server counted no
        input or no output tokens although they have a price. A reply that `is_blank` has no output tokens. A cost that
        the provider states takes precedence over the prices of lists, but not over those of the user if these suffice.
        """
        price = self.prices.price(call.endpoint.model)
        tariff = price.tariff
        if usage.stated_cost and (tariff is None or price.assumed or price.listed):
            return usage.stated_cost * _BILLIONTH
        if tariff is None:
            return None
        if tariff is FREE:
            return 0
        if not usage.input_tokens and tariff.cost(_INPUT_TOKEN):
            return None
        if not usage.output_tokens and not is_blank and tariff.cost(_OUTPUT_TOKEN):
            return None
        cost = tariff.known_cost(usage)
        return usage.stated_cost * _BILLIONTH if cost is None and usage.stated_cost else cost

    def line(self, call: CallRecord) -> LedgerLine:
        """Return the line that the call belongs to, creating it if necessary."""
        model, info = call.endpoint.model, call.info
        key = (id(model), info.stage, info.judge)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = self._named((model.id, model.interface, model.model_name, *key[1:]))
        return line

    def add_cached(self, names: tuple[str, str, str, str, str], kept: SpendCounts) -> None:
        """Add another process's counts of cached replies to the ledger line for `names`."""
        self._named(names).cached.merge(kept)

    def clear(self) -> None:
        """Reset the counts of this run. The counts of earlier runs are kept."""
        self.changed.clear()
        self._lines.clear()
        self._by_names.clear()

    def _named(self, names: tuple[str, str, str, str, str]) -> LedgerLine:
        line = self._by_names.get(names)
        if line is None:
            line = self._by_names[names] = LedgerLine(*names)
        return line

    @property
    def lines(self) -> list[LedgerLine]:
        """All lines, sorted by model."""
        return sorted(self._by_names.values(), key=lambda line: line.model)

    def total(self) -> SpendCounts:
        """Return the total cost and usage of the calls that this run made."""
        return sum_counts(line.spent for line in self._by_names.values())

    @property
    def earlier(self) -> SpendCounts:
        """The total cost and usage of earlier runs with the same journal."""
        return sum_counts(line.spent for line in self.before)

    def cached_total(self) -> SpendCounts:
        """Return the total usage of cached replies, with the amount that their calls would have cost."""
        return sum_counts(line.cached for line in self._by_names.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as JSON-compatible data, with totals by model, stage and judge. This also contains the
        prices, the total for earlier runs (`earlier`) and the total for cached replies (`kept`).
        """
        return {
            **make_spending_report(self.lines),
            "earlier": self.earlier.to_dict(),
            "kept": self.cached_total().to_dict(),
            "prices": self.prices.snapshot(),
        }


def make_spending_report(lines: Sequence[LedgerLine]) -> dict[str, Any]:
    """Return a summary of the cost of the given ledger lines, in total and by model, stage and judge. Cached replies
    are not included, nor are lines without a judge in the totals by judge.
    """
    return {
        "currency": "USD",
        "spent": sum_counts(line.spent for line in lines).to_dict(),
        "lines": [
            {
                "model": line.model,
                "interface": line.interface,
                "model_name": line.model_name,
                "stage": line.stage,
                "judge": line.judge or None,
                **line.spent.to_dict(),
            }
            for line in lines
        ],
        "by_model": _sum_by(lines, "model"),
        "by_stage": _sum_by(lines, "stage"),
        "by_judge": _sum_by((line for line in lines if line.judge), "judge"),
    }


def sum_counts(counts: Iterable[SpendCounts]) -> SpendCounts:
    """Return the sum of the given counts."""
    total = SpendCounts()
    for count in counts:
        total.merge(count)
    return total


def _sum_by(lines: Iterable[LedgerLine], name: str) -> list[dict[str, Any]]:
    """Return a list with a dict for each value of the field `name`: the value under that name, and the total counts
    of its lines. Values are in the order in which they first occur.
    """
    sums: dict[str, SpendCounts] = {}
    for line in lines:
        sums.setdefault(getattr(line, name), SpendCounts()).merge(line.spent)
    return [{name: key, **count.to_dict()} for key, count in sums.items()]
