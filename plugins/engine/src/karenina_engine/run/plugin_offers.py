"""The observers, panels and executors that plugins provide, and selecting those for a run."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from karenina_core.catalog import official_first, read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError, KareninaError, PluginError, type_and_message
from karenina_core.plugins import Offer, Plugins
from karenina_core.plugins.registry import list_of
from karenina_core.text import did_you_mean
from karenina_engine.calls.call import PanelModel
from karenina_engine.progress.observers import Listeners, Observers
from karenina_engine.run import hookspecs
from karenina_engine.run.executor import AsyncioExecutor, Executor
from karenina_engine.run.hookspecs import karenina_executors
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_engine.run.panel import Panel

logger = logging.getLogger("karenina")

OBSERVER_HOOKS: Final[tuple[Callable[..., None], ...]] = tuple(
    getattr(hookspecs, f"karenina_{subject}_{when}")
    for subject in ("run", "answer", "item", "stage", "call")
    for when in ("started", "finished")
)
OWNER: Final = "karenina-engine"
"""The distribution that provides the executor `asyncio`."""


def find_observers(plugins: Plugins, config: VerificationConfig | None = None, own: Sequence[object] = ()) -> Observers:
    """Return the observers of a run: plugins with event hooks, observers that plugins provide for `config` (none if it
    is None), and `own`. If a plugin fails to provide them, a warning is logged. Raises `KareninaError` if a plugin
    rejects the run, and `PluginError` if an observer does not match the hook specifications.
    """
    listeners: Listeners = {}
    _add_hooks(listeners, plugins)
    for implementation in plugins.implementations(hookspecs.karenina_observers) if config is not None else ():
        owner = f"{implementation.distribution} {implementation.version}"
        for observer in _offered_observers(implementation, owner, config):
            _add_observer(listeners, plugins, observer, implementation.distribution, implementation.version)
    for observer in own:
        _add_observer(listeners, plugins, observer, "this-program", "0")
    return Observers(listeners)


def _add_observer(listeners: Listeners, plugins: Plugins, observer: object, distribution: str, version: str) -> None:
    """Add the hooks of an observer from this version of `distribution` to `listeners`. Raises `PluginError` if they do
    not match the hook specifications.
    """
    alone = Plugins(plugins.specifications)
    try:
        alone.register(observer, distribution=distribution, version=version)
    except PluginError as error:
        raise PluginError(f"an observer from {distribution} {version} cannot be used: {error}") from error
    _add_hooks(listeners, alone)


def _add_hooks(listeners: Listeners, plugins: Plugins) -> None:
    """Add the event hooks of all plugins to `listeners`."""
    for hook in OBSERVER_HOOKS:
        for implementation in plugins.implementations(hook):
            listeners.setdefault(hook.__name__, []).append(
                (f"{implementation.distribution} {implementation.version}", implementation.value)
            )


def _offered_observers(offer: Offer[Callable[..., Sequence[object]]], owner: str, config: object) -> Sequence[object]:
    """Return the observers that a plugin provides for the run. If the plugin fails, a warning is logged, and there are
    none. Raises `KareninaError` if the plugin rejects the run.
    """
    try:
        observers = list_of(object, offer.value(config=config) or (), hookspecs.karenina_observers)
        if classes := [observer.__name__ for observer in observers if isinstance(observer, type)]:
            raise TypeError(f"{classes[0]} is a class; return [{classes[0]}(...)]")
    except KareninaError:
        raise
    except Exception as error:
        logger.warning(
            "the observers of %s could not be created, so the run continues without them: %s",
            owner,
            type_and_message(error),
        )
        return ()
    return observers


def configured_panel(plugins: Plugins, config: VerificationConfig) -> Panel | None:
    """Return the panel for runs with the configuration `config`, or None if judges evaluate answers independently.
    Raises `ConfigError` if there are several panels, `PluginError` if it is not a panel, and `KareninaError` if a
    plugin rejects the run.
    """
    offered = [(offer, _offered_panel(offer, config)) for offer in plugins.implementations(hookspecs.karenina_panel)]
    panels = [(offer.distribution, panel) for offer, panel in offered if panel is not None]
    if len(panels) > 1:
        names = " and ".join(distribution for distribution, _ in panels)
        raise ConfigError([f"a run can have only one panel of judges, but {names} each offer one; configure only one"])
    for distribution, panel in panels:
        _check_panel(panel, distribution)
    return panels[0][1] if panels else None


def _offered_panel(offer: Offer[Callable[..., Panel | None]], config: VerificationConfig) -> Panel | None:
    """Return the panel that a plugin offers for `config`, or None. Raises `PluginError` if the plugin fails, and
    `KareninaError` if it rejects the run.
    """
    try:
        return offer.value(config=config)
    except KareninaError:
        raise
    except Exception as error:
        what = f"the panel of {offer.distribution} cannot be used: {offer.hook} failed"
        raise PluginError(f"{what}: {type_and_message(error)}") from error


def _check_panel(panel: object, distribution: str) -> None:
    """Raise `PluginError` if `panel`, which a plugin of `distribution` offers, is not a panel."""
    model = getattr(panel, "model", None)
    if isinstance(panel, type):
        why = "is a class; return an instance of it"
    elif not callable(getattr(panel, "evaluate", None)):
        why = "has no method evaluate; write async def evaluate(self, answer)"
    elif not isinstance(model, PanelModel):
        why = f"has no PanelModel as its attribute model, but {model!r:.80}; write self.model = PanelModel(...)"
    else:
        return
    raise PluginError(f"the panel of {distribution} cannot be used: karenina_panel returned {panel!r:.80}, which {why}")


def offered_executors(plugins: Plugins) -> list[tuple[Executor, str]]:
    """Return the available executors with their distributions, sorted by name. The built-in executor `asyncio` is
    always included; executors without a name are rejected.
    """
    executors: list[tuple[Executor, str]] = [(AsyncioExecutor(), OWNER)]
    for offer in plugins.offers(karenina_executors, Executor):
        if isinstance(getattr(offer.value, "name", None), str):
            executors.append((offer.value, offer.distribution))
        else:
            what = f'the class {type(offer.value).__name__} has no name; write name = "..." in it'
            plugins.reject(offer, PluginError(what))
    return sorted(executors, key=lambda pair: (pair[0].name, pair[1]))


def configured_executor(plugins: Plugins, config: VerificationConfig) -> Executor:
    """Return the executor that `config` selects. Raises `ConfigError` if it is missing or unusable."""
    try:
        return find_executor(plugins, config.section(EngineSettings).executor)
    except PluginError as error:
        raise ConfigError([f"executor: {error}"]) from error


def find_executor(plugins: Plugins, name: str) -> Executor:
    """Return the executor with the given name. Raises `PluginError` if it does not exist, if it failed to load, or if
    two distributions provide it. The message states where to find it, or suggests a similar name.
    """
    offered = offered_executors(plugins)
    matching = [(executor, owner) for executor, owner in offered if executor.name == name]
    if len(matching) == 1:
        return matching[0][0]
    if matching:
        matching.sort(key=lambda pair: official_first(pair[1].partition(" ")[0]))
        names = " and ".join(owner for _, owner in matching)
        raise PluginError(
            f"two plugins offer the executor {name!r} ({names}); "
            f'block one of them with [plugins] block = ["{matching[-1][1]}"]'
        )
    owner = read_catalog()["executors"].get(name)
    if owner is not None:
        raise PluginError(f"the executor {name!r} is not available; {plugins.why_absent(owner)}")
    near = did_you_mean(name, [executor.name for executor, _ in offered])
    raise PluginError(f"there is no executor {name!r}{near}{not_loaded(plugins)}")
