"""The registry of plugins, and of the objects that they offer through hooks.

Failures are data: they are listed, and only affect runs that need the plugin. The active plugins are those in the
enclosing `use_plugins` block or, by default, the installed plugins.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, partial
from importlib.metadata import EntryPoint
from inspect import get_annotations, getattr_static
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, get_args

import pluggy

from karenina_core.api_version import version_mismatch
from karenina_core.artifacts.artifact import STAGE_HOOKS
from karenina_core.artifacts.declarations import name_of_adapter, name_of_stage, why_refused
from karenina_core.catalog import install_command
from karenina_core.errors import PluginError, type_and_message
from karenina_core.hooks import PROJECT
from karenina_core.plugins.discovery import GROUPS, Kind, PluginInfo, Selection, canonical, installed, load_entry_points
from karenina_core.plugins.specifications import GROUP, PluginManager, Specifications, installed_specifications
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

logger = logging.getLogger("karenina")

_HOOKS_OF_KIND: Final[dict[Kind, tuple[Iterable[str], Callable[..., str], Callable[[Any], str | None]]]] = {
    "stage": (STAGE_HOOKS, name_of_stage, cache(why_refused)),
    "adapter": (["karenina_adapters"], name_of_adapter, lambda _: None),
}
"""For each kind of entry point: its hooks, a function that names the offered objects, and one that checks them."""
_active: ContextVar[Plugins | None] = ContextVar("karenina_plugins", default=None)


class Offer(NamedTuple, Generic[T_co]):
    """An object offered by a plugin, or the plugin's implementation of a hook, with the distribution."""

    value: T_co
    distribution: str
    version: str
    plugin: object
    hook: str = ""


