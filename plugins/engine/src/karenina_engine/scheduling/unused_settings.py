"""Warnings about settings that have another value than their default, and no effect in this run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from karenina_core.config import all_settings
from karenina_core.stages.stage import registered_stages

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.planning.plan import Plan
    from karenina_core.plugins import Plugins

logger = logging.getLogger("karenina")


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
            logger.warning("%s is set but has no effect: %s", name, _reasons(plans, stages, owner))


def _reasons(plans: Sequence[Plan], stages: Mapping[str, str], owner: str) -> str:
    found: dict[str, dict[str, None]] = {}
    for left in (left for plan in plans for left in plan.left_out if stages.get(left.name) == owner):
        found.setdefault(left.why, {})[left.name] = None
    return "; ".join(f"{why} ({', '.join(names)})" for why, names in found.items())
