"""The public price list: models are found under their provider, and costs equal those of genai-prices."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from genai_prices import Usage as ListedUsage
from genai_prices.data_snapshot import get_snapshot

from karenina_core.models.ports import Usage
from karenina_core.plugins import active_plugins
from karenina_engine.cost.ledger import list_price_sources
from karenina_engine.cost.price_source import FREE, to_dollars
from karenina_prices.published_prices import PublishedPrices

pytestmark = pytest.mark.alone

THEN = datetime(2026, 11, 1, 12, tzinfo=UTC)
PRICES = PublishedPrices(at=THEN)

OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"


@pytest.mark.parametrize(
    ("model", "served_by", "known"),
    [
        ("gpt-4.1-mini", OPENAI, "openai/gpt-4.1-mini"),
        ("gpt-4.1-mini", "openai", "openai/gpt-4.1-mini"),
        ("gpt-4.1-mini-2025-04-14", OPENAI, "openai/gpt-4.1-mini"),
        ("gpt-4.1-mini", "azure_openai", "azure/gpt-4.1-mini"),
        ("claude-sonnet-4-5", ANTHROPIC, "anthropic/claude-sonnet-4-5"),
        ("openai/gpt-4.1-mini", "https://openrouter.ai/api/v1", "openrouter/openai/gpt-4.1-mini"),
        ("gpt-4.1-mini", None, "openai/gpt-4.1-mini"),
    ],
)
def test_a_model_is_found_under_its_provider(model: str, served_by: str | None, known: str) -> None:
    found = PRICES.tariff(model, served_by)
    assert found is not None
    assert found[1] == known


@pytest.mark.parametrize(
    ("model", "served_by"),
    [
        ("a-model-of-our-own", OPENAI),
        ("gpt-4.1-mini", "http://127.0.0.1:8000/v1"),
        ("gpt-4.1-mini", "https://proxy.example/v1"),
        ("gpt-4.1-mini", "a provider that nobody knows"),
        ("a-model-of-our-own", None),
        ("text-embedding-3-small", OPENAI),
        ("gpt-4o", "https://api.githubcopilot.com"),
    ],
    ids=["model", "own server", "proxy", "provider", "nothing known", "no price of output", "no price at all"],
)
def test_a_model_without_a_listed_price_is_not_free(model: str, served_by: str) -> None:
    assert PRICES.tariff(model, served_by) is None


def test_a_model_that_a_provider_offers_free_is_free() -> None:
    found = PRICES.tariff("mistral-nemo:free", "mistral")
    assert found is not None
    assert found[0] == FREE


SMALL = {"input_tokens": 1000, "output_tokens": 100}
USAGES = [
    SMALL,
    {**SMALL, "cached_tokens": 400},
    {**SMALL, "cached_tokens": 400, "cache_write_tokens": 300},
    {"input_tokens": 250_000, "output_tokens": 5000, "cached_tokens": 10},
    {"input_tokens": 200_000, "output_tokens": 1},
    {},
]


@pytest.mark.parametrize("counts", USAGES)
@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("gpt-4.1-mini", "openai"),
        ("claude-sonnet-4-5", "anthropic"),
        ("gemini-2.5-pro", "google"),
        ("sonar", "perplexity"),
    ],
)
def test_the_cost_of_a_call_equals_that_of_genai_prices(model: str, provider: str, counts: dict[str, int]) -> None:
    tariff = PRICES.tariff(model, provider)
    assert tariff is not None
    names = {"cached_tokens": "cache_read_tokens"}
    listed = ListedUsage(**{"input_tokens": 0, "output_tokens": 0} | {names.get(k, k): v for k, v in counts.items()})
    theirs = get_snapshot().calc(listed, model, provider, None, THEN).total_price
    assert abs(to_dollars(tariff[0].cost(Usage(**counts, calls=1))) - theirs) < Decimal("1e-6")


def test_the_edition_names_the_release_and_a_digest() -> None:
    release, _, digest = PRICES.edition.partition(" ")
    assert release.count(".") >= 1
    assert digest.startswith("(data ")


def test_the_list_is_offered() -> None:
    assert "genai-prices" in [one.name for one in list_price_sources(active_plugins())]
