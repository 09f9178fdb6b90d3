"""Tests of exact amounts of money, and of the origin of prices."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from karenina_core.errors import PluginError
from karenina_core.hooks import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, Message, Usage
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import Call, Endpoint
from karenina_engine.cost.ledger import Ledger, PriceTable
from karenina_engine.cost.price_source import (
    FREE,
    OwnPrice,
    PriceSource,
    Rates,
    Tariff,
    format_cost,
    to_dollars,
    to_picodollars,
)

MILLION = 10**6


def tariff(input: str, output: str, **more: Any) -> Tariff:
    return Tariff(Rates.per_million(Decimal(input), Decimal(output), **{k: Decimal(v) for k, v in more.items()}))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(), "0"),
        (Usage(MILLION), "0.15"),
        (Usage(0, MILLION), "0.6"),
        (Usage(1), "0.00000015"),
        (Usage(MILLION, 0, cached_tokens=MILLION), "0.075"),
        (Usage(MILLION, 0, cache_write_tokens=MILLION), "0.1875"),
        (Usage(MILLION, 0, cached_tokens=400_000, cache_write_tokens=600_000), "0.1425"),
        (Usage(0, MILLION, reasoning_tokens=500_000), "0.8"),
    ],
)
def test_each_kind_of_token_has_its_price(usage: Usage, cost: str) -> None:
    mini = tariff("0.15", "0.6", cached="0.075", cache_write="0.1875", reasoning="1")
    assert to_dollars(mini.cost(usage)) == Decimal(cost)


def test_tokens_without_their_own_price_cost_the_default() -> None:
    assert tariff("2", "8").cost(Usage(10, 10, 10, 10, cache_write_tokens=10)) == tariff("2", "8").cost(Usage(10, 10))


@pytest.mark.parametrize(("size", "cost"), [(200_000, "0.2"), (200_001, "0.400002"), (300_000, "0.9")])
def test_long_request_costs_the_rates_of_its_step(size: int, cost: str) -> None:
    rates = [Rates.per_million(Decimal(price), Decimal(0)) for price in ("1", "2", "3")]
    stepped = Tariff(rates[0], ((200_000, rates[1]), (299_999, rates[2])))
    assert to_dollars(stepped.cost(Usage(size, 5, calls=1))) == Decimal(cost)


def test_a_request_may_cost_something_by_itself() -> None:
    assert Tariff(FREE.rates, request=to_picodollars(Decimal("0.005"))).cost(Usage(9, 9, calls=3)) == to_picodollars(
        Decimal("0.015")
    )


tokens = st.integers(0, 10**7)
prices = st.decimals(0, 1000, places=6)


@given(st.lists(st.tuples(tokens, tokens)), prices, prices)
def test_costs_are_additive(counts: list[tuple[int, int]], read: Decimal, said: Decimal) -> None:
    one = Tariff(Rates.per_million(read, said))
    usages = [Usage(*count) for count in counts]
    assert sum(map(one.cost, usages)) == one.cost(sum(usages, Usage()))
    assert to_dollars(one.cost(sum(usages, Usage()))) * MILLION == sum(a * read + b * said for a, b in counts)


@pytest.mark.parametrize(
    ("amount", "words"),
    [
        ("0", "$0"),
        ("0.000000000001", "below $0.000001"),
        ("0.0000123", "$0.000012"),
        ("0.0421", "$0.0421"),
        ("12.3456", "$12.3456"),
        ("1234.567", "$1,234.57"),
    ],
)
def test_a_sum_is_told_with_the_digits_that_matter(amount: str, words: str) -> None:
    assert format_cost(to_picodollars(Decimal(amount))) == words


@pytest.mark.parametrize("price", [{"input": -1, "output": 1}, {"input": 1}, {"input": "0.0000001", "output": 1}])
def test_a_price_of_ones_own_that_cannot_be_is_refused(price: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        OwnPrice.model_validate(price)


class Listed:
    """A list that has the models that it is given."""

    edition = "of May"

    def __init__(self, name: str, *models: str) -> None:
        self.name = name
        self.models = models
        self.asked: list[tuple[str, str | None]] = []

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str] | None:
        self.asked.append((model_name, served_by))
        return (tariff("1", "2"), f"its {model_name}") if model_name in self.models else None


class Offers:
    """Two lists, and adapters of each kind."""

    def __init__(self, *lists: PriceSource) -> None:
        self.lists = lists

    @hookimpl
    def karenina_prices(self) -> Sequence[PriceSource]:
        return self.lists

    @hookimpl
    def karenina_adapters(self) -> Sequence[AdapterSpec]:
        return [
            AdapterSpec(interface="remote", description="", served_by=lambda model: f"https://{model.id}.example"),
            AdapterSpec(interface="unsaid", description=""),
            AdapterSpec(interface="here", description="", free=True),
            AdapterSpec(interface="recorded", description="", recorded=True),
        ]


def model(interface: str, name: str = "m", **fields: Any) -> ModelConfig:
    return ModelConfig(id="mine", interface=interface, model_name=name, **fields)


def priced(*lists: PriceSource, own: dict[str, OwnPrice] | None = None) -> PriceTable:
    plugins = Plugins()
    plugins.register(Offers(*lists))
    return PriceTable(plugins, own or {})


class Numbered(Listed):
    name = property(lambda _self: 5, lambda _self, _name: None)  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (object(), "karenina_prices must return list[PriceSource], not (<object object"),
        (Numbered("ours"), "the name of Numbered must be a string, not 5"),
    ],
)
def test_a_price_list_that_cannot_be_used_is_reported(broken: Any, says: str, caplog: pytest.LogCaptureFixture) -> None:
    price = priced(broken).price(model("unsaid"))

    assert price.tariff is None
    assert f"is not used: TypeError: {says}" in caplog.text


def test_an_edition_that_is_not_text_is_an_error() -> None:
    listed = Listed("ours", "m")
    listed.edition = None  # type: ignore[assignment]

    with pytest.raises(PluginError, match=r"the price list 'ours' .* edition must be a string, not None"):
        priced(listed).price(model("unsaid"))


OWN = {"mine": OwnPrice(input=3, output=4)}


@pytest.mark.parametrize("address", ["http://localhost:8000/v1", "http://127.0.0.1:8000/v1", "http://[::1]:8000/v1"])
def test_a_server_on_this_machine_is_assumed_to_be_free(address: str) -> None:
    price = priced().price(model("unsaid", "other", endpoint_base_url=address))
    assert price.tariff is not None
    assert (price.tariff.cost(Usage(1000, 1000, calls=1)), price.assumed) == (0, True)
    assert "if the server forwards to a paid provider, set prices.mine = " in price.why


def test_local_server_is_not_free_if_other_models_have_prices() -> None:
    price = priced(own={"another": OWN["mine"]}).price(
        model("unsaid", "o", endpoint_base_url="http://localhost:8000/v1")
    )
    assert price.tariff is None


@pytest.mark.parametrize(
    ("asked", "own", "rate", "why"),
    [
        (model("remote"), {}, MILLION, "b-list of May: its m"),
        (
            model("remote", "other"),
            {},
            None,
            "unknown because a-list or b-list has no price for 'other' at https://mine.example",
        ),
        (model("remote", "other"), OWN, 3 * MILLION, "your own price for 'mine'"),
        (model("remote"), {"m": OWN["mine"]}, 3 * MILLION, "your own price for 'm'"),
        (model("here"), {}, 0, "free because it runs on this machine"),
        (model("recorded"), {}, 0, "free because its answers are recorded"),
        (model("here"), OWN, 3 * MILLION, "your own price for 'mine'"),
    ],
)
def test_price_is_the_users_or_zero_or_the_first_lists(
    asked: ModelConfig, own: dict[str, OwnPrice], rate: int | None, why: str
) -> None:
    found = priced(Listed("b-list", "m"), Listed("a-list"), own=own).price(asked)
    assert (found.tariff.rates.input if found.tariff is not None else None) == rate
    assert found.why.startswith(why)


@pytest.mark.parametrize(
    ("listed", "why"),
    [
        ((tariff("-1", "1"), "m"), "a price is below 0"),
        (tariff("1", "1").rates, "tariff() must return (Tariff(...), name) or None, not Rates("),
        (("0.1", "m"), "tariff() must return (Tariff(...), name) or None, not ('0.1', 'm')"),
        (KeyError("m"), "KeyError: 'm'"),
    ],
)
def test_a_price_list_that_fails_is_named(listed: Any, why: str) -> None:
    class Failing:
        name, edition = "failing", "1"

        def tariff(self, model_name: str, served_by: str | None) -> Any:
            if isinstance(listed, Exception):
                raise listed
            return listed

    with pytest.raises(PluginError, match="the price list 'failing' has no usable price for 'm': ") as caught:
        priced(Failing()).price(model("unsaid"))
    assert why in str(caught.value)


def test_an_unknown_price_says_what_to_do() -> None:
    assert priced(Listed("a-list")).price(model("remote")).why.endswith("prices.mine = {input = ..., output = ...}")
    assert "no price list is installed" in priced().price(model("remote")).why


@pytest.mark.parametrize(
    ("asked", "server"),
    [
        (model("remote"), "https://mine.example"),
        (model("unsaid", endpoint_base_url="https://x.example/v1", model_provider="p"), "https://x.example/v1"),
        (model("unsaid", model_provider="p"), "p"),
        (model("unsaid"), None),
    ],
)
def test_lists_are_asked_with_who_serves_the_model_once(asked: ModelConfig, server: str | None) -> None:
    listed = Listed("a-list", "m")
    prices = priced(listed)
    for _ in range(3):
        prices.price(asked)
    assert listed.asked == [("m", server)]


def test_snapshot_names_the_edition_of_the_list() -> None:
    prices = priced(Listed("a-list", "m"))
    prices.price(model("remote"))
    snapshot = prices.snapshot()
    assert snapshot["lists"] == {"a-list": "of May"}
    assert snapshot["models"]["mine (remote:m)"]["usd_per_million_tokens"]["output"] == 2


def test_own_prices_apply_to_all_tiers_and_have_defaults_for_special_rates() -> None:
    own = OwnPrice(input=Decimal(2), output=Decimal(8), cache_write=Decimal(3), web_searches=Decimal(10)).tariff()
    usage = Usage(100, 10, calls=1, flex_calls=1, priority_calls=1, audio_input_tokens=50, audio_output_tokens=5)
    assert own.known_cost(usage) == own.cost(Usage(100, 10))
    hour = Usage(100, 10, calls=1, cache_write_tokens=40, long_write_tokens=40, web_searches=2)
    assert to_dollars(own.known_cost(hour) or 0) == Decimal("0.000320") + Decimal("0.02")
    dearer = OwnPrice(input=Decimal(2), output=Decimal(8), long_write=Decimal(4), audio_input=Decimal(32)).tariff()
    assert to_dollars(dearer.known_cost(Usage(100, 0, calls=1, cache_write_tokens=40, long_write_tokens=40)) or 0) == (
        Decimal("0.00028")
    )
    assert to_dollars(dearer.known_cost(Usage(100, 0, calls=1, audio_input_tokens=50)) or 0) == Decimal("0.0017")
    assert dearer.known_cost(Usage(100, 10, calls=1, web_searches=1)) is None
    assert dearer.known_cost(Usage(100, 10, 60, calls=1, audio_input_tokens=50)) is None
    assert own.known_cost(Usage(100, 10, 60, calls=1, audio_input_tokens=50)) == own.cost(Usage(100, 10, 60))


class WithFlex(Listed):
    """A list with a tariff for flex."""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str]:
        rates = Rates.per_million(Decimal(2), Decimal(8), cache_write=Decimal(3), long_write=Decimal(4))
        return Tariff(rates, tiers=(("flex", tariff("1", "4")),)), model_name


@pytest.mark.parametrize(
    ("extra", "input_price", "cache_write"),
    [
        ({}, 2, 3),
        ({"body": {"service_tier": "flex"}}, 1, 1),
        ({"parameters": {"service_tier": "flex"}}, 1, 1),
        ({"body": {"service_tier": "priority"}}, 2, 3),
        ({"prompt_caching": "1h"}, 2, 4),
    ],
)
def test_estimates_use_what_the_configuration_asks_for(
    extra: dict[str, Any], input_price: int, cache_write: int
) -> None:
    price = priced(WithFlex("ours")).price(model("unsaid", extra=extra))
    assert price.expected is not None
    assert price.tariff is not None
    assert price.tariff.rates.input == 2 * MILLION
    assert (price.expected.rates.input, price.expected.rates.cache_write) == (
        input_price * MILLION,
        cache_write * MILLION,
    )


@pytest.mark.parametrize(
    ("asked", "own", "usage", "cost"),
    [
        (model("unsaid"), {}, Usage(1000, 100, calls=1, stated_cost=3000), "0.000003"),
        (model("unsaid"), {}, Usage(1000, 100, calls=1), "0.0012"),
        (model("unsaid", "not listed"), {}, Usage(1000, 100, calls=1, stated_cost=3000), "0.000003"),
        (model("unsaid", "not listed"), {}, Usage(1000, 100, calls=1), None),
        (model("unsaid"), OWN, Usage(1000, 100, calls=1, stated_cost=3000), "0.0034"),
        (model("unsaid"), OWN, Usage(1000, 100, calls=1, unpriced_calls=1, stated_cost=3000), "0.000003"),
        (model("unsaid"), {}, Usage(1000, 100, calls=1, unpriced_calls=1, stated_cost=3000), "0.000003"),
        (model("unsaid"), {}, Usage(1000, 100, calls=1, unpriced_calls=1), None),
        (model("here"), {}, Usage(1000, 100, calls=1, stated_cost=3000), "0"),
        (model("unsaid"), {"mine": OwnPrice(input=0, output=0)}, Usage(9, 9, calls=1, unpriced_calls=1), "0"),
        (
            model("unsaid", "x", endpoint_base_url="http://localhost:4000/v1"),
            {},
            Usage(9, 9, calls=1, stated_cost=5),
            "0.000000005",
        ),
    ],
)
def test_a_cost_that_the_provider_states_replaces_that_of_a_list(
    asked: ModelConfig, own: dict[str, OwnPrice], usage: Usage, cost: str | None
) -> None:
    ledger = Ledger(priced(Listed("ours", "m"), own=own))
    call = Call(Endpoint("llm", asked, "any 1", {}), [Message.user("Which gene?")], CallInfo("1", stage="S"))
    found = ledger.cost(call, usage)
    assert (None if found is None else to_dollars(found)) == (None if cost is None else Decimal(cost))


class Free(Listed):
    """A list of free models."""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Tariff, str]:
        return FREE, model_name


def test_a_stated_cost_of_a_listed_free_model_is_counted() -> None:
    ledger = Ledger(priced(Free("ours")))
    call = Call(Endpoint("llm", model("unsaid"), "any 1", {}), [Message.user("Which gene?")], CallInfo("1", stage="S"))
    assert ledger.cost(call, Usage(10, 5, calls=1)) == 0
    assert ledger.cost(call, Usage(10, 5, calls=1, stated_cost=20_000_000)) == 2 * 10**10
