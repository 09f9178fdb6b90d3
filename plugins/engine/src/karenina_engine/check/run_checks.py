"""The checks before a run, which find everything that would fail every item before the first call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter, registered_adapters
from karenina_core.errors import ConfigError
from karenina_engine.check.model_checks import check_models
from karenina_engine.check.owned_fields import OwnedFields
from karenina_engine.check.plugin_checks import check_selection
from karenina_engine.check.stage_checks import check_configuration, check_stages
from karenina_engine.check.unused_values import warn_about_unused_fields, warn_about_unused_settings
from karenina_engine.cost.price_source import to_picodollars
from karenina_engine.cost.price_table import PriceTable
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.check.planner import Planner

logger = logging.getLogger("karenina")


def check_request(plugins: Plugins, config: VerificationConfig, questions: Sequence[Question]) -> None:
    """Check that there is something to run. Raises `ConfigError`."""
    check_selection(plugins, config)
    if not questions:
        raise ConfigError(["no question is selected: add questions to the benchmark, or select other ids"])
    if not config.core.answering_models:
        cure = "add one, for example --answering openai:NAME, or use recorded answers with --recordings FILE"
        raise ConfigError([f"no answering model is configured: {cure}"])


def check_configured_models(plugins: Plugins, config: VerificationConfig, *, offline: bool) -> None:
    """Check that the configured models can be called, and that no stage refuses the configuration.

    Raises `ConfigError`.
    """
    core = config.core
    check_models(
        plugins,
        [("answering model", model) for model in core.answering_models]
        + [("judge", model) for model in core.parsing_models],
        offline=offline,
    )
    if core.parsing_only:
        _require_recorded(plugins, core.answering_models)
    check_configuration(plugins, config)


def check_questions(
    plugins: Plugins,
    config: VerificationConfig,
    questions: Sequence[Question],
    trust: Trust,
    planner: Planner,
    *,
    offline: bool,
) -> list[ModelConfig]:
    """Check that every question has a plan whose stages accept it; return the models that stages name.

    What is set and has no effect is logged as a warning. Raises `ConfigError` and `PlanError`.
    """
    survey = planner.survey(questions, OwnedFields(plugins), trust)
    _warn_about_traits(config, len(questions), survey.with_traits)
    needs = check_stages(plugins, config, questions, trust, survey.stages, offline=offline)
    warn_about_unused_fields(plugins, config, needs)
    if not offline:
        warn_about_unused_settings(plugins, config, survey.plans)
    return [need.model for need in needs]


def check_budget(settings: EngineSettings, prices: PriceTable, models: Sequence[ModelConfig]) -> int | None:
    """Look up the prices of the models, and return the budget in picodollars, if one is set. Raises `ConfigError`."""
    found = {model.id: prices.price(model) for model in models}
    unknown = {id: price.why for id, price in found.items() if price.tariff is None or price.assumed}
    if settings.budget is None:
        return None
    if unknown:
        problems = [
            f"a budget {'counts nothing for' if found[id].assumed else 'needs the price of'} {id!r}, which is {why}"
            for id, why in unknown.items()
        ]
        unit = "prices are in dollars for a million tokens"
        raise ConfigError([*problems, f"{unit}; if no call costs anything, run without a budget"])
    return to_picodollars(settings.budget)


def _warn_about_traits(config: VerificationConfig, questions: int, with_traits: int) -> None:
    """Warn of traits that the evaluation mode does not score, and of questions that lack traits under `rubric_only`."""
    mode = config.core.evaluation_mode
    if mode == "template_only" and with_traits:
        logger.warning(
            "rubric traits of %d of %d questions are not scored, because evaluation_mode is template_only; to score "
            'them, set evaluation_mode = "template_and_rubric" (or "rubric_only")',
            with_traits,
            questions,
        )
    if mode == "template_and_rubric" and not with_traits:
        logger.warning(
            "evaluation_mode is template_and_rubric, and no question has a rubric trait: only templates are evaluated; "
            'add traits under `rubric`, or set evaluation_mode = "template_only"'
        )
    without_traits = questions - with_traits
    if mode == "rubric_only" and without_traits:
        logger.warning(
            "%d of %d questions have no rubric traits, and the evaluation mode rubric_only evaluates nothing else: "
            "their answers are recorded, and their outcome is `scored` without any score; add traits, or set another "
            "evaluation_mode",
            without_traits,
            questions,
        )


def _require_recorded(plugins: Plugins, models: Sequence[ModelConfig]) -> None:
    """Raise `ConfigError` for models that would be called in a run that only judges recorded answers."""
    live = [model for model in models if not find_adapter(plugins, model.interface).spec.recorded]
    if live:
        recorded = ", ".join(sorted(one.spec.interface for one in registered_adapters(plugins) if one.spec.recorded))
        raise ConfigError(
            [
                f"parsing_only is true, but the answering model {model.id!r} would be called: its interface "
                f"{model.interface!r} does not replay recordings; "
                + (f"give recorded answers ({recorded}), or" if recorded else "no installed adapter replays them;")
                + " set parsing_only = false"
                for model in live
            ]
        )
