"""Find the observers of a run among the plugins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from karenina_core.errors import KareninaError, PluginError, type_and_message
from karenina_core.plugins import Offer, Plugins
from karenina_engine.scheduling import hookspecs
from karenina_engine.scheduling.observers import Listeners, Observers

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

logger = logging.getLogger("karenina")

OBSERVER_HOOKS: Final[tuple[Callable[..., None], ...]] = tuple(
    getattr(hookspecs, f"karenina_{what}_{when}")
    for what in ("run", "answer", "item", "stage", "call")
    for when in ("started", "finished")
)


def find_observers(plugins: Plugins, config: VerificationConfig | None = None, own: Sequence[object] = ()) -> Observers:
    """Return all observers of a run under `config`: plugins with event hooks, the observers that plugins offer, `own`.

    Raises the `KareninaError` with which a plugin refuses the run, and `PluginError` if an observer does not match the
    hook specifications.
    """
    found: Listeners = {}
    _add_hooks(found, plugins)
    for implementation in plugins.implementations(hookspecs.karenina_observers) if config is not None else ():
        owner = f"{implementation.distribution} {implementation.version}"
        for observer in _offered_observers(implementation, owner, config):
            _add_observer(found, plugins, observer, implementation.distribution, implementation.version)
    for observer in own:
        _add_observer(found, plugins, observer, "this-program", "0")
    return Observers(found)


def _add_observer(found: Listeners, plugins: Plugins, observer: object, distribution: str, version: str) -> None:
    alone = Plugins(plugins.specifications)
    try:
        alone.register(observer, distribution=distribution, version=version)
    except PluginError as error:
        raise PluginError(f"an observer of {distribution} {version} cannot be used: {error}") from error
    _add_hooks(found, alone)


def _add_hooks(found: Listeners, plugins: Plugins) -> None:
    for hook in OBSERVER_HOOKS:
        for one in plugins.implementations(hook):
            found.setdefault(hook.__name__, []).append((f"{one.distribution} {one.version}", one.value))


def _offered_observers(found: Offer[Callable[..., Sequence[object]]], owner: str, config: object) -> Sequence[object]:
    try:
        return found.value(config=config) or ()
    except KareninaError:
        raise
    except Exception as error:
        logger.warning(
            "the observers of %s could not be created, and the run goes on without them: %s",
            owner,
            type_and_message(error),
        )
        return ()
