"""Checks that find problems before the first call is made.

They also warn about settings and model fields that have no effect, and compare recordings with the questions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

from karenina_core.config import all_settings
from karenina_core.errors import ConfigError
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo
from karenina_core.stages.stage import registered_stages
from karenina_engine.calls.journal_labels import ModelLabel
from karenina_engine.calls.program_sandboxes import check_programs, find_used_sandbox
from karenina_engine.check.plugin_checks import OwnedFields, check_selection
from karenina_engine.check.questions import texts_of
from karenina_engine.check.stage_checks import check_configuration, check_models, check_stages
from karenina_engine.cost.ledger import PriceTable
from karenina_engine.cost.price_source import to_picodollars
from karenina_engine.model_settings import configured_models
from karenina_engine.settings import EngineSettings
from karenina_toolkit.plugin_lookup import find_adapter, registered_adapters

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.plan import Plan
    from karenina_core.plugins import Plugins
    from karenina_core.stages.stage import ModelNeed
    from karenina_engine.check.attachments import AttachmentCheck
    from karenina_engine.check.judge_needs import JudgeNeeds
    from karenina_engine.check.planner import Planner, Survey
    from karenina_engine.question_source import QuestionCheck, QuestionSource
    from karenina_template.rules import RuleLines

logger = logging.getLogger("karenina")

_RECORDINGS_CURE = (
    "add a recording for every question, with the question's id or text, or use --partial "
    "(partial_recordings = true) to run with the recordings as they are"
)
_OF_ADAPTERS: Final = (
    "model_provider",
    "endpoint_base_url",
    "endpoint_api_key",
    "temperature",
    "max_tokens",
    "manual_traces",
)
_OF_AGENTS: Final = ("agent_timeout", "agent_max_turns", "stateless_tools")


def check_request(plugins: Plugins, config: VerificationConfig, questions: Sequence[Question]) -> None:
    """Raise `ConfigError` if the run has no questions or no answering models, or if its plugins are unusable."""
    check_selection(plugins, config)
    if not questions:
        raise ConfigError(["no questions are selected; add questions to the benchmark, or select other ids"])
    if not config.core.answering_models:
        cure = "add one, for example with --answering openai:NAME, or use recorded answers with --recordings FILE"
        raise ConfigError([f"no answering model is configured; {cure}"])


def check_configured_models(plugins: Plugins, config: VerificationConfig, *, offline: bool) -> None:
    """Raise `ConfigError` with all reasons why configured models cannot be called, or stages reject the configuration.
    Nothing is sent. If `offline` is set, no models will be called, so keys and packages may be missing. If
    `parsing_only` is set, all answering models have to replay recordings.
    """
    core = config.core
    check_models(plugins, configured_models(config), offline=offline)
    if core.parsing_only:
        _require_recorded(plugins, core.answering_models)
    check_configuration(plugins, config)
    if not offline:
        check_programs(plugins, config, configured_models(config))


def check_questions(
    plugins: Plugins,
    config: VerificationConfig,
    questions: Sequence[Question],
    trust: Trust,
    planner: Planner,
    judging: JudgeNeeds,
    attachments: AttachmentCheck,
    *,
    offline: bool,
    question_check: QuestionCheck | None = None,
    rules: RuleLines | None = None,
) -> tuple[Survey, list[ModelConfig]]:
    """Check each question, add it to `judging`, `attachments` and `rules`, and return the facts collected about them
    and the models that stages need. Raises `PlanError` if a question has no valid plan, and `ConfigError` if a stage or
    `question_check` rejects a question or model. Logs warnings about model fields, settings and traits that have no
    effect. If `offline` is set, no calls will be made, so whatever is only needed for calls may be missing.
    """
    survey = planner.survey(questions, OwnedFields(plugins), trust, judging, attachments, question_check, rules)
    _warn_about_traits(config, len(questions), survey.with_traits)
    needs = check_stages(plugins, config, questions, trust, survey.stages, offline=offline)
    warn_about_unused_fields(plugins, config, needs)
    if not offline:
        warn_about_unused_settings(plugins, config, survey.pipelines.plans)
    return survey, [need.model for need in needs]


def check_budget(settings: EngineSettings, prices: PriceTable, models: Sequence[ModelConfig]) -> int | None:
    """Look up the prices of the models, and return the budget in picodollars, or None if there is no budget. Raises
    `ConfigError` if there is a budget but a price is unknown or only assumed.
    """
    by_model = {model.id: prices.price(model) for model in models}
    unknown = {id: price.why for id, price in by_model.items() if price.tariff is None or price.assumed}
    if settings.budget is None:
        return None
    if unknown:
        problems = [
            f"a budget {'counts nothing for' if by_model[id].assumed else 'needs the price of'} {id!r}, which is {why}"
            for id, why in unknown.items()
        ]
        unit = "prices are in dollars per million tokens"
        raise ConfigError([*problems, f"{unit}; if no call costs anything, run without a budget"])
    return to_picodollars(settings.budget)


def _warn_about_traits(config: VerificationConfig, questions: int, with_traits: int) -> None:
    """Log a warning if traits will not be scored, or if questions have no traits although the evaluation mode asks for
    them. `questions` is the number of all questions, and `with_traits` that of questions with traits.
    """
    mode = config.core.evaluation_mode
    if mode == "template_only" and with_traits:
        logger.warning(
            "the rubric traits of %d of %d questions are not scored because evaluation_mode is template_only; to "
            'score them, set evaluation_mode = "template_and_rubric" (or "rubric_only")',
            with_traits,
            questions,
        )
    if mode == "template_and_rubric" and not with_traits:
        logger.warning(
            "evaluation_mode is template_and_rubric, but no question has a rubric trait, so only templates are "
            'evaluated; add traits under `rubric`, or set evaluation_mode = "template_only"'
        )
    without_traits = questions - with_traits
    if mode == "rubric_only" and without_traits:
        logger.warning(
            "%d of %d questions have no rubric traits, and evaluation_mode rubric_only evaluates nothing else, so "
            "their answers are recorded with the outcome `scored` but without a score; add traits, or set a different "
            "evaluation_mode",
            without_traits,
            questions,
        )


def _require_recorded(plugins: Plugins, models: Sequence[ModelConfig]) -> None:
    """Raise `ConfigError` if a run on recorded answers would call one of the answering models: one whose adapter does
    not replay recordings.
    """
    live = [model for model in models if not find_adapter(plugins, model.interface).spec.recorded]
    if live:
        recorded = ", ".join(
            sorted(adapter.spec.interface for adapter in registered_adapters(plugins) if adapter.spec.recorded)
        )
        raise ConfigError(
            [
                (
                    f"parsing_only is true, but the answering model {model.id!r} would be called because its "
                    f"interface {model.interface!r} does not replay recordings; "
                    + (
                        f"use recorded answers ({recorded}), or"
                        if recorded
                        else "no installed adapter replays recordings;"
                    )
                    + " set parsing_only = false"
                )
                for model in live
            ]
        )


def check_recordings(
    plugins: Plugins, config: VerificationConfig, questions: Sequence[Question], benchmark: QuestionSource
) -> None:
    """Raise `ConfigError` with every question that has no recorded answer, and every recording that belongs to no
    question. If `partial_recordings` is set, log them as warnings instead. Adapters that cannot make this comparison
    are skipped.
    """
    problems: list[str] = []
    for model in config.core.answering_models:
        mismatches = find_adapter(plugins, model.interface).spec.mismatches
        if mismatches is not None:
            problems += mismatches(
                model, _call_infos(texts_of(questions), config.core.replicate_count), _unselected(benchmark, questions)
            )
    if not problems:
        return
    if not config.section(EngineSettings).partial_recordings:
        raise ConfigError([*problems, _RECORDINGS_CURE])
    for problem in problems:
        logger.warning("%s", problem)


def _call_infos(texts: Iterable[tuple[str, str]], replicates: int = 1) -> Iterator[CallInfo]:
    """Yield a call for each question and replicate."""
    for id, text in texts:
        for replicate in range(1, replicates + 1):
            yield CallInfo(question_id=id, question=text, replicate=replicate)


def _unselected(benchmark: QuestionSource, questions: Sequence[Question]) -> Iterator[CallInfo]:
    """Yield the calls for all questions of the benchmark. Yields nothing if all of them are part of the run."""
    return _call_infos(benchmark.texts(benchmark.ids)) if len(questions) < len(benchmark) else iter(())


def warn_about_unused_fields(plugins: Plugins, config: VerificationConfig, needs: Sequence[ModelNeed]) -> None:
    """Log warnings about fields that are set but not used, for all configured models, and about answering models or
    judges that differ only by id. `needs`, the models that stages need, tells which of them are agents. A judge that is
    also an answering model is only checked as an answering model, and the fields of a `ModelLabel` are not checked.
    """
    core = config.core
    _warn_about_equal_models("answering models", core.answering_models)
    _warn_about_equal_models("judges", core.parsing_models)
    for model in core.answering_models:
        if not isinstance(model, ModelLabel):
            spec = find_adapter(plugins, model.interface).spec
            _warn("answering model", model, [*_unused_by_adapter(spec, model), *_unused_without_agent(spec, model)])
    agents = [need.model for need in needs if "agent" in need.ports]
    for role, model in configured_models(config):
        if not isinstance(model, ModelLabel) and model not in core.answering_models:
            spec = find_adapter(plugins, model.interface).spec
            is_agent = any(model is agent for agent in agents)
            _warn(role, model, [*_unused_by_adapter(spec, model), *_unused_by_role(role, model, is_agent=is_agent)])


def _warn_about_equal_models(role: str, models: Sequence[ModelConfig]) -> None:
    """Log a warning for each pair of models that differ only in their ids. `role` is what the message calls them."""
    for one, other in combinations(models, 2):
        if one.model_copy(update={"id": other.id}) == other:
            logger.warning(
                "the %s %r and %r differ only in their ids, so they share replies and have equal results; remove one "
                "of them (to call a model several times, use replicate_count)",
                role,
                one.id,
                other.id,
            )


def _warn(role: str, model: ModelConfig, unused: Sequence[tuple[str, str]]) -> None:
    """Log a warning for each unused field. `role` is the model's role in the warning, such as "judge"."""
    for name, why in unused:
        logger.warning("%s %r: %s is set but has no effect because %s; remove the setting", role, model.id, name, why)


