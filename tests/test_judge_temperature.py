"""Judges are called with temperature 0 unless the user sets another one or the server refuses it."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from servers import RecordingServer, Said, recording_server

from karenina import Benchmark, VerificationConfig, VerificationResultSet
from karenina_testing.server import Reply

TEMPLATE: Final = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
REFUSAL: Final = {
    "error": {
        "message": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
        "supported.",
        "type": "invalid_request_error",
        "param": "temperature",
        "code": "unsupported_value",
    }
}


def reply(body: dict[str, Any]) -> Said:
    return '{"gene": "BCL2"}' if "response_format" in body else "It is BCL2."


def refusing(body: dict[str, Any]) -> Said:
    if "temperature" in body:
        return Reply(REFUSAL, status=400)
    return reply(body)


def run(server: RecordingServer, interface: str, *, questions: int = 1, **judge: Any) -> VerificationResultSet:
    benchmark = Benchmark.create(name="genes")
    for number in range(questions):
        benchmark.add_question(f"Which gene is number {number}?", "BCL2", TEMPLATE, question_id=f"q{number}")
    model = {"interface": interface, "model_name": "m", "endpoint_base_url": server.url, "endpoint_api_key": "k"}
    config = VerificationConfig(
        answering_models=[{"id": "a", **model}], parsing_models=[{"id": "j", **model, **judge}], max_concurrency=1
    )
    return benchmark.run_verification(config)


def temperatures(server: RecordingServer) -> list[float | None]:
    """Return the temperature of each request to the judge, in their order."""
    bodies = [json.loads(seen.rpartition("\n")[2]) for seen in server.seen]
    return [body.get("temperature") for body in bodies if "response_format" in body]


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint"])
def test_a_judge_is_asked_at_temperature_0(interface: str) -> None:
    with recording_server(reply) as server:
        results = run(server, interface)
    assert [one.outcome for one in results] == ["correct"]
    assert temperatures(server) == [0.0]
    assert "temperature" not in json.loads(server.seen[0].rpartition("\n")[2])  # the answering model's own


def test_a_temperature_of_the_user_stands() -> None:
    with recording_server(reply) as server:
        run(server, "openai", temperature=0.3)
    assert temperatures(server) == [0.3]


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint"])
def test_a_server_that_refuses_the_temperature_is_asked_without_it(interface: str) -> None:
    with recording_server(refusing) as server:
        results = run(server, interface, questions=2)
    assert [one.outcome for one in results] == ["correct", "correct"]
    assert temperatures(server) == [0.0, None, None]


def test_a_judge_without_a_temperature_is_asked_once() -> None:
    with recording_server(lambda body: Reply(REFUSAL, status=400) if "response_format" in body else "Yes.") as server:
        results = run(server, "openai", questions=2)
    assert [one.outcome for one in results] == ["parse_error", "parse_error"]
    assert temperatures(server) == [0.0, None, None]


def test_a_refused_temperature_of_the_user_is_an_error() -> None:
    with recording_server(refusing) as server:
        (result,) = run(server, "openai", temperature=0.3)
    assert result.outcome == "parse_error"
    assert "temperature" in (result.metadata.error or "")
