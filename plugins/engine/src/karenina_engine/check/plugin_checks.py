"""The checks of the installed plugins before a run: required, blocked and broken ones, and their versions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from karenina_core.catalog import CORE, read_catalog
from karenina_core.errors import ConfigError
from karenina_core.hook_policy import policy_of
from karenina_core.plugins.discovery import canonical
from karenina_core.text import did_you_mean
from karenina_engine.check.blocked_stages import settings_without_effect

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.plugins import PluginInfo, Plugins

logger = logging.getLogger("karenina")


def check_selection(plugins: Plugins, config: VerificationConfig) -> None:
    """Check the `[plugins]` table against the installed plugins and the rest of the configuration.

    Raises `ConfigError` if a required plugin is missing or cannot be used, and if a setting belongs to a blocked one.
    """
    problems = [problem for name in config.core.plugins.require for problem in _requirement_problems(plugins, name)]
    problems += settings_without_effect(plugins, config)
    if problems:
        raise ConfigError(problems)


def warn_about_plugins(plugins: Plugins) -> None:
    """Warn of plugins that are left out because they cannot be used or implement deprecated hooks, and of members of
    other releases.
    """
    _warn_of_broken(plugins)
    for problem in deprecated_hooks(plugins):
        logger.warning("%s", problem)
    _warn_of_mixed_releases(plugins)


def _warn_of_broken(plugins: Plugins) -> None:
    for owner, names, failure in broken_plugins(plugins):
        logger.warning(
            "%s of %s cannot be used and %s left out: %s; fix or uninstall it, or block it: [plugins] block = [%s]",
            ", ".join(names),
            owner,
            "is" if len(names) == 1 else "are",
            failure,
            ", ".join(f'"{name}"' for name in names),
        )


def _warn_of_mixed_releases(plugins: Plugins) -> None:
    """Warn of members whose version differs from the core's, since only members of one release are tested together."""
    versions = loaded_distributions(plugins)
    release = versions.get(CORE)
    differing = [name for name, version in versions.items() if version != release and name in read_catalog()["members"]]
    if release is not None and differing:
        logger.warning(
            "%s: not of the same release as karenina-core %s, and only one release is tested together; pip install %s",
            ", ".join(f"{name} {versions[name]}" for name in differing),
            release,
            " ".join(f"{name}=={release}" for name in differing),
        )


def broken_plugins(plugins: Plugins) -> list[tuple[str, list[str], str]]:
    """Return the plugins that cannot be used: distribution with version, names, and their common failure."""
    found: dict[tuple[str, str], list[str]] = {}
    for info in plugins.describe():
        if info.state in ("failed", "conflict"):
            key = (f"{info.distribution} {info.version}", info.failure or "unknown")
            found.setdefault(key, []).append(info.name)
    return [(owner, list(dict.fromkeys(names)), failure) for (owner, failure), names in found.items()]


def deprecated_hooks(plugins: Plugins) -> list[str]:
    """Return a text for each distribution whose plugins implement a deprecated hook, with the cure of the hook."""
    specs = [getattr(owner.module, name) for owner in plugins.specifications.owners for name in owner.hooks]
    deprecated = [spec for spec in specs if policy_of(spec).deprecated is not None]
    return [
        f"{distribution} implements the hook {spec.__name__}, which is deprecated: {policy_of(spec).deprecated}"
        for spec in deprecated
        for distribution in sorted({f"{one.distribution} {one.version}" for one in plugins.implementations(spec)})
    ]


def loaded_distributions(plugins: Plugins) -> dict[str, str]:
    """Return the distributions whose plugins and hooks are in use, each with its version, sorted by name."""
    owners = [owner.info for owner in plugins.specifications.owners]
    found = [*owners, *(info for info in plugins.describe() if info.state == "loaded")]
    return dict(sorted({info.distribution: info.version for info in found}.items()))


def _cure_for_missing(name: str, found: Sequence[PluginInfo]) -> str:
    """Return the cure for a required name that no installed plugin or distribution has."""
    distributions = sorted({info.distribution for info in found})
    known = {*distributions, *(info.name for info in found)}
    if get_close_matches(name, known, n=1, cutoff=0.6):
        return did_you_mean(name, known)
    installed = f". Installed distributions with plugins: {', '.join(distributions)}" if distributions else ""
    return f". Install it, or remove it from 'require'{installed}"


def _requirement_problems(plugins: Plugins, name: str) -> list[str]:
    """Return why the required plugin or distribution `name` is missing or cannot be used; an empty list if it can."""
    found = plugins.describe()
    named = [info for info in found if info.is_named_in([name])]
    if not named:
        owner = canonical(name)
        why = (
            f"and {plugins.why_absent(owner)}"
            if owner in read_catalog()["members"]
            else f"which is not installed{_cure_for_missing(name, found)}"
        )
        return [f"plugins.require names {name!r}, {why}"]
    return [
        f"plugins.require names {name!r}, and {info.name} of {info.distribution} {info.version} cannot be used: "
        f"{info.failure}"
        for info in named
        if info.state != "loaded"
    ]
