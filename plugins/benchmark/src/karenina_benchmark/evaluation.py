"""Evaluates existing outputs from a product, a log, or another program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from karenina_benchmark.benchmark import Benchmark
from karenina_benchmark.config.model_specs import parse_models, recording_interface
from karenina_core.config import VerificationConfig
from karenina_core.data.rubrics import Rubric
from karenina_core.errors import ConfigError, RunError
from karenina_core.models.model import ModelConfig
from karenina_toolkit.answers.answer_keys import NO_QUESTION

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.data.result import VerificationResult
    from karenina_core.data.rubrics import RubricTrait
    from karenina_core.data.trust import Trust
    from karenina_engine.results.result_set import VerificationResultSet

Response = str | Sequence[Mapping[str, Any]] | Mapping[str, Any]
"""An output, given as text or as a conversation in a format for recordings (docs/how-to/recorded-answers.md)."""
Judge = str | Mapping[str, Any] | ModelConfig
"""A judge, given as `interface:model_name`, as a model's fields, or as a `ModelConfig`."""

_OUTPUT: Final = "output"


@dataclass(frozen=True, slots=True)
class Output:
    """An output to evaluate, with its id and question."""

    id: str
    response: Response
    question: str = NO_QUESTION


def evaluate(
    *,
    response: Response,
    template: type[Any] | str | None = None,
    rubric: Rubric | Sequence[RubricTrait] | None = None,
    judge: Judge | None = None,
    question: str = NO_QUESTION,
    config: VerificationConfig | Mapping[str, Any] | None = None,
    journal: str | Path | None = None,
    trust: Trust | Literal["all"] | None = None,
    progress: bool | None = None,
) -> VerificationResult:
    """Judge one output and return its result. This may call the judge, which costs money. If the output cannot be
    judged, the outcome of the result says so. Raises `ConfigError` if there is neither a template nor a rubric,
    `RunError` if a budget or a time limit is reached first, and any exception that `Benchmark.run_verification` raises.

    `response` is text or a conversation. `template` is an answer template (a class or its source), and `rubric`
    contains the traits to score. Pass at least one of the two. `question` is the question that the output answers, if
    known. `judge` can be omitted if no model is needed. `config` contains other settings, such as a `budget`, or
    `parsing_models` for several judges. `journal` is a file that stores replies for the next call. `trust` and
    `progress` work as in `Benchmark.run_verification`. If there are several judges and no panel, the first judge's
    result is returned.
    """
    benchmark, settings = prepare_evaluation(
        [Output(_OUTPUT, response, question)], template=template, rubric=rubric, judge=judge, config=config
    )
    return _first_result(benchmark.run_verification(settings, journal=journal, trust=trust, progress=progress))


async def aevaluate(
    *,
    response: Response,
    template: type[Any] | str | None = None,
    rubric: Rubric | Sequence[RubricTrait] | None = None,
    judge: Judge | None = None,
    question: str = NO_QUESTION,
    config: VerificationConfig | Mapping[str, Any] | None = None,
    journal: str | Path | None = None,
    trust: Trust | Literal["all"] | None = None,
    progress: bool | None = None,
) -> VerificationResult:
    """Judge one output from async code. Arguments and exceptions are the same as for `evaluate`."""
    benchmark, settings = prepare_evaluation(
        [Output(_OUTPUT, response, question)], template=template, rubric=rubric, judge=judge, config=config
    )
    return _first_result(await benchmark.arun_verification(settings, journal=journal, trust=trust, progress=progress))


def _first_result(results: VerificationResultSet) -> VerificationResult:
    """Return the first result. Raises `RunError` if there is none, because a limit stopped the run."""
    if not len(results):
        why = "its budget or run_timeout was reached, as a logged warning says"
        raise RunError(f"the output was not judged because {why}; raise the limit")
    return results[0]


def prepare_evaluation(
    outputs: Iterable[Output],
    *,
    template: type[Any] | str | None,
    rubric: Rubric | Sequence[RubricTrait] | None,
    judge: Judge | None,
    config: VerificationConfig | Mapping[str, Any] | None = None,
) -> tuple[Benchmark, VerificationConfig]:
    """Return a benchmark with a question for each output, and the configuration for judging the outputs. No model is
    called. All arguments except `outputs` are the same as for `evaluate`. Raises `ConfigError` if there is neither a
    template nor a rubric, if two outputs have the same id, or if `config` contains answering models, or judges in
    addition to `judge`.
    """
    if template is None and not rubric:
        raise ConfigError(["cannot judge outputs without a template or a rubric; pass template=, rubric= or both"])
    benchmark = Benchmark.create(name="outputs")
    responses: dict[str, Response] = {}
    for output in outputs:
        if output.id in responses:
            raise ConfigError([f"two outputs have the id {output.id!r}; give each output its own id"])
        responses[output.id] = output.response
        benchmark.add_question(output.question, answer_template=template, question_id=output.id)
    if rubric:
        benchmark.global_rubric = rubric if isinstance(rubric, Rubric) else Rubric.of(*rubric)
    recorded = {"id": "recorded", "interface": recording_interface(), "model_name": "recorded"}
    values = {
        "evaluation_mode": _mode(template is not None, bool(rubric)),
        "parsing_models": [_model(judge)] if judge is not None else [],
        **_settings(config, has_judge=judge is not None),
        "answering_models": [{**recorded, "manual_traces": responses}],
    }
    return benchmark, VerificationConfig(**values)


def _mode(has_template: bool, has_rubric: bool) -> str:
    if has_template and has_rubric:
        return "template_and_rubric"
    return "template_only" if has_template else "rubric_only"


def _settings(config: VerificationConfig | Mapping[str, Any] | None, *, has_judge: bool) -> dict[str, Any]:
    """Return the settings in `config` as a new dict. Raises `ConfigError` if they include answering models, or judges
    although `has_judge` is set.
    """
    values = dict(config.given() if isinstance(config, VerificationConfig) else config or {})
    if "answering_models" in values:
        why = "the outputs take the place of model answers"
        raise ConfigError([f"answering_models cannot be set here because {why}; remove answering_models"])
    if has_judge and "parsing_models" in values:
        raise ConfigError(["parsing_models and judge= both specify judges; pass only one of them"])
    return values


def _model(judge: Judge) -> Mapping[str, Any] | ModelConfig:
    """Return a judge as a model. A string is a model in short form, and a mapping's `id` defaults to its model name."""
    if isinstance(judge, str):
        return parse_models([judge])[0]
    if isinstance(judge, ModelConfig):
        return judge
    return {"id": judge.get("model_name", "judge"), **judge}
