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


@pytest.mark.parametrize(
    ("model", "provider", "usage", "listed", "context"),
    [
        (
            "claude-sonnet-4-5",
            "anthropic",
            Usage(1000, 100, calls=1, cache_write_tokens=400, long_write_tokens=300, web_searches=2),
            {"input_tokens": 1000, "output_tokens": 100, "cache_write_tokens": 400, "cache_write_1h_tokens": 300}
            | {"web_searches": 2},
            {},
        ),
        (
            "gemini-2.5-flash",
            "google",
            Usage(1000, 100, calls=1, audio_input_tokens=600),
            {"input_tokens": 1000, "output_tokens": 100, "input_audio_tokens": 600},
            {},
        ),
        (
            "gpt-5",
            "openai",
            Usage(1000, 100, 400, calls=1, flex_calls=1),
            {"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 400},
            {"service_tier": "flex"},
        ),
        (
            "gpt-5",
            "openai",
            Usage(1000, 100, 400, calls=1, priority_calls=1),
            {"input_tokens": 1000, "output_tokens": 100, "cache_read_tokens": 400},
            {"service_tier": "priority"},
        ),
    ],
    ids=["an hour and searches", "sound", "flex", "priority"],
)
def test_the_cost_of_special_rates_equals_that_of_genai_prices(
    model: str, provider: str, usage: Usage, listed: dict[str, int], context: dict[str, str]
) -> None:
    tariff = PRICES.tariff(model, provider)
    assert tariff is not None
    _, info = get_snapshot().find_provider_model(model, None, provider, None)
    theirs = info.get_prices(THEN, context).calc_price(ListedUsage(**listed))["total_price"]
    cost = tariff[0].known_cost(usage)
    assert cost is not None
    assert abs(to_dollars(cost) - theirs) < Decimal("1e-6")


def test_a_documented_example_costs_what_a_calculation_by_hand_gives() -> None:
    """2,051 tokens of input, of which 248 are written for an hour and 1,800 read, 503 of output, 3 searches: at $3,
    $6, $0.30 and $15 per million tokens, and $10 per thousand searches.
    """
    tariff = PRICES.tariff("claude-sonnet-4-5", "anthropic")
    assert tariff is not None
    usage = Usage(2051, 503, 1800, calls=1, cache_write_tokens=248, long_write_tokens=248, web_searches=3)
    cost = tariff[0].known_cost(usage)
    assert cost == (3 * 3 + 248 * 6 + 503 * 15) * 10**6 + 1800 * 300_000 + 3 * 10**10


@pytest.mark.parametrize(
    ("model", "provider", "usage"),
    [
        ("gpt-4o-audio-preview", "openai", Usage(100, 10, calls=1, audio_input_tokens=80)),
        ("gpt-4o-audio-preview", "openai", Usage(100, 10, calls=1, audio_output_tokens=8)),
        ("gpt-4.1-mini", "openai", Usage(100, 10, calls=1, flex_calls=1)),
        ("gpt-5", "openai", Usage(100, 10, calls=1, flex_calls=1, priority_calls=1)),
        ("gpt-5", "openai", Usage(100, 10, calls=2, flex_calls=1)),
        ("gpt-5", "openai", Usage(100, 10, calls=1, unpriced_calls=1)),
        ("mistral-large-latest", "mistral", Usage(100, 10, calls=1, web_searches=1)),
    ],
)
def test_what_has_no_listed_price_makes_the_cost_unknown(model: str, provider: str, usage: Usage) -> None:
    tariff = PRICES.tariff(model, provider)
    assert tariff is not None
    assert tariff[0].known_cost(usage) is None
    assert tariff[0].known_cost(Usage(100, 10, calls=1)) is not None


def test_sound_costs_as_much_as_text_at_google_if_the_list_has_no_other_price() -> None:
    tariff = PRICES.tariff("gemini-2.5-pro", "google")
    assert tariff is not None
    assert tariff[0].known_cost(Usage(100, 10, calls=1, audio_input_tokens=80)) == tariff[0].cost(Usage(100, 10))


def test_flex_costs_the_usual_price_at_groq() -> None:
    tariff = PRICES.tariff("llama-3.3-70b-versatile", "groq")
    assert tariff is not None
    assert tariff[0].known_cost(Usage(100, 10, calls=1, flex_calls=1)) == tariff[0].cost(Usage(100, 10, calls=1))
