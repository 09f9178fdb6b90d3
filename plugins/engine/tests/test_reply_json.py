"""Replies as the JSON that a journal stores."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.models.ports import ParserReply
from karenina_engine.calls.reply_json import dump_reply, load_reply


@given(st.none() | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.floats(max_value=0.0)))
def test_probabilities_of_options_are_stored(logprobs: dict[str, float] | None) -> None:
    reply = ParserReply('{"value": "X"}', "json_schema", option_logprobs=logprobs)

    assert load_reply("parser", dump_reply(reply)) == reply


@pytest.mark.parametrize("logprobs", [[-1.0], "X", {"X": "likely"}, {"X": None}])
def test_damaged_probabilities_are_an_error(logprobs: Any) -> None:
    stored = {**json.loads(dump_reply(ParserReply("{}", "json_schema"))), "option_logprobs": logprobs}

    with pytest.raises((AttributeError, TypeError, ValueError)):
        load_reply("parser", json.dumps(stored))
