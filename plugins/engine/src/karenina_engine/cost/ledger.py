"""What the calls of a run cost: the prices of its models, and a ledger of calls, tokens and cost.

Prices come from the user or from price lists. The ledger has a line for each combination of model, stage and judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from karenina_engine.cost.hookspecs import karenina_prices
from karenina_engine.cost.price_source import FREE, OwnPrice, Tariff, format_cost, to_dollars
from karenina_toolkit.http.urls import is_loopback, redact_url
from karenina_toolkit.plugin_lookup import find_adapter

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Usage
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.call import CallRecord
    from karenina_engine.cost.price_source import PriceSource


@dataclass(frozen=True, slots=True)
class Price:
    """A model's tariff, or None if it is unknown. `why` is the origin of the price, or the reason why there is none.

    `assumed` means that the price may be wrong: a server on localhost may forward calls to a paid provider.
    """

    tariff: Tariff | None
    why: str
    assumed: bool = False


def list_price_sources(plugins: Plugins) -> list[PriceSource]:
    """Return the installed price lists, sorted by name."""
    return sorted(plugins.call(karenina_prices), key=lambda source: source.name)


@dataclass(slots=True)
class PriceTable:
    """The prices of models. Each price is looked up once.

    `own` contains the user's prices, by model id or by the provider's name for the model; they take precedence.
    Recorded answers and models that run locally are free. For other models, the first list that contains the model is
    used. An unknown price is never treated as zero.
    """

    plugins: Plugins
    own: Mapping[str, OwnPrice] = field(default_factory=dict)
    _sources: list[PriceSource] | None = None
    _editions: dict[str, str] = field(default_factory=dict)
    _found: dict[int, tuple[ModelConfig, Price]] = field(default_factory=dict)

    def price(self, model: ModelConfig) -> Price:
        """Return the price of the model. Its tariff is None if the price is unknown."""
        entry = self._found.get(id(model))
        if entry is None:
            entry = self._found[id(model)] = model, self._find(model)
        return entry[1]

    def is_free(self, model: ModelConfig) -> bool:
        """Return whether the model is free because it is recorded or local and the user has set no price for it."""
        spec = find_adapter(self.plugins, model.interface).spec
        return (spec.recorded or spec.free) and not self.own.keys() & {model.id, model.model_name}

    def snapshot(self) -> dict[str, Any]:
        """Return the prices found so far as JSON-compatible data.

        This contains the prices and their origins, and the editions of the lists.
        """
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
        """Look up the model's price.

        The user's own price comes first. Without one, a recorded or local model is free, and any other model gets its
        price from the first list that contains it. A server on localhost that is in no list is assumed to be free,
        unless the user has set any prices.
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
        server = spec.served_by(model) if spec.served_by is not None else configured
        if self._sources is None:
            self._sources = list_price_sources(self.plugins)
        for source in self._sources:
            listed = source.tariff(model.model_name, server)
            if listed is not None:
                edition = self._editions[source.name] = source.edition
                return Price(listed[0], f"{source.name} {edition}: {listed[1]}")
        own = f"prices.{model.id} = {{input = ..., output = ...}}"
        if server and not self.own and is_loopback(urlsplit(server).hostname or ""):
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


UNKNOWN_COST: Final = "unknown"
"""The text for an unknown cost, which is never shown as zero."""


