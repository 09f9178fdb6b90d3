"""The events of a run: one for each verdict, and one for each score of a trait."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from otel_runs import traced

from karenina_core import ModelConfig, Outcome, VerificationResult
from karenina_core.data.sections import ModelIdentity, StageRecord, VerificationResultMetadata, VetoRecord
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.ports import ErrorCategory, PortError
from karenina_otel import conventions
from karenina_otel.attributes import evaluations
from karenina_otel.conventions import server_of
from karenina_testing import ScriptedModels

WHO = ModelIdentity(interface="scripted", model_name="m")
IDS = {"question_id": "q", "template_id": "t", "result_id": "r", "question_text": "Which?", "answering_id": "m"}


def result(outcome: str = "correct", error: str | None = None, **sections: Any) -> VerificationResult:
    """Return a result with this outcome."""
    metadata = VerificationResultMetadata(**IDS, parsing_id="j", answering=WHO, parsing=WHO, error=error)
    return VerificationResult(metadata=metadata, outcome=Outcome(outcome), **sections)


def told(found: VerificationResult, *, content: bool = False) -> list[dict[str, Any]]:
    """Return the attributes of the events, without the conventions' prefix."""
    return [
        {name.removeprefix("gen_ai.evaluation."): value for name, value in one.attributes().items()}
        for one in evaluations(found, content=content)
    ]


RAN = {"distribution": "d", "version": "1"}
BROKEN = [StageRecord(name="ParseTemplate", status="failed", error="it said: secret answer", **RAN)]
VETO = [VetoRecord(stage="AbstentionCheck", reason="it said: I will not", outcome=Outcome.ABSTAINED)]
UNDECIDED = {
    "field_results": {"day": None, "dose": True},
    "field_verification_error": "field day: 01/02/2024 can be two dates",
}
WRONG = {"verify_result": False, "field_results": {"gene": False, "dose": True}}


@pytest.mark.parametrize(
    ("found", "plain", "with_content"),
    [
        (result(template={"verify_result": True}), (1.0, "correct", "every field matches", None), None),
        (result("wrong", template=WRONG), (0.0, "wrong", "gene differs from the ground truth", None), None),
        (
            result("abstained", template={"verify_result": False}, vetoes=VETO),
            (0.0, "abstained", "AbstentionCheck vetoed", None),
            "AbstentionCheck: it said: I will not",
        ),
        (
            result("parse_error", error="it said: secret answer", stages=BROKEN),
            (None, "parse_error", "ParseTemplate failed", "parse_error"),
            "it said: secret answer",
        ),
        (
            result("undecided", template=UNDECIDED),
            (None, "undecided", "undecided: day", "undecided"),
            "field day: 01/02/2024 can be two dates",
        ),
    ],
)
def test_a_verdict_is_an_evaluation_of_correctness(
    found: VerificationResult, plain: tuple[Any, ...], with_content: str | None
) -> None:
    (one,) = evaluations(found, content=False)
    assert (one.name, one.value, one.label, one.explanation, one.error) == ("correctness", *plain)
    (open_one,) = evaluations(found, content=True)
    assert open_one.explanation == (with_content or plain[2])


def test_every_score_of_a_trait_is_an_evaluation() -> None:
    rubric = {
        "llm_trait_scores": {"warm": True, "clear": 4, "tone": 1, "table": {"said": "secret"}, "lost": None},
        "llm_trait_labels": {"tone": "formal"},
        "regex_trait_scores": {"cites": False},
        "metric_trait_scores": {"terms": {"precision": 0.5, "recall": 1.0}},
        "agentic_trait_scores": {"builds": 2},
        "trait_errors": {"lost": "the judge said: secret"},
    }
    extensions = {"karenina-agentic": {"agentic_trait_labels": {"builds": "all"}}}
    found = result("scored", rubric=rubric, extensions=extensions)
    assert told(found) == [
        {"name": "warm", "score.value": 1.0, "score.label": "true"},
        {"name": "clear", "score.value": 4.0},
        {"name": "tone", "score.value": 1.0, "score.label": "formal"},
        {"name": "table"},
        {"name": "lost", "error.type": "trait_error"},
        {"name": "cites", "score.value": 0.0, "score.label": "false"},
        {"name": "terms.precision", "score.value": 0.5},
        {"name": "terms.recall", "score.value": 1.0},
        {"name": "builds", "score.value": 2.0, "score.label": "all"},
    ]
    assert {one["name"]: one.get("explanation") for one in told(found, content=True)}[
        "lost"
    ] == "the judge said: secret"


