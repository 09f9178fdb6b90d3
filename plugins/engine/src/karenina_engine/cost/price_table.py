"""The prices of a run's models, from the user's own prices or from price lists, with their origins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from karenina_core.config import find_adapter
from karenina_engine.cost.hookspecs import karenina_prices
from karenina_engine.cost.price_source import FREE, OwnPrice, Tariff
from karenina_toolkit.http.urls import is_loopback, redact_url

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.cost.price_source import PriceSource


@dataclass(frozen=True, slots=True)
class Price:
    """A model's tariff, None if unknown, and `why`: where the price comes from, or why there is none.

    `assumed` means that the price may be wrong: a server on localhost may forward calls to a paid provider.
    """

    tariff: Tariff | None
    why: str
    assumed: bool = False


def list_price_sources(plugins: Plugins) -> list[PriceSource]:
    """Return the price lists, sorted by name."""
    return sorted(plugins.call(karenina_prices), key=lambda one: one.name)


@dataclass(slots=True)
class PriceTable:
    """The prices of models. Each price is looked up once.

    `own` are the user's prices, by model id or by the provider's name for the model; they take precedence. Recorded
    answers and models that run locally are free. Otherwise the first list that has the model is used. An
    unknown price is never treated as zero.
    """

    plugins: Plugins
    own: Mapping[str, OwnPrice] = field(default_factory=dict)
    _sources: list[PriceSource] | None = None
    _editions: dict[str, str] = field(default_factory=dict)
    _found: dict[int, tuple[ModelConfig, Price]] = field(default_factory=dict)

    def price(self, model: ModelConfig) -> Price:
        """Return the price of the model."""
        known = self._found.get(id(model))
        if known is None:
            known = self._found[id(model)] = model, self._find(model)
        return known[1]

    def is_free(self, model: ModelConfig) -> bool:
        """Return whether the model costs nothing (recorded answers, local models) and the user set no price for it."""
        spec = find_adapter(self.plugins, model.interface).spec
        return (spec.recorded or spec.free) and not self.own.keys() & {model.id, model.model_name}

    def snapshot(self) -> dict[str, Any]:
        """Return the prices found so far as JSON values: editions of lists, and each model's price and origin."""
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
        for name in (model.id, model.model_name):
            if name in self.own:
                return Price(self.own[name].tariff(), f"your own price for {name!r}")
        spec = find_adapter(self.plugins, model.interface).spec
        if spec.recorded:
            return Price(FREE, "free: its answers are recorded")
        if spec.free:
            return Price(FREE, "free: it runs on this machine")
        configured = model.endpoint_base_url or model.model_provider
        server = spec.served_by(model) if spec.served_by is not None else configured
        if self._sources is None:
            self._sources = list_price_sources(self.plugins)
        for source in self._sources:
            found = source.tariff(model.model_name, server)
            if found is not None:
                edition = self._editions[source.name] = source.edition
                return Price(found[0], f"{source.name} {edition}: {found[1]}")
        own = f"prices.{model.id} = {{input = ..., output = ...}}"
        if server and not self.own and is_loopback(urlsplit(server).hostname or ""):
            why = "assumed to be free, because its server is on localhost; if it forwards to a paid provider, "
            why += f"set {own}"
            return Price(FREE, why, assumed=True)
        where = f" at {redact_url(server) if '://' in server else server}" if server else ""
        lists = " or ".join(source.name for source in self._sources)
        problem = f"{lists} has no price for {model.model_name!r}{where}" if lists else "no price list is installed"
        return Price(
            None, f"unknown: {problem}; set one, in US dollars per million tokens, in the configuration file: {own}"
        )
