"""Stage 9 in whole runs. The embedding library is a stand-in, so that this needs no torch; the plugin's own tests run
the real model."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_core import plugins as plugin_room
from karenina_core.catalog import install_command
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo
from karenina_core.plan import PlanError
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

DIAGNOSIS = """
class Answer(BaseAnswer):
    diagnosis: str = VerifiedField(description="The diagnosis", ground_truth="heart attack", verify_with=ExactMatch())
"""
RAISING = """
class Answer(BaseAnswer):
    diagnosis: str = Field(description="The diagnosis")

    def model_post_init(self, _):
        self.correct = {"diagnosis": "heart attack"}

    def verify(self):
        raise ValueError("no idea")
"""
PATTERN = """
class Answer(BaseAnswer):
    diagnosis: str = Field(description="The diagnosis")

    def model_post_init(self, _):
        self.correct = {"diagnosis": "heart attack"}
        self.regex = {"year": r"in 19[0-9][0-9]"}

    def verify(self):
        return self.diagnosis == self.correct["diagnosis"]
"""
SEMANTIC = DIAGNOSIS.replace("ExactMatch()", "SemanticMatch()")
SAME = ("heart attack", "myocardial infarction")


class Vectors(list[list[float]]):
    """Rows, with the one method of an array that is used."""

    def tolist(self) -> list[list[float]]:
        return list(self)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Return the folder of a model that knows two names of one disease, and finds everything else different."""

    class SentenceTransformer:
        def __init__(self, name: str, **_: object) -> None:
            assert name == str(tmp_path), "another model than the configured one"

        def encode(self, texts: list[str], **_: object) -> Vectors:
            return Vectors([[1.0, 0.0] if any(name in text for name in SAME) else [0.5, 0.75**0.5] for text in texts])

    library = ModuleType("sentence_transformers")
    library.__spec__ = ModuleSpec("sentence_transformers", None)
    library.SentenceTransformer = SentenceTransformer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sentence_transformers", library)
    (tmp_path / "config.json").write_text("{}", "utf-8")
    return str(tmp_path)


def judging(diagnosis: str | None, equivalent: bool = True) -> ScriptedModels:
    """Return a judge that extracts this, and then says whether it means the same as the truth."""

    def fill(_messages: object, _schema: object, info: CallInfo) -> Mapping[str, Any]:
        if info.task == "embedding_check":
            return {"reasoning": "It is another name of it.", "equivalent": equivalent}
        return {"diagnosis": diagnosis}

    return ScriptedModels(say=lambda *_: f"He had a {diagnosis}.", fill=fill)


def run(models: ScriptedModels, model: str, source: str = DIAGNOSIS, **more: Any) -> VerificationResult:
    plugins = Plugins.discover()
    plugins.register(models)
    benchmark = Benchmark.create(name="meaning")
    benchmark.add_question("What happened to him?", "heart attack", source)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")],
            parsing_models=[models.model("j")],
            **{"embedding_check_enabled": True, "embedding_check_model": model, **more},
        )
        (result,) = benchmark.run_verification(config, trust="all")
    return result


def asked(models: ScriptedModels) -> int:
    """Return how often the judge was asked whether two values mean the same."""
    return sum(request.info.task == "embedding_check" for request in models.requests)


def status(result: VerificationResult) -> str:
    return next(record.status for record in result.stages if record.name == "EmbeddingCheck")


def test_a_paraphrase_passes_where_the_judge_agrees(model: str) -> None:
    result = run(judging("myocardial infarction"), model)
    template = result.template
    assert (result.outcome, template.verify_result) == (Outcome.CORRECT, True)
    assert template.embedding_check_performed is True
    assert template.embedding_override_applied is True
    assert (template.embedding_similarity_score, template.embedding_model_used) == (1.0, model)
    assert [(change.stage, change.artifact) for change in result.revisions] == [
        ("EmbeddingCheck", "field_verification_result")
    ]
    said = result.extensions["karenina-embedding"]["embedding_check"]
    assert said == {"equivalent": True, "reasoning": "It is another name of it."}


def test_it_stays_wrong_where_the_judge_does_not(model: str) -> None:
    models = judging("no myocardial infarction", equivalent=False)
    result = run(models, model)
    assert (result.outcome, result.template.verify_result) == (Outcome.WRONG, False)
    assert result.template.embedding_override_applied is False
    assert asked(models) == 1


