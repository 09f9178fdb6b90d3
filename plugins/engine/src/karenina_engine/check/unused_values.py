"""Warnings about settings and fields of models that are set and have no effect in this run."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

from karenina_core.config import all_settings, find_adapter
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.models.model import ModelConfig
from karenina_core.stages.stage import registered_stages
from karenina_engine.calls.journal_labels import ModelLabel

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.planning.plan import Plan
    from karenina_core.plugins import Plugins
    from karenina_core.stages.stage import ModelNeed

_OF_ADAPTERS: Final = (
    "model_provider",
    "endpoint_base_url",
    "endpoint_api_key",
    "temperature",
    "max_tokens",
    "manual_traces",
)
_OF_AGENTS: Final = ("agent_timeout", "agent_max_turns")

logger = logging.getLogger("karenina")


def warn_about_unused_fields(plugins: Plugins, config: VerificationConfig, needs: Sequence[ModelNeed]) -> None:
    """Warn of fields of the configured models that are set but unused; `needs` are the models that stages need."""
    core = config.core
    _warn_about_equal_models("answering models", core.answering_models)
    _warn_about_equal_models("judges", core.parsing_models)
    for model in core.answering_models:
        if not isinstance(model, ModelLabel):
            spec = find_adapter(plugins, model.interface).spec
            _warn("answering model", model, [*_unused_by_adapter(spec, model), *_unused_without_agent(spec, model)])
    agents = [need.model for need in needs if "agent" in need.ports]
    for judge in core.parsing_models:
        if not isinstance(judge, ModelLabel) and judge not in core.answering_models:
            spec = find_adapter(plugins, judge.interface).spec
            is_agent = any(judge is model for model in agents)
            _warn("judge", judge, [*_unused_by_adapter(spec, judge), *_unused_by_judge(judge, is_agent=is_agent)])


def _warn_about_equal_models(role: str, models: Sequence[ModelConfig]) -> None:
    for one, other in combinations(models, 2):
        if one.model_copy(update={"id": other.id}) == other:
            logger.warning(
                "the %s %r and %r differ in their ids only, so they share replies and have equal results: remove one; "
                "replicate_count calls a model several times",
                role,
                one.id,
                other.id,
            )


def _warn(role: str, model: ModelConfig, unused: Sequence[tuple[str, str]]) -> None:
    for name, why in unused:
        logger.warning("%s %r: %s is set but has no effect: %s; remove it", role, model.id, name, why)


def _unused_by_adapter(spec: AdapterSpec, model: ModelConfig) -> Iterator[tuple[str, str]]:
    if spec.uses is None:
        return
    for name in _OF_ADAPTERS:
        if name not in spec.uses and getattr(model, name) is not None:
            yield name, f"the adapter {spec.interface!r} does not use it"


def _unused_without_agent(spec: AdapterSpec, model: ModelConfig) -> Iterator[tuple[str, str]]:
    may_be_agent = model.mcp_urls_dict or spec.tier is AgentTier.DEEP_AGENT or spec.needs_agent is not None
    if not may_be_agent or spec.recorded:
        for name in _given_agent_fields(model):
            yield name, "without mcp_urls_dict the model answers without an agent"


def _unused_by_judge(judge: ModelConfig, *, is_agent: bool) -> Iterator[tuple[str, str]]:
    for name in _given_agent_fields(judge):
        yield name, "it limits answers; for a judge that is an agent, the limits of its stage apply"
    if judge.mcp_urls_dict and not is_agent:
        yield "mcp_urls_dict", "no stage of this run uses a judge with tools (agentic_parsing, agentic traits)"


def _given_agent_fields(model: ModelConfig) -> Iterator[str]:
    for name in _OF_AGENTS:
        if getattr(model, name) != ModelConfig.model_fields[name].default:
            yield name


def warn_about_unused_settings(plugins: Plugins, config: VerificationConfig, plans: Sequence[Plan]) -> None:
    """Warn of settings whose owner has stages, if no plan contains one of them or a stage that reads the setting."""
    stages = {one.stage.name: one.distribution for one in registered_stages(plugins)}
    planned = [stage for plan in plans for stage in plan.stages]
    used = {stage.distribution for stage in planned}
    read = {name for stage in planned for name in stage.stage.reads}
    owned = all_settings()
    for name, value in config.given().items():
        owner = owned[name].owner
        if owner in used or owner not in stages.values() or name in read:
            continue
        if value != owned[name].info.get_default(call_default_factory=True):
            logger.warning("%s is set but has no effect: %s", name, _reasons_of(plans, stages, owner))


def _reasons_of(plans: Sequence[Plan], stages: Mapping[str, str], owner: str) -> str:
    found: dict[str, dict[str, None]] = {}
    for left in (left for plan in plans for left in plan.left_out if stages.get(left.name) == owner):
        found.setdefault(left.why, {})[left.name] = None
    return "; ".join(f"{why} ({', '.join(names)})" for why, names in found.items())
