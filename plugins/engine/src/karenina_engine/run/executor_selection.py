"""The executors that plugins offer, and the selection of the one that a configuration names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from karenina_core.catalog import official_first, read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError, PluginError
from karenina_core.text import did_you_mean
from karenina_engine.run.executor import AsyncioExecutor, Executor
from karenina_engine.run.hookspecs import karenina_executors
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.plugins import Plugins

OWNER: Final = "karenina-engine"
"""The distribution that offers the executor `asyncio`."""


def offered_executors(plugins: Plugins) -> list[tuple[Executor, str]]:
    """Return the executors, sorted by name, each with the distribution that offers it.

    The engine's own, `asyncio`, is always among them.
    """
    found: list[tuple[Executor, str]] = [(AsyncioExecutor(), OWNER)]
    found += [(offer.value, offer.distribution) for offer in plugins.offers(karenina_executors)]
    return sorted(found, key=lambda pair: (pair[0].name, pair[1]))


def configured_executor(plugins: Plugins, config: VerificationConfig) -> Executor:
    """Return the executor that a configuration names. Raises `ConfigError`."""
    try:
        return find_executor(plugins, config.section(EngineSettings).executor)
    except PluginError as error:
        raise ConfigError([f"executor: {error}"]) from error


def find_executor(plugins: Plugins, name: str) -> Executor:
    """Return the executor of that name.

    Raises `PluginError` if there is none (naming the distribution that has it, or the nearest name), if its plugin
    failed to load, and if two distributions offer it.
    """
    offered = offered_executors(plugins)
    found = [(one, owner) for one, owner in offered if one.name == name]
    if len(found) == 1:
        return found[0][0]
    if found:
        found.sort(key=lambda one: official_first(one[1].partition(" ")[0]))
        names = " and ".join(owner for _, owner in found)
        raise PluginError(
            f'two plugins offer the executor {name!r}: {names}; block one of them: [plugins] block = ["{found[-1][1]}"]'
        )
    owner = read_catalog()["executors"].get(name)
    if owner is not None:
        raise PluginError(f"{name!r} needs another package: {plugins.why_absent(owner)}")
    known = did_you_mean(name, [one.name for one, _ in offered])
    raise PluginError(f"there is no executor {name!r}{known}{not_loaded(plugins)}")
