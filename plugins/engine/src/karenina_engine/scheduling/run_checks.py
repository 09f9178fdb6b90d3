"""The checks before a run, which find everything that would fail every item before the first call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter, registered_adapters
from karenina_core.errors import ConfigError
from karenina_engine.calls.model_checks import check_models
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.cost.price_source import to_picodollars
from karenina_engine.cost.price_table import PriceTable
from karenina_engine.scheduling.executor import AsyncioExecutor
from karenina_engine.scheduling.executor_selection import configured_executor
from karenina_engine.scheduling.find_observers import find_observers
from karenina_engine.scheduling.find_panel import find_panel
from karenina_engine.scheduling.matrix import Matrix
from karenina_engine.scheduling.owned_fields import OwnedFields
from karenina_engine.scheduling.planner import Planner
from karenina_engine.scheduling.plugin_checks import check_selection, warn_about_plugins
from karenina_engine.scheduling.run_parts import RunParts, limit_calls
from karenina_engine.scheduling.session import RunSession
from karenina_engine.scheduling.settings import EngineSettings
from karenina_engine.scheduling.stage_checks import check_configuration, check_stages
from karenina_engine.scheduling.unused_fields import warn_about_unused_fields
from karenina_engine.scheduling.unused_settings import warn_about_unused_settings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.models.model import ModelConfig
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.retry import RetryPolicy

logger = logging.getLogger("karenina")


def make_session(
    questions: Sequence[Question],
    config: VerificationConfig,
    plugins: Plugins,
    *,
    trust: Trust,
    policy: RetryPolicy | None = None,
    offline: bool = False,
    observers: Sequence[object] = (),
) -> RunSession:
    """Check a run over these questions for everything that would fail every item, and return its session.

    `observers` are called in addition to those of plugins. Raises `ConfigError` if a model cannot be used, and
    `PlanError` if a question has no plan.
    """
    core, settings = config.core, config.section(EngineSettings)
    check_selection(plugins, config)
    if not questions:
        raise ConfigError(["no question is selected: add questions to the benchmark, or select other ids"])
    if not core.answering_models:
        cure = "add one, for example --answering openai:NAME, or use recorded answers with --recordings FILE"
        raise ConfigError([f"no answering model is configured: {cure}"])
    executor = configured_executor(plugins, config)  # before the models: a misspelt name is corrected first
    check_models(
        plugins,
        [("answering model", model) for model in core.answering_models]
        + [("judge", model) for model in core.parsing_models],
        offline=offline,
    )
    if core.parsing_only:
        _require_recorded(plugins, core.answering_models)
    check_configuration(plugins, config)
    found = find_observers(plugins, config, observers)
    planner = Planner(config, plugins, found)
    survey = planner.survey(questions, OwnedFields(plugins), trust)
    _warn_about_traits(config, len(questions), survey.with_traits)
    needs = check_stages(plugins, config, questions, trust, survey.stages, offline=offline)
    warn_about_unused_fields(plugins, config, needs)
    if not offline:
        warn_about_unused_settings(plugins, config, survey.plans)
    named = [need.model for need in needs]
    prices = PriceTable(plugins, settings.prices)
    limit = _budget(settings, prices, [*core.answering_models, *core.parsing_models, *named]) if not offline else None
    if offline:  # other processes gain nothing without calls; in this one the error names every missing reply
        executor = AsyncioExecutor()
    policy = policy or settings.retry_policy()
    limits = limit_calls(plugins, settings.concurrency(), policy.patience)
    ledger = Ledger(prices)
    session = RunSession(
        RunParts(plugins, config, trust, policy, limits, found, offline=offline),
        Matrix(questions, config, planner, find_panel(plugins, config)),
        ledger=ledger,
        budget=Budget(limit, ledger) if limit is not None else None,
        executor=executor,
    )
    executor.check(session)
    warn_about_plugins(plugins)
    if settings.budget is not None and not executor.keeps_budgets:
        why = f"the executor {settings.executor!r} does not support a budget"
        raise ConfigError([f'{why}: remove the budget, or set executor = "{AsyncioExecutor.name}"'])
    return session


def _budget(settings: EngineSettings, prices: PriceTable, models: Sequence[ModelConfig]) -> int | None:
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