class Plugins:
    """The plugins of a process, found as entry points or registered by a program.

    Use `Plugins.discover()` for the installed plugins, and `Plugins()` to register your own.
    """

    def __init__(self, specifications: Specifications | None = None) -> None:
        self.specifications = specifications if specifications is not None else installed_specifications(Selection())
        self.settings: dict[type[BaseModel], str] = {}
        """Settings models that hook owners found in offered objects, each with its distribution."""
        self._manager = PluginManager(PROJECT)
        for owner in self.specifications.owners:
            self._manager.add_hookspecs(owner.module)
        self._infos: dict[tuple[Kind, str, str], PluginInfo] = {}
        self._plugins: dict[int, tuple[object, str, str]] = {}
        self._offered: dict[str, list[Any]] = {}
        for info in self.specifications.problems:
            self._record(info)

    @classmethod
    def discover(
        cls,
        selection: Selection | None = None,
        found: Sequence[EntryPoint] | None = None,
        kinds: Collection[Kind] | None = None,
    ) -> Plugins:
        """Load the installed plugins that `selection` allows (by default, `Selection.of()`), and return them. Plugins
        that cannot be loaded are listed with the reason, without raising an exception. If `kinds` is given, only
        plugins of these kinds are loaded. In tests, `found` replaces the installed entry points.

        The order of the entry points does not matter. With `kinds`, the hook owners' `offered` functions are not
        called, and unknown names in the selection are ignored.
        """
        chosen = selection if selection is not None else Selection.of()
        specified = [point for point in found or () if point.group == GROUP]
        plugins = cls(installed_specifications(Selection(block=chosen.block, pick=chosen.pick), *specified))
        for group, kind in GROUPS.items():
            if kinds is None or kind in kinds:
                points = installed().select(group=group) if found is None else found
                plugins._add_group((point for point in points if point.group == group), kind, chosen)
        if kinds is None:
            plugins._warn_about_unknown_names(chosen)
            plugins._call_offered()
        return plugins

    def register(self, plugin: object, *, distribution: str = "this-program", version: str = "0") -> None:
        """Register a plugin that has no entry point, under the given `distribution` and `version`. Raises `PluginError`
        if it does not match the hook specifications, or if what it offers, such as a stage, is invalid.

        The `offered` functions of the plugin's hook owners are called.
        """
        name = getattr(plugin, "__name__", type(plugin).__name__)
        failure = self._admit(plugin, "other", [PluginInfo(name, "other", distribution, version, repr(plugin))])
        if failure is not None:
            del self._infos[("other", name, distribution)]
            raise PluginError(f"the plugin {plugin!r} cannot be registered: {failure}")
        self._call_offered(plugin)

    def describe(self) -> list[PluginInfo]:
        """Return all entry points and registered plugins with their states, sorted by kind and name."""
        return sorted(self._infos.values(), key=lambda info: (info.kind, info.name, info.distribution))

    def why_absent(self, distribution: str) -> str:
        """Explain why a distribution's plugins are missing, and how to fix it."""
        for info in self.describe():
            if info.distribution == distribution and info.failure is not None:
                return f"{distribution} {info.version} cannot be used: {info.failure}"
        return f"{distribution} is not installed: {install_command(distribution)}"

    def implementations(self, hook: Callable[P, R]) -> list[Offer[Callable[P, R]]]:
        """Return an `Offer` for each plugin that implements a hook. Its value is a function that calls that plugin's
        implementation and only accepts keyword arguments. `hook` is the hook's specification. Raises `PluginError` if
        no installed distribution specifies it.
        """
        caller: pluggy.HookCaller | None = getattr(self._manager.hook, name := hook.__name__, None)
        if caller is None or not caller.has_spec():
            raise PluginError(f"the hook {name} cannot be used: {self.specifications.why_missing(name)}")
        implementing = {id(implementation.plugin) for implementation in caller.get_hookimpls()}
        return [
            Offer(partial(self._call_one, plugin, name), distribution, version, plugin, name)
            for plugin, distribution, version in self._plugins.values()
            if id(plugin) in implementing
        ]

    def each(self, hook: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> Iterator[Offer[R]]:
        """Call `hook` on each plugin that implements it, with keyword arguments only, and yield each result as an
        `Offer`. A plugin that raises an exception is listed as failed (see `reject`) and skipped.
        """
        for offer in self.implementations(hook):
            try:
                result = offer.value(*args, **kwargs)
            except (Exception, SystemExit) as error:
                self.reject(offer, error)
            else:
                yield Offer(result, offer.distribution, offer.version, offer.plugin, offer.hook)

    def offers(self, hook: Callable[[], Sequence[T]], kind: Any = object) -> list[Offer[T]]:
        """Return an `Offer` for each object that plugins offer through `hook`, which takes no arguments. A plugin that
        does not return a list of instances of `kind`, or of subclasses of C if `kind` is `type[C]`, is rejected. The
        list is cached until another plugin is registered; do not modify it.
        """
        if hook.__name__ not in self._offered:
            found = list[Offer[Any]]()
            for offer in self.each(hook):
                try:
                    found += [offer._replace(value=value) for value in list_of(kind, offer.value, hook)]
                except TypeError as error:
                    self.reject(offer, error)
            self._offered[hook.__name__] = found
        return self._offered[hook.__name__]

    def call(self, hook: Callable[[], Sequence[T]], kind: Any = object) -> list[T]:
        """Return the objects that plugins offer through `hook` in a single list. See `offers`."""
        return [offer.value for offer in self.offers(hook, kind)]

    def reject(self, offer: Offer[object], error: Exception | SystemExit) -> None:
        """List all plugins of a distribution as failed, because an object that it offers cannot be used. The plugins
        stay registered, so their hooks are still called.
        """
        for info in self.describe():
            if info.distribution == offer.distribution and info.state == "loaded":
                self._record(info.with_failure("failed", type_and_message(error)))

    def of_kind(self, kind: Kind) -> list[Offer[Any]]:
        """Return the offers for a kind of entry point (`stage` or `adapter`), sorted by name and distribution. Blocked,
        conflicting and failed ones are omitted. Do not modify the list.
        """
        if kind not in self._offered:
            hooks, name_of, _ = _HOOKS_OF_KIND[kind]
            offers = [offer for hook in hooks for offer in self.offers(getattr(self._manager.hook, hook).spec.function)]
            named = [((kind, name_of(one.value, one.hook, one.plugin), one.distribution), one) for one in offers]
            unused = {key for key, info in self._infos.items() if info.state != "loaded"}
            self._offered[kind] = [offer for key, offer in sorted(named, key=lambda pair: pair[0]) if key not in unused]
        return self._offered[kind]

    def _add_group(self, points: Iterable[EntryPoint], kind: Kind, selection: Selection) -> None:
        """Load the plugins of one kind that the selection allows, and list the others with the reason. An object that
        several entry points name is only loaded once.
        """
        loaded: dict[int, tuple[object, list[PluginInfo]]] = {}
        for info, plugin in load_entry_points(points, kind, selection, lambda plugin, _: plugin):
            if info.state == "found":
                loaded.setdefault(id(plugin), (plugin, []))[1].append(info)
            else:
                self._record(info)
        for plugin, infos in loaded.values():
            self._admit(plugin, kind, infos)

    def _admit(self, plugin: object, kind: Kind, infos: list[PluginInfo]) -> str | None:
        """Register the object that one or more entry points name, and check what it offers. The entry points, `infos`,
        are listed as loaded or, if the object fails or offers nothing of their name, as failed. Returns the reason if
        the object fails, otherwise None. An object that fails is not kept.
        """
        fresh = id(plugin) not in self._plugins
        named, offers = {info.name for info in infos}, dict[tuple[Kind, str], str | None]()
        try:
            failure = self._register(plugin, infos[0].distribution, infos[0].version)
            for each, (hooks, name_of, why_refused) in _HOOKS_OF_KIND.items() if failure is None else ():
                specs = [getattr(self._manager.hook, hook).spec.function for hook in hooks]
                found = [list_of(object, self._call_one(plugin, spec.__name__, ()), spec) for spec in specs]
                pairs = [(value, hook) for hook, values in zip(hooks, found, strict=True) for value in values]
                for value, hook in pairs:
                    name = name_of(value, hook, plugin)
                    if (each, name) in offers:
                        raise PluginError(f"the {each} {name} is offered twice, again by {hook}; offer it only once")
                    offers[each, name] = why_refused(value)
        except (Exception, SystemExit) as error:
            failure = type_and_message(error)
        failure = failure or next((why for (_, name), why in offers.items() if why and name not in named), None)
        names = {name for each, name in offers if each == kind} if kind in _HOOKS_OF_KIND else named
        if fresh and id(plugin) in self._plugins and (failure is not None or not names & named):
            del self._plugins[id(plugin)]
            if self._manager.is_registered(plugin):
                self._manager.unregister(plugin)
        mine = f"{', '.join(sorted(names)) or f'no {kind}'}; name the entry point after the {kind} that it offers"
        for info in infos:
            other = f"the entry point is named {info.name!r}, but {info.target} offers {mine}"
            problem = failure or offers.get((kind, info.name)) or (None if info.name in names else other)
            self._record(info.with_failure("failed", problem) if problem else self._loaded(info, plugin))
        return failure

    def _warn_about_unknown_names(self, selection: Selection) -> None:
        """Log a warning about each name in the selection that no installed plugin or distribution has."""
        infos = [*self.describe(), *(owner.info for owner in self.specifications.owners)]
        installed_names = {name for info in infos for name in (info.name, info.distribution)}
        for name in sorted(selection.block | selection.only):
            if not {name, canonical(name)} & installed_names:
                hint = did_you_mean(name, installed_names)
                logger.warning("the plugin selection contains %r, but no installed plugin has that name%s", name, hint)

    def _register(self, plugin: object, distribution: str, version: str) -> str | None:
        """Register a plugin with pluggy unless it is already registered. Returns the reason if the plugin is rejected,
        otherwise None; one without hooks stays registered. Raises pluggy's `PluginValidationError` or `ValueError` if
        it does not match the specifications.
        """
        hashing: object = plugin.__hash__
        failure = "the plugin is not hashable; set eq=False" if hashing is None else version_mismatch(plugin)
        if failure is None and id(plugin) not in self._plugins:
            self._plugins[id(plugin)] = (plugin, distribution, version)
            self._offered.clear()
            self._manager.register(plugin, name=f"{distribution} {id(plugin)}")
            self._manager.check_pending()
            if not self._manager.get_hookcallers(plugin):
                failure = f"{plugin!r} implements no hook; name an object with functions marked with @hookimpl"
        return failure

    def _call_one(self, plugin: object, hook: str, default: object = None, /, **arguments: object) -> Any:
        """Call `hook` on the given plugin only. Returns `default` if the plugin does not implement the hook."""
        if all(one.plugin is not plugin for one in getattr(self._manager.hook, hook).get_hookimpls()):
            return default  # making a caller for one plugin takes longer than looking
        others = [other for other, *_ in self._plugins.values() if other is not plugin]
        return next(iter(self._manager.subset_hook_caller(hook, others)(**arguments)), None)

    def _loaded(self, info: PluginInfo, plugin: object) -> PluginInfo:
        """Return a copy of `info` in the state `loaded`, listing the plugin's hooks that are not specified."""
        names = [caller.name for caller in self._manager.get_hookcallers(plugin) or () if not caller.has_spec()]
        ignored = tuple(f"{name} is ignored: {self.specifications.why_missing(name)}" for name in names)
        return info._replace(state="loaded", ignored=ignored)

    def _call_offered(self, plugin: object = None) -> None:
        """Call the function `offered` of each hook owner's module that has one, or only of the owners of the given
        plugin's hooks. If the call raises an exception, the owner is listed as failed.
        """
        hooks = None if plugin is None else {caller.name for caller in self._manager.get_hookcallers(plugin) or ()}
        for owner in self.specifications.owners:
            offered = getattr(owner.module, "offered", None)
            if offered is not None and (hooks is None or hooks.intersection(owner.hooks)):
                try:
                    offered(self)
                except Exception as error:
                    self._record(owner.info.with_failure("failed", f"offered: {type_and_message(error)}"))

    def _record(self, info: PluginInfo) -> None:
        self._infos[(info.kind, info.name, info.distribution)] = info


def is_a(value: object, kind: Any) -> bool:
    """Return whether `value` is an instance of `kind`, has all members of `kind` if that is a protocol, is callable if
    it is `Callable`, or is a subclass of C if it is `type[C]`.
    """
    classes = get_args(kind)
    if isinstance(value, type):
        return issubclass(value, classes) if classes else kind in (object, Callable)
    if Protocol in getattr(kind, "__bases__", ()):
        return not _missing_members(value, kind)
    return not classes and isinstance(value, kind)


def _missing_members(value: object, kind: Any) -> list[str]:
    """Return the members of the protocol `kind` that `value` does not have. Properties are not evaluated."""
    members = sorted(name for name in {*dir(kind), *get_annotations(kind)} if not name.startswith("_"))
    return [name for name in members if getattr_static(value, name, None) is None and not hasattr(value, name)]


def list_of(kind: Any, values: Any, hook: Callable[..., object]) -> Sequence[Any]:
    """Return the list `values`, which a plugin returned from `hook`. Raises `TypeError` if it is not a list, or if
    `is_a` does not accept one of its items for `kind`. The message states what the hook must return.
    """
    if isinstance(values, list | tuple) and all(is_a(value, kind) for value in values):
        return values
    right = f"{hook.__name__} must return {hook.__annotations__.get('return', 'a list')}".replace("Sequence", "list")
    objects = values if isinstance(values, list | tuple) and Protocol in getattr(kind, "__bases__", ()) else ()
    missing = [name for one in objects if not isinstance(one, type) for name in _missing_members(one, kind)]
    raise TypeError(f"{right}, not {values!r:.80}" + (f", which has no {missing[0]}" if missing else ""))


def active_plugins(kinds: tuple[Kind, ...] | None = None) -> Plugins:
    """Return the active plugins: those in the enclosing `use_plugins` block or, by default, the installed ones.
    Installed plugins are discovered when first needed. `kinds` limits them to some kinds. By default, all are loaded.
    """
    return _active.get() or installed_plugins(Selection.of(), kinds)


@cache
def installed_plugins(selection: Selection, kinds: tuple[Kind, ...] | None = None) -> Plugins:
    """Return the installed plugins that `selection` allows. They are only discovered once per process. Use `kinds` to
    load only some kinds of plugins.
    """
    return Plugins.discover(selection, kinds=kinds)


@contextmanager
def use_plugins(plugins: Plugins) -> Iterator[Plugins]:
    """Use `plugins` instead of the installed plugins inside the `with` block."""
    token = _active.set(plugins)
    try:
        yield plugins
    finally:
        _active.reset(token)