def _unused_by_adapter(spec: AdapterSpec, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield the fields of `_OF_ADAPTERS` that are set but that the model's adapter does not use, with the reason.
    Yields nothing for an adapter that does not declare the fields it uses.
    """
    if spec.uses is None:
        return
    for name in _OF_ADAPTERS:
        if name not in spec.uses and getattr(model, name) is not None:
            yield name, f"the adapter {spec.interface!r} does not use it"


def _unused_without_agent(spec: AdapterSpec, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """If a model never answers as an agent, or its answers are recorded, yield each agent field that it sets, with the
    reason why the field is not used.
    """
    may_be_agent = model.mcp_urls_dict or spec.tier is AgentTier.DEEP_AGENT or spec.needs_agent is not None
    if spec.recorded:
        why = "the model's answers are recorded"
    elif may_be_agent:
        return
    else:
        why = "the model answers without an agent if mcp_urls_dict is not set"
    for name in _given_agent_fields(model):
        yield name, why


def _unused_by_role(role: str, model: ModelConfig, *, is_agent: bool) -> Iterator[tuple[str, str]]:
    """Yield the fields that are set but not used by a judge or by a model in a plugin's setting, with the reason. Set
    `is_agent` if a stage uses the model as an agent. These models never use the limits for answering agents.
    """
    for name in _given_agent_fields(model):
        yield name, f"it applies only to answers; a {role} that is an agent uses the limits of its stage"
    if model.mcp_urls_dict and not is_agent:
        where = " (agentic_parsing, agentic traits)" if role == "judge" else ""
        yield "mcp_urls_dict", f"no stage in this run uses a {role} with tools{where}"


def _given_agent_fields(model: ModelConfig) -> Iterator[str]:
    for name in _OF_AGENTS:
        if getattr(model, name) != ModelConfig.model_fields[name].default:
            yield name


def warn_about_unused_settings(plugins: Plugins, config: VerificationConfig, plans: Sequence[Plan]) -> None:
    """Log a warning for each changed setting of a plugin whose stages are not in any plan. Settings that are read by a
    planned stage of another plugin are skipped, and those of a sandbox in which programs of the models run, and those
    to which a run sets the benchmark's folder.
    """
    stages = {stage.stage.name: stage.distribution for stage in registered_stages(plugins)}
    planned = [stage for plan in plans for stage in plan.stages]
    models = [model for _, model in configured_models(config)]
    used = {*(stage.distribution for stage in planned), find_used_sandbox(plugins, config, models)}
    read = {name for stage in planned for name in stage.stage.reads}
    owned = all_settings()
    for name, value in config.given().items():
        owner = owned[name].owner
        if owner in used or owner not in stages.values() or name in read or owned[name].follows == "folder":
            continue
        if value != owned[name].info.get_default(call_default_factory=True):
            logger.warning("%s is set but has no effect: %s", name, _reasons_of(plans, stages, owner))


def _reasons_of(plans: Sequence[Plan], stages: Mapping[str, str], owner: str) -> str:
    """Return why the stages of the distribution `owner` are not in the plans: each reason with the stages' names, as
    one text.
    """
    reasons: dict[str, dict[str, None]] = {}
    for left in (left for plan in plans for left in plan.left_out if stages.get(left.name) == owner):
        reasons.setdefault(left.why, {})[left.name] = None
    return "; ".join(f"{why} ({', '.join(names)})" for why, names in reasons.items())
