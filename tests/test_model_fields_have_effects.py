"""Every field of a model changes requests, results or messages, for an answering model and for a judge.

A new field of `ModelConfig` without a case fails here.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any, Final

import pytest
from servers import recording_server

from karenina import Benchmark, VerificationConfig
from karenina_core import ModelConfig
from karenina_core.errors import KareninaError

TEMPLATE: Final = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
SERVERS: Final = {"clock": "http://127.0.0.1:1/mcp"}

VALUES: Final[dict[str, Any]] = {
    "id": "another",
    "interface": "openai_endpoint",
    "model_name": "another",
    "model_provider": "openai",
    "endpoint_base_url": "http://127.0.0.1:1/v1",
    "endpoint_api_key": "sk-another",
    "temperature": 0.7,
    "max_tokens": 77,
    "system_prompt": "Speak plainly.",
    "mcp_urls_dict": SERVERS,
    "mcp_tool_filter": ["now"],
    "mcp_tool_description_overrides": {"now": "The time."},
    "mcp_server_options": {"clock": {"headers": {"x": "y"}}},
    "request_timeout": 0.0001,
    "max_reply_bytes": 10,
    "stream_timeout": 0.0001,
    "agent_timeout": 5.0,
    "agent_max_turns": 3,
    "stateless_tools": True,
    "manual_traces": {"q": "It is BCL2."},
    "extra": {"query": {"version": "2"}},
}
"""A value of each field that differs from what it is without it."""

OTHERS: Final[dict[str, dict[str, Any]]] = {"stream_timeout": {"extra": {"stream": True}}}
"""Other fields, set in both runs."""

UNUSED = ("model_provider", "manual_traces", "agent_timeout", "agent_max_turns", "stateless_tools")
"""Fields that have no effect on a plain model."""

TIMES = {"request_timeout", "stream_timeout"}


async def reply(body: dict[str, Any]) -> str:
    return '{"gene": "BCL2"}' if "response_format" in body else "It is BCL2."


async def late_reply(body: dict[str, Any]) -> str:
    await asyncio.sleep(0.3)
    return await reply(body)


def seen(
    role: str, fields: Mapping[str, Any], caplog: pytest.LogCaptureFixture
) -> tuple[list[str], dict[str, Any] | str, list[str]]:
    """Run one question with these fields of one model; return its requests, the result or error, and the warnings."""
    caplog.clear()
    with recording_server(late_reply if TIMES & fields.keys() else reply) as server:
        same = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
        models = {name: {"id": name, **same, **(fields if name == role else {})} for name in ("answering", "judge")}
        benchmark = Benchmark.create(name="one")
        benchmark.add_question("Which gene?", "BCL2", TEMPLATE, question_id="q")
        found: dict[str, Any] | str
        try:
            config = VerificationConfig(
                answering_models=[models["answering"]],
                parsing_models=[models["judge"]],
                retry_connection=0,
                retry_timeout=0,
                retry_server=0,
            )
            found = _lasting(benchmark.run_verification(config)[0].model_dump(mode="json"))
        except KareninaError as error:
            found = str(error)
        host = server.url.removeprefix("http://").removesuffix("/v1")
        warned = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]

        def told(value: Any) -> Any:
            return json.loads(json.dumps(value).replace(host, "HOST"))

        return told(server.seen), told(found), told(warned)


def _lasting(result: dict[str, Any]) -> dict[str, Any]:
    """Return the result without its times."""
    for name in ("timestamp", "execution_time", "result_id"):
        del result["metadata"][name]
    return {**result, "stages": [(stage["name"], stage["status"]) for stage in result["stages"]]}


def test_every_field_has_a_case() -> None:
    # `files_within` is set by the check of a benchmark: tests/attacks/test_named_files_are_those_of_the_run.py
    assert set(VALUES) | {"files_within"} == set(ModelConfig.model_fields)


def test_runs_that_differ_in_nothing_are_equal(caplog: pytest.LogCaptureFixture) -> None:
    assert seen("judge", {}, caplog) == seen("judge", {}, caplog)


@pytest.mark.parametrize("role", ["answering", "judge"])
@pytest.mark.parametrize("field", VALUES)
def test_a_field_has_an_effect(field: str, role: str, caplog: pytest.LogCaptureFixture) -> None:
    others = OTHERS.get(field, {})
    without = seen(role, others, caplog)
    assert seen(role, {**others, field: VALUES[field]}, caplog) != without


@pytest.mark.parametrize("role", ["answering", "judge"])
@pytest.mark.parametrize(
    "field", ["model_provider", "manual_traces", "agent_timeout", "agent_max_turns", "stateless_tools"]
)
def test_an_unused_model_field_is_warned_about(field: str, role: str, caplog: pytest.LogCaptureFixture) -> None:
    _, result, warned = seen(role, {field: VALUES[field]}, caplog)
    assert isinstance(result, dict)
    assert result["outcome"] == "correct"
    (warning,) = warned
    assert f"{field} is set but has no effect" in warning
    assert repr(role) in warning


def test_servers_of_a_judge_without_tools_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    _, _, warned = seen("judge", {"mcp_urls_dict": SERVERS}, caplog)
    assert [one for one in warned if "mcp_urls_dict is set but has no effect" in one]


def test_agent_fields_of_recorded_answers_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    recorded = {"interface": "manual", "manual_traces": {"q": "It is BCL2."}, "endpoint_base_url": None}
    _, _, warned = seen("answering", {**recorded, "mcp_urls_dict": SERVERS, "agent_max_turns": 3}, caplog)
    why = "because the model's answers are recorded"
    assert [one for one in warned if f"agent_max_turns is set but has no effect {why}" in one]
