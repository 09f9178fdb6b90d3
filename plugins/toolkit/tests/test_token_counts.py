"""The laws of token counts, whatever a server writes; the contracts of adapters have the shapes of single servers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import Usage
from karenina_toolkit.replies.reply_bounds import MOST_TOKENS
from karenina_toolkit.traces.formats.openai_chat import usage_of
from karenina_toolkit.traces.token_counts import larger_usage, read_usage

NAMES = st.sampled_from(
    [
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cached_tokens",
        "cache_read_input_tokens",
        "reasoning_tokens",
    ]
)
COUNTS = st.one_of(st.integers(-5, 10**14), st.floats(), st.integers(0, 99).map(str), st.none(), st.text(max_size=3))
DETAILS = st.dictionaries(NAMES, COUNTS, max_size=3)
USAGES = st.builds(
    lambda counts, inner, outer: {**counts, "prompt_tokens_details": inner, "completion_tokens_details": outer},
    st.dictionaries(NAMES, COUNTS, max_size=6),
    st.one_of(DETAILS, st.none(), st.integers()),
    st.one_of(DETAILS, st.none(), st.text()),
)


@given(USAGES)
def test_parts_are_never_larger_than_the_whole(data: Any) -> None:
    usage = read_usage(data)
    assert 0 <= usage.reasoning_tokens <= usage.output_tokens <= MOST_TOKENS
    assert 0 <= usage.cached_tokens + usage.cache_write_tokens <= 2 * MOST_TOKENS
    assert usage.cached_tokens <= usage.input_tokens <= MOST_TOKENS


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(0, 10**9))
def test_nothing_of_the_total_is_lost(given: int, output: int, hidden: int) -> None:
    usage = read_usage({"prompt_tokens": given, "completion_tokens": output, "total_tokens": given + output + hidden})
    assert usage.total_tokens == given + output + hidden


def test_counts_of_nothing_do_not_replace_real_ones() -> None:
    real, nothing = {"prompt_tokens": 10, "completion_tokens": 3}, {"prompt_tokens": 0, "completion_tokens": 0}
    assert larger_usage(real, nothing) == real
    assert larger_usage(real, None) == real
    assert larger_usage(nothing, real) == real
    assert larger_usage(real, {"completion_tokens": 4}) == {"prompt_tokens": 10, "completion_tokens": 4}
    assert read_usage(None) == read_usage("12") == Usage(calls=1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"prompt_tokens": 10, "completion_tokens": 500}, {"prompt_tokens": 10, "completion_tokens": 0}),
        ({"prompt_tokens": 10, "completion_tokens": 500}, {"prompt_tokens": 0, "completion_tokens": 1}),
        ({"prompt_tokens": 10, "completion_tokens": 500}, {"prompt_tokens": 10}),
        ({"prompt_tokens": 10, "completion_tokens": 500}, {"prompt_tokens": 10, "completion_tokens": 3}),
        ({"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10}, {"completion_tokens": 500}),
        ({"prompt_tokens": 10, "total_tokens": 510}, {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13}),
        ({"prompt_tokens": 10, "completion_tokens": 500}, "lots"),
        ("lots", {"prompt_tokens": 10, "completion_tokens": 500}),
    ],
)
def test_no_usage_of_a_stream_loses_tokens_of_another(before: Any, after: Any) -> None:
    assert read_usage(larger_usage(before, after)) == Usage(10, 500, calls=1)


@given(USAGES, USAGES)
def test_each_count_of_a_stream_is_the_larger_one(before: Any, after: Any) -> None:
    merged = read_usage(larger_usage(before, after))
    for part in (read_usage({"prompt_tokens": usage.get("prompt_tokens")}) for usage in (before, after)):
        assert merged.input_tokens >= part.input_tokens
    for part in (read_usage({"completion_tokens": usage.get("completion_tokens")}) for usage in (before, after)):
        assert merged.output_tokens >= part.output_tokens


def test_details_of_a_stream_are_merged() -> None:
    before = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 4}}
    after = {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens": 2}
    assert read_usage(larger_usage(before, after)) == Usage(10, 2, 4, calls=1)


@pytest.mark.parametrize(
    ("tier", "flex", "priority"),
    [
        (None, 0, 0),
        ("default", 0, 0),
        ("on_demand", 0, 0),
        ("STANDARD", 0, 0),
        ("flex", 1, 0),
        ("priority", 0, 1),
        ("fast", 0, 1),
        ("scale", 1, 1),
    ],
)
def test_the_service_tier_of_a_completion_is_counted(tier: str | None, flex: int, priority: int) -> None:
    completion = {"usage": {"prompt_tokens": 3, "completion_tokens": 2}, "service_tier": tier}
    assert usage_of(completion) == Usage(3, 2, calls=1, flex_calls=flex, priority_calls=priority)


CITED = {"type": "url_citation", "url_citation": {"url": "https://example.com", "start_index": 0, "end_index": 6}}


@pytest.mark.parametrize(
    ("annotations", "counted", "searches"),
    [
        ([CITED, CITED], {}, 1),
        ([CITED], {"server_tool_use": {"web_search_requests": 3}}, 3),
        ([], {}, 0),
        (None, {}, 0),
        ([{"type": "document_citation"}, None], {}, 0),
        ({"type": "url_citation"}, {}, 0),
    ],
)
def test_a_completion_that_cites_pages_has_searched(annotations: Any, counted: dict[str, Any], searches: int) -> None:
    message = {"content": "Paris.", "annotations": annotations}
    usage = {"prompt_tokens": 3, "completion_tokens": 2, **counted}
    expected = Usage(3, 2, calls=1, web_searches=searches)
    assert usage_of({"choices": [{"message": message}], "usage": usage}) == expected
    assert usage_of({"choices": [{"message": message, "usage": usage}]}) == expected


@pytest.mark.parametrize(
    "counts",
    [
        {"completion_tokens_details": {"image_tokens": 1290}},
        {"num_sources_used": 4},
        {"num_server_side_tools_used": 1},
        {"citation_tokens": 900},
        {"prompt_audio_seconds": 12},
    ],
)
def test_a_call_with_other_charges_is_unpriced(counts: dict[str, Any]) -> None:
    usage = read_usage({"prompt_tokens": 3, "completion_tokens": 2, **counts})
    assert usage == Usage(3, 2, calls=1, unpriced_calls=1)


def test_counts_of_other_charges_that_are_zero_or_empty_change_nothing() -> None:
    counts = {"num_sources_used": 0, "prompt_audio_seconds": {}, "server_tool_use": None, "citation_tokens": None}
    details = {"prompt_tokens_details": {"audio_tokens": 0}, "completion_tokens_details": {"image_tokens": 0}}
    assert read_usage({"prompt_tokens": 3, "completion_tokens": 2, **counts, **details}) == Usage(3, 2, calls=1)


@pytest.mark.parametrize(
    ("stated", "billionths"),
    [
        ({"cost": 0.00030078, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.00030078}}, 300_780),
        ({"cost": 0.95, "is_byok": True, "cost_details": {"upstream_inference_cost": 19}}, 19_950_000_000),
        ({"cost": 0, "is_byok": True, "cost_details": {"upstream_inference_cost": 0.002}}, 2_000_000),
        ({"cost": 0.0012, "is_byok": False, "cost_details": None}, 1_200_000),
        ({"cost_in_usd_ticks": 318_319_000}, 31_831_900),
        (
            {"cost": {"input_tokens_cost": 0.0, "request_cost": 0.006, "total_cost": 0.006, "currency": "USD"}},
            6_000_000,
        ),
        ({"cost": 0.5}, 0),
        ({"cost": {"total_cost": 1, "currency": "CNY"}}, 0),
        ({"cost": -1.5, "is_byok": False}, 0),
        ({"cost": float("nan"), "is_byok": False}, 0),
        ({"cost": "lots", "is_byok": True, "cost_details": 3}, 0),
        ({"cost": 0.0001, "is_byok": True, "cost_details": {"upstream_inference_cost": None}}, 0),
        ({"cost": 0.0001, "is_byok": True}, 0),
        ({"cost": 10**400, "is_byok": False}, MOST_TOKENS),
        ({"cost": 1e305, "is_byok": False}, 0),
        ({"cost": {"total_cost": float("inf")}}, 0),
        ({"cost_in_usd_ticks": 10**400}, MOST_TOKENS),
        ({"cost": None, "cost_in_usd_ticks": True}, 0),
    ],
)
def test_the_cost_that_a_provider_states_is_read(stated: dict[str, Any], billionths: int) -> None:
    usage = read_usage({"prompt_tokens": 3, "completion_tokens": 2, **stated})
    assert usage == Usage(3, 2, calls=1, stated_cost=billionths)


def test_reasoning_beyond_an_output_that_adds_up_to_the_total_is_part_of_it() -> None:
    counts = {"prompt_tokens": 1366, "completion_tokens": 494, "total_tokens": 1860}
    assert read_usage({**counts, "completion_tokens_details": {"reasoning_tokens": 522}}) == Usage(
        1366, 494, 0, 494, calls=1
    )
