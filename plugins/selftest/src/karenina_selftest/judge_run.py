"""The run of a self-test: an ordinary run of the engine, in which recorded answers take the place of a model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark import Benchmark
from karenina_benchmark.config.model_specs import recording_interface
from karenina_core.config import VerificationConfig
from karenina_core.errors import ConfigError

if TYPE_CHECKING:
    from karenina_selftest.cases import Case

RUN_NAME: Final = "selftest"
_FIXED: Final = ("answering_models", "replicate_count", "evaluation_mode")
"""Settings that a self-test chooses."""


def make_benchmark(cases: Sequence[Case]) -> Benchmark:
    """Return a benchmark with one question for each case."""
    benchmark = Benchmark.create(name="Self-test of a judge")
    for case in cases:
        benchmark.add_question(
            case.question.changed(
                id=case.id,
                keywords=(case.family,),
                rubric=None,
                dynamic_rubric=None,
                few_shot_examples=(),
                workspace_path=None,
            )
        )
    return benchmark


def make_config(cases: Sequence[Case], settings: VerificationConfig) -> VerificationConfig:
    """Return the configuration of a self-test: the judges and prompts of `settings`, and the answers of the cases.

    Raises `ConfigError` without a judge.
    """
    given = {name: value for name, value in settings.given().items() if name not in _FIXED}
    if not given.get("parsing_models"):
        raise ConfigError(["a self-test needs a judge: add one, for example --judge openai:NAME"])
    recorded: Mapping[str, Any] = {"id": "recorded", "interface": recording_interface(), "model_name": "recorded"}
    return VerificationConfig(
        **{
            "run_name": RUN_NAME,
            **given,
            "evaluation_mode": "template_only",
            "answering_models": [{**recorded, "manual_traces": {case.id: case.response for case in cases}}],
        }
    )
