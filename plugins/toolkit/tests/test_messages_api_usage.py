"""The usage in a reply of the Messages API."""

from __future__ import annotations

from typing import Any

import pytest

from karenina_core.models.ports import Usage
from karenina_toolkit.traces.formats.anthropic import read_usage


@pytest.mark.parametrize(
    ("counted", "usage"),
    [
        ({"input_tokens": 11, "output_tokens": 7}, Usage(11, 7, calls=1)),
        (
            {"input_tokens": 1, "output_tokens": 7, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100},
            Usage(111, 7, cached_tokens=10, calls=1, cache_write_tokens=100),
        ),
        ({"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 5}}, Usage(0, 7, 0, 5, calls=1)),
        ({"input_tokens": None, "output_tokens": "7", "cache_read_input_tokens": -3}, Usage(0, 7, calls=1)),
        (
            {"input_tokens": 1, "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 4}},
            Usage(25, calls=1, cache_write_tokens=24, long_write_tokens=4),
        ),
        ({"output_tokens": 7, "server_tool_use": {"web_search_requests": 2}}, Usage(0, 7, calls=1, web_searches=2)),
        ({"output_tokens": 7, "service_tier": "standard", "speed": "standard"}, Usage(0, 7, calls=1)),
        ({"output_tokens": 7, "cost": 0.0012, "is_byok": False}, Usage(0, 7, calls=1, stated_cost=1_200_000)),
        ({"output_tokens": 7, "cost": 0.0012}, Usage(0, 7, calls=1)),
        ({"output_tokens": 7, "service_tier": "priority"}, Usage(0, 7, calls=1, priority_calls=1)),
        ({"output_tokens": 7, "service_tier": "batch"}, Usage(0, 7, calls=1, flex_calls=1, priority_calls=1)),
        ({"output_tokens": 7, "speed": "fast"}, Usage(0, 7, calls=1, flex_calls=1, priority_calls=1)),
        (
            {"output_tokens": 7, "service_tier": "standard", "inference_geo": "us"},
            Usage(0, 7, calls=1, flex_calls=1, priority_calls=1),
        ),
        (
            {"output_tokens": 7, "iterations": [{"type": "advisor_message", "input_tokens": 5, "output_tokens": 2}]},
            Usage(5, 9, calls=2, unpriced_calls=1),
        ),
        ({"output_tokens": 3, "output_tokens_details": {"thinking_tokens": 5}}, Usage(0, 3, 0, 3, calls=1)),
        ({"output_tokens_details": 5}, Usage(calls=1)),
        (None, Usage(calls=1)),
    ],
)
def test_input_includes_cached_tokens_and_missing_counts_are_zero(counted: Any, usage: Usage) -> None:
    assert read_usage(counted) == usage
