"""The checks of a run's stages before the first call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter, registered_adapters
from karenina_core.errors import ConfigError
from karenina_core.stages.stage import ModelNeed, ServiceNeed, Stage, registered_stages
from karenina_engine.check.model_checks import check_models
from karenina_engine.check.planner import Planner, QuestionSubset

if TYPE_CHECKING:
    from array import array

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins


def check_configuration(plugins: Plugins, config: VerificationConfig) -> None:
    """Let every installed stage check the configuration (`Stage.before_any_run`).

    Raises `ConfigError` with all problems.
    """
    problems: list[str] = []
    for offered in registered_stages(plugins):
        if offered.stage.before_any_run is Stage.before_any_run:
            continue
        try:
            offered.stage().before_any_run(config)
        except ConfigError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(f"{offered.stage.name}: {error}")
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def check_stages(
    plugins: Plugins,
    config: VerificationConfig,
    questions: Sequence[Question],
    trust: Trust,
    survey: Mapping[str, tuple[Stage, array[int]]],
    *,
    offline: bool = False,
) -> list[ModelNeed]:
    """Let each stage check what would fail its items (`Stage.before_run`), and check the models that it needs.

    `survey` holds the questions that each stage checks (`Planner.survey`). Returns the models that stages need, with
    the roles and ports that they need them for. Raises `ConfigError` with all problems.
    """
    problems: list[str] = []
    found: list[ModelNeed] = []
    for name, (stage, places) in survey.items():
        checked = questions if len(places) == len(questions) else QuestionSubset(questions, places)
        try:
            needs = list(stage.before_run(config, checked, trust))
        except ConfigError as error:
            problems += error.problems
        except ValueError as error:
            problems.append(f"{name}: {error}")
        else:
            models = [need for need in needs if isinstance(need, ModelNeed)]
            problems += [need.problem for need in needs if isinstance(need, ServiceNeed) and not offline]
            problems += _model_problems(plugins, config, name, models, offline=offline)
            found += models
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    return found


def _model_problems(
    plugins: Plugins, config: VerificationConfig, name: str, needs: Sequence[ModelNeed], *, offline: bool
) -> list[str]:
    """Return the problems of the models that a stage needs; those of the configuration have been checked already."""
    configured = (*config.core.answering_models, *config.core.parsing_models)
    problems: list[str] = []
    for need in needs:
        try:
            if not any(need.model is model for model in configured):
                check_models(plugins, [(need.role, need.model)], offline=offline)
        except ConfigError as error:
            problems += error.problems
            continue
        problems += missing_ports(need.role, need.model, name, plugins, need.ports)
    return problems


def missing_ports(role: str, model: ModelConfig, stage: str, plugins: Plugins, ports: Set[str]) -> list[str]:
    """Return a problem for each port that a stage calls and the model does not have."""
    return [
        f"{role} {model.id!r}: {stage} needs the {port} port, which the adapter {model.interface!r} "
        f"does not have{_adapters_with_port(plugins, port)}"
        for port in sorted(ports - set(ports_of(plugins, model)))
    ]


def ports_of(plugins: Plugins, model: ModelConfig) -> tuple[str, ...]:
    """Return the names of the ports of the model's adapter."""
    return find_adapter(plugins, model.interface).spec.ports


def _adapters_with_port(plugins: Plugins, port: str) -> str:
    able = sorted(
        one.spec.interface for one in registered_adapters(plugins) if port in one.spec.ports and not one.spec.recorded
    )
    return f"; these adapters have it: {', '.join(able)}" if able else "; no installed adapter has it"


def check_judges(
    plugins: Plugins, config: VerificationConfig, questions: Sequence[Question], trust: Trust, planner: Planner
) -> None:
    """Check that the stages have the judges that they call, before answers are paid for that cannot be judged.

    Raises `ConfigError` if there is no judge, or one without the ports that a stage calls. Every question is examined
    only in these cases, since that takes a while.
    """
    judges = config.core.parsing_models
    wanted = frozenset[str]().union(*(one.stage.judge_ports for one in registered_stages(plugins)))
    if judges and all(wanted <= set(ports_of(plugins, judge)) for judge in judges):
        return
    needing: dict[str, tuple[Stage, list[str]]] = {}
    for question in questions:
        for planned in planner.plan(question).of_scope("item"):
            if planned.stage.needs_judge(config, question, trust):
                needing.setdefault(planned.name, (planned.stage, []))[1].append(question.id)
    problems = [
        f"no judge is configured, and {name} needs one for {len(ids)} of {len(questions)} questions (the first is "
        f"{ids[0]!r}): add one, for example --judge openai:NAME (in a configuration: parsing_models)"
        for name, (_, ids) in needing.items()
        if not judges
    ]
    for judge in judges:
        for name, (stage, _) in needing.items():
            problems += missing_ports("judge", judge, name, plugins, stage.judge_ports)
    if problems:
        raise ConfigError(problems)
