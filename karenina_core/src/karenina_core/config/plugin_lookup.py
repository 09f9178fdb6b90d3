"""The plugins of a configuration, and look-ups among them: adapters by interface, additions to prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.catalog import install_command, official_first, read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import PluginError
from karenina_core.models.adapters import RegisteredAdapter
from karenina_core.plugins import Selection, active_plugins, installed_plugins
from karenina_core.plugins.hookspecs import karenina_prompt_instructions
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_core.config.verification import VerificationConfig
    from karenina_core.plugins import Plugins


def plugins_of(config: VerificationConfig) -> Plugins:
    """Return the plugins that the configuration selects; the active ones if it selects nothing."""
    chosen = config.core.plugins
    if not (chosen.block or chosen.only or chosen.pick):
        return active_plugins()
    return installed_plugins(Selection.of(chosen.block, chosen.only, chosen.pick))


def registered_adapters(plugins: Plugins) -> tuple[RegisteredAdapter, ...]:
    """Return all registered adapters, sorted by interface and distribution."""
    return tuple(RegisteredAdapter(one.value, one.distribution, one.version) for one in plugins.of_kind("adapter"))


def find_adapter(plugins: Plugins, interface: str) -> RegisteredAdapter:
    """Return the adapter with that interface name.

    Raises `PluginError` if it is not installed (naming the distribution to install, or the nearest name), if it failed
    to load, and if two distributions offer it.
    """
    offered = registered_adapters(plugins)
    found = [one for one in offered if one.spec.interface == interface]
    found.sort(key=lambda one: official_first(one.distribution))
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(f"{one.distribution} {one.version}" for one in found)
        raise PluginError(
            f"two plugins offer the adapter {interface!r}: {names}; block one of them: "
            f'[plugins] block = ["{found[-1].distribution}"]'
        )
    bad = [info for info in plugins.describe() if (info.kind, info.name) == ("adapter", interface)]
    problem = "; ".join(f"{one.distribution} {one.version}: {one.failure}" for one in bad if one.state != "loaded")
    if problem:
        raise PluginError(f"the adapter {interface!r} cannot be used: {problem}")
    missing = f"there is no adapter {interface!r}{did_you_mean(interface, [one.spec.interface for one in offered])}"
    if (owner := read_catalog()["adapters"].get(interface)) is not None:
        missing = f"the adapter {interface!r} is not installed: {install_command(owner)}"
    raise PluginError(f"{missing}{not_loaded(plugins)}")


def prompt_instructions(plugins: Plugins, task: str, interface: str) -> tuple[str, ...]:
    """Return what plugins add to the prompt of `task` for judges of `interface`, sorted."""
    found = [one.value(task=task, interface=interface) for one in plugins.implementations(karenina_prompt_instructions)]
    return tuple(sorted(text for text in found if text))
