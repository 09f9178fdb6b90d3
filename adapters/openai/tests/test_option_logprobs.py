"""The probabilities of options: when they are requested, and how they are read from the tokens of a reply."""

from __future__ import annotations

import json
from typing import Any

import pytest

from karenina_openai.parser import options_of, read_option_logprobs

OPTIONS = ("X", "Anna Holm", "none")


def reply(tokens: list[str], likeliest: dict[str, float], place: int) -> tuple[dict[str, Any], str]:
    """Return a reply of `tokens` and its text; `likeliest` are the log-probabilities at the token `place`."""
    content = [
        {
            "token": token,
            "logprob": 0.0,
            "top_logprobs": [{"token": one, "logprob": logprob} for one, logprob in likeliest.items()]
            if number == place
            else [{"token": token, "logprob": 0.0}],
        }
        for number, token in enumerate(tokens)
    ]
    return {"choices": [{"logprobs": {"content": content}}]}, "".join(tokens)


def test_options_are_those_of_an_only_field() -> None:
    value = {"type": "string", "enum": ["X", "none"]}

    assert options_of({"properties": {"value": value}}) == ("X", "none")
    assert options_of({"properties": {"value": value, "other": value}}) == ()
    assert options_of({"properties": {"value": {"type": "integer", "enum": [1, 2]}}}) == ()
    assert options_of({"properties": {"value": {"type": "string"}}}) == ()
    assert options_of({}) == ()


@pytest.mark.parametrize(
    ("tokens", "likeliest", "place"),
    [
        pytest.param(
            ['{"', "value", '":', ' "', "X", '"}'],
            {"X": -0.2, "Anna": -2.5, "An": -2.6, "no": -4.0, "Xenon": -0.1, "Y": -7.0},
            4,
            id="a token of its own",
        ),
        pytest.param(
            ['{"value":', ' "X"}'],
            {' "X"}': -0.2, ' "Anna': -2.5, ' "none"': -4.0, "X": -0.1, " ": -7.0},
            1,
            id="a token with quotation marks",
        ),
    ],
)
def test_each_option_has_the_probability_of_its_first_token(
    tokens: list[str], likeliest: dict[str, float], place: int
) -> None:
    data, text = reply(tokens, likeliest, place)

    assert read_option_logprobs(data, text, OPTIONS) == {"X": -0.2, "Anna Holm": -2.5, "none": -4.0}


def test_an_unlikely_option_has_the_lowest_probability_of_the_list() -> None:
    data, text = reply(['{"value": "', "X", '"}'], {"X": -0.2, "Y": -7.5}, 1)

    assert read_option_logprobs(data, text, OPTIONS) == {"X": -0.2, "Anna Holm": -7.5, "none": -7.5}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param({}, '{"value": "X"}', id="no choices"),
        pytest.param({"choices": [{"logprobs": None}]}, '{"value": "X"}', id="none given"),
        pytest.param({"choices": [{"logprobs": {"content": []}}]}, '{"value": "X"}', id="no tokens"),
        pytest.param(reply(['{"value": "', "X"], {"X": -1.0}, 1)[0], '{"other": "X"}', id="tokens of another text"),
        pytest.param(reply(['{"value": "', "X"], {}, 1)[0], '{"value": "X"}', id="no likeliest tokens"),
        pytest.param(reply(['{"value": "', "X"], {"X": float("nan")}, 1)[0], '{"value": "X"}', id="no number"),
        pytest.param(reply(["X"], {"X": -1.0}, 0)[0], "X", id="no object"),
    ],
)
def test_what_cannot_be_read_is_none(data: Any, text: str) -> None:
    assert read_option_logprobs(json.loads(json.dumps(data)), text, OPTIONS) is None
