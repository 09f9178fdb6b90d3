"""The reasons for the end of a reply: what each means, whatever its spelling, and what gateways hide."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import FinishReason
from karenina_toolkit.replies.reply_ends import ENDS, NO_REASON, more_serious, read_choice_end, read_end


def test_no_reason_has_two_meanings() -> None:
    every = [reason for reasons in ENDS.values() for reason in reasons]
    assert len(every) == len(set(every))
    assert all(reason == reason.lower() and sources for reasons in ENDS.values() for reason, sources in reasons.items())


@given(st.sampled_from([(end, reason) for end, reasons in ENDS.items() for reason in reasons]))
def test_a_known_reason_is_read_in_any_spelling(known: tuple[FinishReason, str]) -> None:
    end, reason = known
    for written in (reason, reason.upper(), reason.replace("_", "-"), f"filter: {reason.upper()}"):
        assert read_end(written)[0] == end
    assert read_end({"type": reason, "length": 7})[0] == end


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ("stop", ("stop", None)),
        ("content_filter: RECITATION", ("content_filter", None)),
        (
            "function_call_filter: MALFORMED_FUNCTION_CALL",
            ("failed", "function_call_filter: MALFORMED_FUNCTION_CALL"),
        ),
        ("FINISH_REASON_SAFETY", ("content_filter", None)),
        ("FINISH_REASON_STOP", ("stop", None)),
        ("FinishReason.MAX_TOKENS", ("length", None)),
        ("maxTokens", ("length", None)),
        ("stream_error", ("failed", "stream_error")),
        ("error: length", ("failed", "error: length")),
        ("weary", ("other", "weary")),
        (7, ("other", "7")),
        (None, ("other", NO_REASON)),
        ("", ("other", NO_REASON)),
        ("x" * 1000, ("other", "x" * 80)),
    ],
)
def test_a_reason_that_is_not_normal_is_kept(given: object, end: tuple[FinishReason, str | None]) -> None:
    assert read_end(given) == end


@pytest.mark.parametrize(
    ("choice", "end"),
    [
        ({"finish_reason": "stop", "native_finish_reason": "STOP"}, "stop"),
        ({"finish_reason": "stop", "native_finish_reason": "MAX_TOKENS"}, "length"),
        ({"finish_reason": "stop", "native_finish_reason": "weary"}, "stop"),
        ({"finish_reason": "stop", "provider_specific_fields": {"native_finish_reason": "network_error"}}, "failed"),
        ({"finish_reason": "tool_calls", "native_finish_reason": "completed"}, "tool_calls"),
        ({"finish_reason": None, "native_finish_reason": "end_turn"}, "stop"),
        ({"finish_reason": "stop", "provider_specific_fields": None}, "stop"),
        ({}, "other"),
    ],
)
def test_the_reason_of_a_provider_behind_a_gateway_counts(choice: dict[str, Any], end: FinishReason) -> None:
    assert read_choice_end(choice)[0] == end


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("content_filter", "stop", "content_filter"),
        ("length", "stop", "length"),
        ("stop", "length", "length"),
        ("length", "content_filter", "content_filter"),
        ("error", "content_filter", "error"),
        ("tool_calls", "stop", "tool_calls"),
        ("weary", "stop", "stop"),
        ("stop", None, "stop"),
        (None, "stop", "stop"),
        (None, None, None),
    ],
)
def test_the_more_serious_reason_of_a_stream_is_kept(before: object, after: object, kept: object) -> None:
    assert more_serious(before, after) == kept