def test_events_belong_to_the_call_of_the_answer() -> None:
    got = traced(judges=["judge", "other"])
    assert [event.event_name for event in got.events] == ["gen_ai.evaluation.result"] * 4
    assert {event.span_id for event in got.events} == {got.one("chat tested").context.span_id}
    assert {event.attributes["karenina.judge.id"] for event in got.events} == {"judge", "other"}


def test_events_belong_to_the_item_without_an_answer_call() -> None:
    def say(*_asked: Any) -> str:
        raise PortError("no", category=ErrorCategory.PERMANENT)

    got = traced(ScriptedModels(say=say))
    assert {event.span_id for event in got.events} == {got.one("karenina item").context.span_id}


@pytest.mark.parametrize("also", [True, False])
def test_item_spans_have_evaluations_too_unless_disabled(also: bool) -> None:
    item = traced(otel_span_events=also).one("karenina item")
    assert [event.attributes["gen_ai.evaluation.name"] for event in item.events] == ["correctness", "warm"] * also


def test_the_names_are_those_of_the_published_conventions() -> None:
    published = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    ours = {value for value in vars(conventions).values() if isinstance(value, str) and value.startswith("gen_ai.")}
    assert len(ours) > 15
    assert ours - published == {"gen_ai.evaluation.result"}


def spec(served_by: str | None) -> AdapterSpec:
    return AdapterSpec(interface="openai", description="", served_by=lambda _model: served_by)


@pytest.mark.parametrize(
    ("interface", "served_by", "provider", "address"),
    [
        ("openai", "https://api.openai.com/v1", "openai", ("api.openai.com", 443)),
        ("openai", "http://localhost:8000/v1", "openai", ("localhost", 8000)),
        ("openai_endpoint", "http://10.0.0.1/v1", "openai", ("10.0.0.1", 80)),
        ("openai", "https://mine.openai.azure.com/openai/v1", "azure.ai.openai", ("mine.openai.azure.com", 443)),
        ("openai", "https://notapi.openai.com.evil.example/v1", "openai", ("notapi.openai.com.evil.example", 443)),
        ("claude_tool", "https://api.anthropic.com", "anthropic", ("api.anthropic.com", 443)),
        ("claude_tool", "http://[::1]:9/", "anthropic", ("::1", 9)),
        ("langchain", "mistralai", "mistral_ai", None),
        ("langchain", "https://api.x.ai/v1", "x_ai", ("api.x.ai", 443)),
        ("openai", "https://user:secret@models.example/v1?key=secret", "openai", ("models.example", 443)),
        ("openai", "http://host:port-that-is-none/", "openai", None),
        ("local", None, "local", None),
    ],
)
def test_the_provider_has_the_conventions_name(
    interface: str, served_by: str | None, provider: str, address: tuple[str, int] | None
) -> None:
    model = ModelConfig(id="m", interface=interface, model_name="m")
    name, server = server_of(model, spec(served_by))
    assert name == provider
    assert server == ({"server.address": address[0], "server.port": address[1]} if address else {})


def test_an_unscored_trait_is_named_and_its_error_is_content() -> None:
    rubric = {"llm_trait_scores": {"lost": None}, "trait_errors": {"lost": "the judge said: secret"}}
    found = result("rubric_error", rubric=rubric)
    verdict, trait = told(found)
    assert verdict["error.type"] == "rubric_error"
    assert verdict["explanation"] == "traits that could not be scored: lost"
    assert "secret" not in str((verdict, trait))
    assert "secret" in str(told(found, content=True))
