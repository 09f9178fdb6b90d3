"""Stages that the plugin selection blocks although the configuration requests them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from karenina_core.artifacts.declarations import why_refused
from karenina_core.artifacts.slot_rules import SLOT_RULES
from karenina_core.artifacts.slots import STAGE_HOOKS
from karenina_core.catalog import CORE
from karenina_core.config import all_settings
from karenina_core.config.setting_owners import settings_models
from karenina_core.errors import ConfigError
from karenina_core.namespaces import owned_fields
from karenina_core.plugins import active_plugins
from karenina_core.stages import hookspecs

if TYPE_CHECKING:
    from karenina_core.artifacts.slots import Slot
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.plugins import Plugins
    from karenina_core.stages.stage import Stage


def blocked_stages(plugins: Plugins) -> list[tuple[Stage, Slot | None]]:
    """Return the stages that the selection blocks, with their slots, sorted by name, if their plugins are loaded.

    A plugin that `KARENINA_PLUGINS` blocks as a whole is not imported, and its settings are not known either.
    """
    named = [info for info in plugins.describe() if info.kind == "stage"]
    used = {info.name for info in named if info.state == "loaded"}
    blocked = {(info.name, info.distribution) for info in named if info.state == "blocked" and info.name not in used}
    offers = [
        (_name(one.value), one, slot)
        for room in ((active_plugins(), plugins) if blocked else ())
        for hook, slot in STAGE_HOOKS.items()
        for one in room.offers(getattr(hookspecs, hook))
    ]
    found = {name: (one.value, slot) for name, one, slot in offers if (name, one.distribution) in blocked}
    usable = [found[name] for name in sorted(found) if why_refused(found[name][0]) is None]
    return [(stage(), slot) for stage, slot in usable]


def settings_without_effect(plugins: Plugins, config: VerificationConfig) -> Iterator[str]:
    """Yield a problem for each given setting that differs from its default and belongs to a blocked plugin.

    Settings of stages are not included: whether a stage has an effect depends on the question.
    """
    observes_stages = {one.value.settings for one in active_plugins().of_kind("stage")}
    used = {model for model, _ in settings_models(plugins)} | observes_stages
    owned = all_settings()
    for name, value in config.given().items():
        if owned[name].model not in used and owned[name].owner != CORE and value != owned[name].default:
            yield f"{name} has no effect: {plugins.why_absent(owned[name].owner)}"


def requested_but_blocked(
    blocked: list[tuple[Stage, Slot | None]], config: VerificationConfig, question: Question
) -> Iterator[str]:
    """Yield a problem for each blocked stage that one of its own settings would add to the plan."""
    for stage, slot in blocked:
        if slot is not None and (
            config.core.evaluation_mode not in SLOT_RULES[slot].modes or slot.config_name in config.core.slots
        ):
            continue
        names = _requesting_settings(stage, config, question)
        if names:
            listed = ", ".join(names)
            yield f"the stage {stage.name} is blocked under [plugins], and {listed} requests it: change one of the two"


def _name(stage: object) -> str:
    """Return the name of an offered object of any type, or an empty string."""
    return str(getattr(stage, "name", ""))


def _requesting_settings(stage: Stage, config: VerificationConfig, question: Question) -> list[str]:
    """Return the stage's own settings that add it to the plan."""
    own = owned_fields([stage.settings])
    defaults = {name: setting.default for name, setting in all_settings().items() if name in own}
    given = {name: value for name, value in config.given().items() if name in defaults and value != defaults[name]}
    if not given or not _includes(stage, config, question):
        return []
    if _includes(stage, config, question, **{name: defaults[name] for name in given}):
        return []
    alone = [name for name in given if not _includes(stage, config, question, **{name: defaults[name]})]
    return alone or list(given)


def _includes(stage: Stage, config: VerificationConfig, question: Question, **changes: object) -> bool:
    """Return whether the plan includes the stage with these settings changed; False if they are refused."""
    try:
        return bool(stage.included(config.with_values(**changes) if changes else config, question))
    except (ConfigError, ValueError):
        return not changes
