"""`karenina run` sends telemetry to a real collector, even if it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping

import preloaded
from conftest import Environment
from gene_questions import TWO_GENES
from otel_collector import attributes, collect_telemetry
from servers import RecordingServer, recording_server

KEY = "sk-most-secret"
CONTENT = (b"venetoclax", b"I think that it is", b"TP53", KEY.encode())


def reply(body: Mapping[str, object]) -> str:
    """Return a model that says BCL2 to everything, and as judge extracts it."""
    return json.dumps({"gene": "BCL2"}) if "response_format" in body else "I think that it is BCL2."


def started(site: Environment, server: RecordingServer, collector: str, *arguments: str) -> subprocess.Popen[str]:
    """Return a run that tells the collector of itself."""
    model = f"openai:m@{server.url}"
    command = [preloaded.scripts() / "karenina", "run", site.write("genes.yaml", TWO_GENES)]
    command += ["-a", model, "-j", model, *arguments]
    asked = {"KARENINA_OTEL": "true", "OPENAI_API_KEY": KEY, "OTEL_EXPORTER_OTLP_ENDPOINT": collector}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=site.folder, env={**os.environ, **asked}, text=True, **pipes)


def test_a_collector_gets_the_run_its_calls_and_its_verdicts(site: Environment) -> None:
    with collect_telemetry() as collector, recording_server(reply) as server:
        running = started(site, server, collector.url, "--json")
        out, err = running.communicate(timeout=120)

    assert running.returncode == 0, err
    assert {resource["service.name"] for resource in collector.resources} == {"karenina"}
    assert attributes(collector.one("karenina run"))["karenina.run.pass_rate"] == 0.5
    calls = [span for span in collector.spans if span.name == "chat m"]
    assert sorted(map(tuple, map(collector.path, calls))) == [
        ("karenina run", "karenina answer", "karenina item", "stage ParseTemplate", "chat m"),
        ("karenina run", "karenina answer", "karenina item", "stage ParseTemplate", "chat m"),
        ("karenina run", "karenina answer", "stage GenerateAnswer", "chat m"),
        ("karenina run", "karenina answer", "stage GenerateAnswer", "chat m"),
    ]
    for call in map(attributes, calls):
        assert (call["gen_ai.provider.name"], call["gen_ai.response.model"]) == ("openai", call["gen_ai.request.model"])
        assert (call["gen_ai.usage.input_tokens"], call["gen_ai.usage.output_tokens"]) == (3, 2)
        assert call["server.address"] == "127.0.0.1"
    told = {}
    for event in collector.events:
        assert event.event_name == "gen_ai.evaluation.result"
        found = attributes(event)
        told[found["karenina.question.id"]] = (
            found["gen_ai.evaluation.score.value"],
            found["gen_ai.evaluation.score.label"],
            found["gen_ai.evaluation.explanation"],
        )
        assert event.span_id in [call.span_id for call in calls]
    assert told == {
        "first": (1.0, "correct", "every field matches"),
        "second": (0.0, "wrong", "gene differs from the ground truth"),
    }
    assert len(json.loads(out)["results"]) == 2
    assert [text for text in CONTENT for body in collector.bodies if text in body] == []


def test_a_run_stopped_by_ctrl_c_sends_its_telemetry(site: Environment) -> None:
    release = threading.Event()

    def hangs(body: Mapping[str, object]) -> str:
        if "mutated" in json.dumps(body):
            waiting.set()
            release.wait(200)
        return reply(body)

    waiting = threading.Event()
    with collect_telemetry() as collector, recording_server(hangs) as server:
        running = started(site, server, collector.url, "-o", "out.jsonl")
        try:
            assert waiting.wait(120)
            running.send_signal(signal.SIGINT)
            assert running.stderr is not None
            assert running.stderr.readline()
            running.send_signal(signal.SIGINT)  # it does not wait for what is under way
            _, err = running.communicate(timeout=120)
        finally:
            release.set()
            running.kill()

    assert running.returncode == 130, err
    assert attributes(collector.one("karenina run"))["karenina.interrupted"] is True
    by_id = {span.span_id for span in collector.spans}
    assert all(span.parent_span_id in by_id for span in collector.spans if span.parent_span_id)
