"""The plugins that a configuration selects, and the adapters, hooks and prompt instructions that they provide."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from karenina_core.artifacts.artifact import Slot
from karenina_core.catalog import install_command, official_first, read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import PluginError
from karenina_core.plugins import Selection, active_plugins, installed_plugins
from karenina_core.plugins.hookspecs import karenina_prompt_instructions
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.plugins import Plugins
    from karenina_core.stages.stage import RegisteredStage, Stage


class RegisteredAdapter(NamedTuple):
    """An adapter and the distribution that offers it."""

    spec: AdapterSpec
    distribution: str
    version: str


def unknown_places(stage: type[Stage], offered: Collection[RegisteredStage]) -> Iterator[tuple[str, str]]:
    """Yield a pair for each entry of `after` and `before` that has no effect because no stage has the name: a message,
    and a suggestion such as `; did you mean 'ParseTemplate'?` or an empty string. The stages in `offered` and those of
    all members of this project are known.
    """
    stages = {other.stage.name for other in offered} | set(read_catalog()["stages"])
    for kind, places in (("after", stage.after), ("before", stage.before)):
        for place in sorted(str(place) for place in places if not isinstance(place, Slot)):
            if place not in stages:
                text = f"`{kind}` lists the stage {place!r}, which is not installed, so the entry has no effect"
                yield text, did_you_mean(place, stages, "")


class Hook(NamedTuple):
    """A hook with its owner and the docstring of its specification."""

    name: str
    distribution: str
    version: str
    description: str


def specified_hooks(plugins: Plugins) -> list[Hook]:
    """Return the hooks that plugins may implement, starting with the core's, in the order in which they are defined."""
    return [
        Hook(name, owner.info.distribution, owner.info.version, inspect.getdoc(getattr(owner.module, name)) or "")
        for owner in plugins.specifications.owners
        for name in owner.hooks
    ]


def plugins_of(config: VerificationConfig) -> Plugins:
    """Return the plugins that the configuration selects. If it selects none, return the active plugins."""
    chosen = config.core.plugins
    if not (chosen.block or chosen.only or chosen.pick):
        return active_plugins()
    return installed_plugins(Selection.of(chosen.block, chosen.only, chosen.pick))


def registered_adapters(plugins: Plugins) -> tuple[RegisteredAdapter, ...]:
    """Return all registered adapters, sorted by interface and distribution."""
    return tuple(
        RegisteredAdapter(offer.value, offer.distribution, offer.version) for offer in plugins.of_kind("adapter")
    )


def find_adapter(plugins: Plugins, interface: str) -> RegisteredAdapter:
    """Return the adapter that has the given interface name. Raises `PluginError` if it is not installed, failed to
    load, or is offered by two distributions.

    The message names the distribution to install or suggests a similar name.
    """
    offered = registered_adapters(plugins)
    matching = [offer for offer in offered if offer.spec.interface == interface]
    matching.sort(key=lambda offer: official_first(offer.distribution))
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = " and ".join(f"{offer.distribution} {offer.version}" for offer in matching)
        raise PluginError(
            f"two plugins offer the adapter {interface!r} ({names}); block one of them with "
            f'[plugins] block = ["{matching[-1].distribution}"]'
        )
    bad = [info for info in plugins.describe() if (info.kind, info.name) == ("adapter", interface)]
    problem = "; ".join(f"{info.distribution} {info.version}: {info.failure}" for info in bad if info.state != "loaded")
    if problem:
        raise PluginError(f"the adapter {interface!r} cannot be used: {problem}")
    missing = f"there is no adapter {interface!r}{did_you_mean(interface, [offer.spec.interface for offer in offered])}"
    if (owner := read_catalog()["adapters"].get(interface)) is not None:
        missing = f"the adapter {interface!r} is not installed: {install_command(owner)}"
    raise PluginError(f"{missing}{not_loaded(plugins)}")


def prompt_instructions(plugins: Plugins, task: str, interface: str) -> tuple[str, ...]:
    """Return the instructions that plugins add to the prompt of `task` for a model of `interface`, in alphabetical
    order.
    """
    texts = [
        offer.value(task=task, interface=interface) for offer in plugins.implementations(karenina_prompt_instructions)
    ]
    return tuple(sorted(text for text in texts if text))


def check_suffixes(suffixes: Sequence[str], example: str) -> None:
    """Raise `ValueError` if the suffixes that a plugin declares are a single string, or if one is not in lower case or
    has no dot: it would never fit, or fit the files of other formats. `example` is a suffix for the message.
    """
    if isinstance(suffixes, str) or any(one[:1] != "." or one != one.lower() for one in suffixes):
        raise ValueError(
            f'suffixes must be a tuple of suffixes in lower case, such as (".{example}",), not {suffixes!r}'
        )
