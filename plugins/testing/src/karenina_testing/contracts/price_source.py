"""The contract for every price list."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import ClassVar, Final, Protocol

import pytest

from karenina_core.models.ports import Usage
from karenina_testing.contracts.plugin import PluginContract

_MILLION: Final = 10**6
_ODD: Final = ("", " ", "no-such-model-4711", "\u202eevil\x00", "a/b/c:free", "x" * 10_000)


class AnyTariff(Protocol):
    """A `karenina_engine.cost.price_source.Tariff`."""

    def cost(self, usage: Usage) -> int:
        """Return the cost of `usage`, in picodollars."""


class AnyPriceSource(Protocol):
    """A `karenina_engine.cost.price_source.PriceSource`."""

    @property
    def name(self) -> str:
        """The price list's name."""

    @property
    def edition(self) -> str:
        """The price list's edition."""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[AnyTariff, str] | None:
        """Return the model's tariff and its name in the list, or None if the list does not contain the model."""


class PriceSourceContract(PluginContract):
    """The contract for a price list.

    - `source`: the price list.
    - `prices`: pairs of a model and its server (a base URL, a provider's name, or None), each with its prices in
      dollars per million input tokens and per million output tokens, written as decimal strings.
    - `unknown`: pairs of a model and a server that the list must not contain.
    """

    source: ClassVar[AnyPriceSource]
    prices: ClassVar[Mapping[tuple[str, str | None], tuple[str, str]]]
    unknown: ClassVar[Sequence[tuple[str, str | None]]] = (("no-such-model-4711", None),)

    def cost(self, model_name: str, served_by: str | None, usage: Usage) -> Decimal:
        """Return the cost of `usage` in dollars. Fails if the model is not in the list."""
        listed = self.source.tariff(model_name, served_by)
        assert listed is not None, f"the price list has no price for {model_name!r} (served_by is {served_by!r})"
        picodollars = listed[0].cost(usage)
        assert isinstance(picodollars, int), "create rates with Rates.per_million, from Decimal values"
        return Decimal(picodollars).scaleb(-12)

    def test_it_has_a_name_and_an_edition(self) -> None:
        for text in (self.source.name, self.source.edition):
            assert isinstance(text, str)
            assert text.strip()

    def test_models_cost_what_the_samples_say(self) -> None:
        assert self.prices, "define some prices for the contract"
        for (model, server), (read, written) in self.prices.items():
            costs = [self.cost(model, server, usage) for usage in (Usage(_MILLION), Usage(0, _MILLION))]
            assert costs == [Decimal(read), Decimal(written)], model

    def test_no_usage_has_a_negative_price(self) -> None:
        everything = Usage(10, 10, cached_tokens=10, reasoning_tokens=10, cache_write_tokens=0, calls=1)
        for model, server in self.prices:
            assert min(self.cost(model, server, usage) for usage in (Usage(), Usage(1, 1, calls=1), everything)) >= 0

    def test_it_says_under_which_name_it_lists_a_model(self) -> None:
        for model, server in self.prices:
            listed = self.source.tariff(model, server)
            assert listed is not None
            assert listed[1].strip()

    def test_an_unknown_model_has_no_price(self) -> None:
        for model, server in self.unknown:
            assert self.source.tariff(model, server) is None, (
                "return None for an unknown price; 0 means that the model is free"
            )

    @pytest.mark.parametrize("server", [None, "", "no-such-provider", "https://no-such-server.invalid/v1", "::"])
    def test_an_odd_model_or_server_is_no_error(self, server: str | None) -> None:
        for model in (*_ODD, *(model for model, _ in self.prices)):
            self.source.tariff(model, server)

    def test_no_request_is_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[object] = []

        def refuse(*arguments: object, **_named: object) -> None:
            asked.append(arguments[-1])
            raise OSError("no network")

        for name in ("connect", "connect_ex", "sendto"):
            monkeypatch.setattr(socket.socket, name, refuse)
        monkeypatch.setattr(socket, "getaddrinfo", refuse)
        for model, server in (*self.prices, *self.unknown):
            self.source.tariff(model, server)
        assert asked == [], "a price list must not make requests"