@pytest.mark.parametrize(("threshold", "calls"), [(0.85, 0), (0.5, 1)])
def test_the_configured_threshold_decides_whether_the_judge_is_asked(model: str, threshold: float, calls: int) -> None:
    models = judging("broken leg", equivalent=False)
    result = run(models, model, embedding_check_threshold=threshold)
    assert result.template.embedding_similarity_score == 0.5
    assert asked(models) == calls
    assert result.outcome is Outcome.WRONG


def test_a_failed_pattern_fails_the_answer_whatever_the_values_mean(model: str) -> None:
    result = run(judging("myocardial infarction"), model, PATTERN)
    assert [change.after for change in result.revisions] == [True]
    assert result.template.regex_overall_success is False
    assert (result.outcome, result.template.verify_result) == (Outcome.WRONG, False)


@pytest.mark.parametrize(
    ("source", "extracted", "outcome"),
    [
        (RAISING, "myocardial infarction", Outcome.WRONG),
        (DIAGNOSIS, None, Outcome.WRONG),
        (DIAGNOSIS, "heart attack", Outcome.CORRECT),
    ],
    ids=["verify() raised", "nothing was found", "the fields passed"],
)
def test_it_does_not_run_where_there_is_nothing_to_revise(
    model: str, source: str, extracted: str | None, outcome: Outcome
) -> None:
    models = judging(extracted)
    result = run(models, model, source)
    assert (status(result), result.outcome) == ("skipped", outcome)
    assert asked(models) == 0
    assert result.template.embedding_check_performed is False


def test_an_answer_that_was_refused_is_not_compared(model: str) -> None:
    def fill(_messages: object, schema: Any, _info: object) -> Mapping[str, Any]:
        return dict(zip(schema["properties"], ("It declines.", True), strict=True))

    result = run(ScriptedModels(fill=fill), model, abstention_enabled=True)
    assert (status(result), result.outcome) == ("skipped", Outcome.ABSTAINED)


def test_it_stands_behind_the_comparison_and_before_deep_judgment(model: str) -> None:
    models = judging("myocardial infarction")
    result = run(models, model, deep_judgment_mode="reasoning_only", slots={"parse_template": "ParseTemplate"})
    names = [record.name for record in result.stages]
    places = [names.index(name) for name in ("VerifyTemplate", "EmbeddingCheck", "DeepJudgmentAutoFail")]
    assert places == sorted(places)


def test_the_check_is_planned_only_with_templates_and_on_request(model: str) -> None:
    result = run(judging("myocardial infarction"), model, embedding_check_enabled=False)
    assert "EmbeddingCheck" not in [record.name for record in result.stages]
    assert result.outcome is Outcome.WRONG


def test_without_its_library_no_call_is_made(monkeypatch: pytest.MonkeyPatch, model: str) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # type: ignore[arg-type]  # as the import system has it
    models = judging("myocardial infarction")
    with pytest.raises(PlanError, match=re.escape(install_command("karenina-embedding[models]"))):
        run(models, model)
    assert models.requests == []


@pytest.mark.parametrize("enabled", [True, False])
def test_without_its_model_no_call_is_made(tmp_path: Path, model: str, enabled: bool) -> None:
    (tmp_path / "nothing").mkdir()
    models = judging("myocardial infarction")
    with pytest.raises(ConfigError, match="does not contain an embedding model"):
        run(models, str(tmp_path / "nothing"), SEMANTIC, embedding_check_enabled=enabled)
    assert models.requests == []


@pytest.mark.parametrize(
    ("extracted", "outcome"), [("myocardial infarction", Outcome.CORRECT), ("broken leg", Outcome.WRONG)]
)
def test_semantic_match_compares_by_the_configured_model(model: str, extracted: str, outcome: Outcome) -> None:
    result = run(judging(extracted), model, SEMANTIC, embedding_check_enabled=False)
    assert result.outcome is outcome


def test_semantic_match_without_its_plugin_is_refused_before_any_call(model: str) -> None:
    models = judging("myocardial infarction")
    from karenina_template.templates.primitives.semantic import withdraw_similarity

    withdraw_similarity()
    plugins = Plugins.discover()
    plugins.register(models)
    withdraw_similarity()
    benchmark = Benchmark.create(name="meaning")
    benchmark.add_question("What happened to him?", "heart attack", SEMANTIC)
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(answering_models=[models.model("a")], parsing_models=[models.model("j")])
        with pytest.raises(ConfigError, match=re.escape(install_command("karenina-embedding"))):
            benchmark.run_verification(config)
    assert models.requests == []
