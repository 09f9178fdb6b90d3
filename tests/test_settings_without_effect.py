"""Settings of stages that are not in the plan are reported."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from karenina import Benchmark, VerificationConfig
from karenina.templates import BaseAnswer, ExactMatch, VerifiedField
from karenina_core import plugins as plugin_room
from karenina_core.data.rubrics import RegexRubricTrait, Rubric
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels


class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())


def warnings_of(caplog: pytest.LogCaptureFixture, **settings: Any) -> list[str]:
    """Run one question with these settings, and return the warnings."""
    plugins = Plugins.discover()
    plugins.register(ScriptedModels(say=lambda *_: "It is BCL2.", fill=lambda *_: {"gene": "BCL2"}))
    model = {"id": "m", "interface": "scripted", "model_name": "m"}
    settings = {"answering_models": [model], "parsing_models": [model], **settings}
    benchmark = Benchmark.create(name="one")
    benchmark.add_question("Which gene?", "BCL2", Answer)
    with plugin_room.use_plugins(plugins), caplog.at_level(logging.WARNING, "karenina"):
        config = VerificationConfig(**settings)
        benchmark.run_verification(config, progress=False)
    return [text for text in caplog.messages if "no effect" in text or "differ only in their ids" in text]


def test_a_setting_of_a_stage_that_is_left_out_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(caplog, embedding_check_threshold=0.5) == [
        "embedding_check_threshold is set but has no effect: embedding_check_enabled is false (EmbeddingCheck)"
    ]


@pytest.mark.parametrize("settings", [{"abstention_enabled": True}, {"embedding_check_enabled": False}, {}])
def test_settings_that_are_used_or_defaults_are_not_reported(
    caplog: pytest.LogCaptureFixture, settings: dict[str, Any]
) -> None:
    assert warnings_of(caplog, **settings) == []


def test_a_benchmark_in_a_file_without_templates_causes_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    benchmark = Benchmark.create(name="one")
    benchmark.add_question("Which gene?")
    benchmark.global_rubric = Rubric.of(RegexRubricTrait(name="long", pattern="."))
    benchmark.save(tmp_path / "one.yaml")
    plugins = Plugins.discover()
    plugins.register(ScriptedModels(say=lambda *_: "It is BCL2."))
    model = {"id": "m", "interface": "scripted", "model_name": "m"}
    config = VerificationConfig(answering_models=[model], parsing_models=[model], evaluation_mode="rubric_only")
    with plugin_room.use_plugins(plugins), caplog.at_level(logging.WARNING, "karenina"):
        Benchmark.load(tmp_path / "one.yaml").run_verification(config, progress=False)
    assert [text for text in caplog.messages if "no effect" in text] == []


def test_equal_models_under_two_ids_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    models = [{"id": id, "interface": "scripted", "model_name": "m"} for id in ("m", "n")]
    assert warnings_of(caplog, parsing_models=models) == [
        "the judges 'm' and 'n' differ only in their ids, so they share replies and have equal results; remove one of "
        "them (to call a model several times, use replicate_count)"
    ]