@dataclass(slots=True)
class SpendCounts:
    """Counts of calls that received a reply, their tokens, and their cost in picodollars.

    `unpriced` is the number of calls whose cost is unknown because the model has no price or the server counted no
    tokens. `cost` is the cost of the other calls.
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
        """Add the usage and cost of one or more calls. A cost of None means that it is unknown."""
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
        """Return the cost as text: "at least" an amount if part of it is unknown, or "unknown" if all of it is."""
        if self.known:
            return format_cost(self.cost)
        return f"at least {format_cost(self.cost)}" if self.unpriced < self.calls or self.cost else UNKNOWN_COST

    def to_dict(self) -> dict[str, Any]:
        """Return the counts as JSON-compatible data.

        `cost_usd` is None if the whole cost is unknown, and a lower bound if part of the cost is unknown.
        """
        values: dict[str, Any] = {name: getattr(self, name) for name in COUNTED if name != "cost"}
        nothing = self.unpriced and self.unpriced >= self.calls and not self.cost
        return {**values, "cost_usd": None if nothing else float(to_dollars(self.cost))}


COUNTED: Final = tuple(count.name for count in fields(SpendCounts))


@dataclass(slots=True)
class LedgerLine:
    """A line in a ledger: a model (the user's id, interface and name) in one stage, for one judge.

    `judge` is the id of the item's judge, or empty for calls shared by all judges of an answer. `spent` counts the
    calls made by this run. `cached` counts replies that were already stored or were shared with a call in flight. These
    cost nothing in this run; the cost counted for them is what the calls would have cost.
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
        """The names that identify the line: model id, interface, model name, stage and judge."""
        return (self.model, self.interface, self.model_name, self.stage, self.judge)


@dataclass(slots=True)
class Ledger:
    """The ledger of a run. `before` contains the lines from earlier runs with the same journal.

    `free` means that all models in the run are free.
    """

    prices: PriceTable
    before: list[LedgerLine] = field(default_factory=list)
    free: bool = False
    changed: dict[int, LedgerLine] = field(default_factory=dict)
    """The lines with calls that are not yet in the journal, by identity."""
    _lines: dict[tuple[int, str, str], LedgerLine] = field(default_factory=dict)
    _by_names: dict[tuple[str, str, str, str, str], LedgerLine] = field(default_factory=dict)

    def record_call(self, call: CallRecord, usage: Usage) -> int | None:
        """Count a completed call, and return its cost in picodollars, or None if the cost is unknown."""
        line = self.line(call)
        cost = self.cost(call, usage)
        line.spent.add(usage, cost)
        self.changed[id(line)] = line
        return cost

    def record_cached(self, call: CallRecord, usage: Usage) -> None:
        """Count a reply that had already been stored, or was shared with an identical call."""
        self.line(call).cached.add(usage, self.cost(call, usage))

    def cost(self, call: CallRecord, usage: Usage) -> int | None:
        """Return the cost, in picodollars, of a call with this usage.

        Returns None if the model has no price, or if the server counted no tokens although tokens cost something.
        """
        tariff = self.prices.price(call.endpoint.model).tariff
        if tariff is None:
            return None
        cost = tariff.cost(usage)
        if not cost and not (usage.input_tokens or usage.output_tokens) and tariff.cost(_MILLION_TOKENS):
            return None
        return cost

    def line(self, call: CallRecord) -> LedgerLine:
        """Return the line for the call, creating it if needed."""
        model, info = call.endpoint.model, call.info
        key = (id(model), info.stage, info.judge)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = self._named((model.id, model.interface, model.model_name, *key[1:]))
        return line

    def add_cached(self, names: tuple[str, str, str, str, str], kept: SpendCounts) -> None:
        """Add counts of replies that another process took from the journal to the line with these names."""
        self._named(names).cached.merge(kept)

    def clear(self) -> None:
        """Remove all counts for this run, keeping those of earlier runs."""
        self.changed.clear()
        self._lines.clear()
        self._by_names.clear()

    def _named(self, names: tuple[str, str, str, str, str]) -> LedgerLine:
        """Return the line with these names, creating it if needed."""
        line = self._by_names.get(names)
        if line is None:
            line = self._by_names[names] = LedgerLine(*names)
        return line

    @property
    def lines(self) -> list[LedgerLine]:
        """All lines, sorted by model; the lines of each model are in the order in which they were created."""
        return sorted(self._by_names.values(), key=lambda line: line.model)

    def total(self) -> SpendCounts:
        """Return the total that this run has spent."""
        return sum_counts(line.spent for line in self._by_names.values())

    @property
    def earlier(self) -> SpendCounts:
        """The total that earlier runs with the same journal spent."""
        return sum_counts(line.spent for line in self.before)

    def cached_total(self) -> SpendCounts:
        """Return the total for cached replies, whose cost is what the calls would have cost."""
        return sum_counts(line.cached for line in self._by_names.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the ledger as JSON-compatible data, with totals by model, stage and judge.

        It also contains the total of earlier runs (`earlier`), that of cached replies (`kept`), and the prices.
        """
        return {
            **make_spending_report(self.lines),
            "earlier": self.earlier.to_dict(),
            "kept": self.cached_total().to_dict(),
            "prices": self.prices.snapshot(),
        }


def make_spending_report(lines: Sequence[LedgerLine]) -> dict[str, Any]:
    """Return what the calls in ledger lines cost as JSON-compatible data, with a grand total and totals by model,
    stage and judge.

    Cached replies are not included, and neither are lines without a judge in the totals by judge.
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
        "by_model": _grouped(lines, "model"),
        "by_stage": _grouped(lines, "stage"),
        "by_judge": _grouped((line for line in lines if line.judge), "judge"),
    }


def sum_counts(counts: Iterable[SpendCounts]) -> SpendCounts:
    """Return the sum of several counts."""
    total = SpendCounts()
    for count in counts:
        total.merge(count)
    return total


def _grouped(lines: Iterable[LedgerLine], name: str) -> list[dict[str, Any]]:
    """Return the total of `spent` for each value of the field `name`, in the order in which the values occur."""
    sums: dict[str, SpendCounts] = {}
    for line in lines:
        sums.setdefault(getattr(line, name), SpendCounts()).merge(line.spent)
    return [{name: key, **count.to_dict()} for key, count in sums.items()]


def _million_tokens() -> Usage:
    """Return a usage of one million input and output tokens, whose cost is 0 only if tokens are free."""
    from karenina_core.models.ports import Usage

    return Usage(input_tokens=10**6, output_tokens=10**6, calls=1)


_MILLION_TOKENS: Final = _million_tokens()
