"""Public names stay in their modules."""

from __future__ import annotations

from importlib import import_module

import pytest

PUBLIC = {
    "karenina": "Benchmark Question ModelConfig VerificationConfig VerificationResult VerificationResultSet Outcome "
    "calibrate compare write_report",
    "karenina_core": "API_VERSION ArtifactKey ArtifactKeys Slot Stage CheckStage AutoFailStage Skip "
    "VerificationContext hookimpl hookspec Question ModelConfig VerificationConfig VerificationResult Outcome "
    "AdapterSpec AgentTier LLMPort ParserPort AgentPort Message Usage",
    "karenina.templates": "BaseAnswer VerifiedField BooleanMatch ExactMatch ContainsAny ContainsAll RegexMatch "
    "SemanticMatch LiteralMatch NumericExact NumericTolerance NumericRange NumericMinimum NumericMaximum "
    "NumericGraded NumericRangeGraded NumericThresholdGraded NumberWithUnit SetContainment OrderedMatch Choice "
    "DateMatch DateTolerance DateRange TraceRegex TraceContains TraceLength TraceJSON AllOf AnyOf AtLeastN FieldCheck "
    "SynonymMap",
    "karenina.rubrics": "Rubric DynamicRubric LLMRubricTrait RegexRubricTrait CallableRubricTrait "
    "MetricRubricTrait AgenticRubricTrait",
    "karenina_toolkit.traces": "validate_trace",
    "karenina_testing": "ScriptedModels run_stage",
}

CONTEXT = (
    "get_artifact find_artifact set_artifact revise_artifact set_result_field veto vetoes mark_error error question "
    "rubric answering_model parsing_model replicate run_name config settings setting log at_end in_thread llm parser "
    "agent"
)

BENCHMARK = "create load save add_question plan run_verification arun_verification rescore"


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in PUBLIC.items() for name in names.split()]
)
def test_a_public_name_is_where_the_design_says(module: str, name: str) -> None:
    assert hasattr(import_module(module), name)


@pytest.mark.parametrize("name", CONTEXT.split())
def test_the_context_has_what_stages_are_promised(name: str) -> None:
    from karenina_core import VerificationContext

    assert hasattr(VerificationContext, name)


@pytest.mark.parametrize("name", BENCHMARK.split())
def test_a_benchmark_has_what_users_are_promised(name: str) -> None:
    from karenina import Benchmark

    assert callable(getattr(Benchmark, name))
