"""Checks of the declarations of stages, made when a plugin offers them.

This module is imported before `Stage` is defined, so it inspects attributes instead of using the class.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from inspect import Parameter, isasyncgenfunction, isclass, iscoroutinefunction, isfunction, signature
from inspect import isgeneratorfunction as is_generator
from typing import Any, Final, get_origin

from karenina_core.artifacts.artifact import STAGE_HOOKS, ArtifactKey, Slot, find_slot
from karenina_core.errors import PluginError
from karenina_core.namespaces import check_name, check_owner
from karenina_core.text import is_one_edit_away

_BASES: Final = "karenina_core.stages.stage"
_LONG: Final = 8
"""The minimum length of a method name for a one-character difference to be reported as a typo."""

_Rule = tuple[Callable[[Any], bool], str, str | None]


def _set_of(*types: type) -> Callable[[Any], bool]:
    """Return a function that checks whether its argument is a set of instances of `types`. An empty set passes."""
    return lambda value: isinstance(value, Set) and all(isinstance(item, types) for item in value)


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and hasattr(value, "model_fields")


def _is_type(value: object) -> bool:
    return isclass(value) or get_origin(value) is not None  # list[str], for example


_KEYS: Final[_Rule] = (_set_of(ArtifactKey), "a set of artifact keys", None)
_PLACES: Final[_Rule] = (
    lambda value: _set_of(str, Slot)(value) and not any(isinstance(item, str) and find_slot(item) for item in value),
    "a set of slots or stage names",
    None,
)
_SETTINGS: Final[_Rule] = (lambda value: value is None or _is_model(value), "a pydantic model class", "MySettings")
_SLOT: Final[_Rule] = (lambda value: isinstance(value, Slot | None), "a slot", "Slot.PARSE_TEMPLATE")
_FLAG: Final[_Rule] = (lambda value: isinstance(value, bool), "True or False", "True")
_RULES: Final[Mapping[str, _Rule]] = {
    **dict.fromkeys(("requires", "optional", "produces", "revises"), _KEYS),
    **dict.fromkeys(("after", "before"), _PLACES),
    **dict.fromkeys(("settings", "trait_settings", "question_settings", "field_settings"), _SETTINGS),
    **dict.fromkeys(("fallback", "runs_after_error"), _FLAG),
    **dict.fromkeys(("slot", "for_slot"), _SLOT),
    "scope": (lambda value: value in ("item", "answer"), '"item" or "answer"', '"item"'),
    "reads": (lambda value: isinstance(value, Mapping), "a dictionary", '{"setting": value_if_missing}'),
    "offers": (
        lambda value: isinstance(value, Mapping) and _set_of(str)(value.keys()) and all(map(_is_type, value.values())),
        "a dictionary of types by name",
        '{"my_package.words": int}',
    ),
    "prompts": (lambda value: isinstance(value, tuple | list), "a tuple of prompt tasks", "(TASK,)"),
    "judge_ports": (_set_of(str), "a set of port names", '{"parser"}'),
    "precedence": (lambda value: type(value) is int, "an integer", "1"),
    "error_outcome": (
        lambda value: getattr(value, "judged", True) is False,
        "an outcome for items that are not judged",
        "Outcome.STAGE_ERROR",
    ),
}
"""For each declaration: a check of its value, a description of valid values, and an example for the error message.

If there is no example, the message shows the given value written as a set.
"""


def name_of_stage(stage: Any, hook: str, plugin: object) -> str:
    """Return the name of a stage that `plugin` offers through `hook`. Raises `PluginError` if it is not a class with a
    name or declares another slot, and `ValueError` if its settings or known values are outside the plugin's namespace.
    """
    name = getattr(stage, "name", None)
    if not isinstance(stage, type) or not isinstance(name, str) or not hasattr(stage, "runs_after_error"):
        raise PluginError(f"{plugin!r} offers {stage!r} through {hook}, but a stage must be a class with a name")
    slot = STAGE_HOOKS[hook]
    for key, stated in (("for_slot", getattr(stage, "for_slot", None) or slot), ("slot", getattr(stage, "slot", slot))):
        if isinstance(stated, Slot | None) and stated is not slot:
            home = next(owner for owner, slot in STAGE_HOOKS.items() if slot is stated)
            raise PluginError(f"stage {name} is offered through {hook}, but declares {key} = {stated}; use {home}")
    for kind in ("settings", "trait_settings", "question_settings", "field_settings"):
        if _is_model(getattr(stage, kind)):
            check_owner(getattr(stage, kind), plugin)
    for value in getattr(stage, "offers", ()):
        check_name("known value", str(value), plugin)
    return name


def name_of_adapter(spec: Any, _hook: str, plugin: object) -> str:
    """Return the adapter's interface name. Raises `ValueError` if the name is outside the plugin's namespace."""
    interface = str(spec.interface)
    check_name("interface", interface, plugin)
    return interface


def why_refused(stage: Any) -> str | None:
    """Return a message about the stage's invalid declarations and how to fix them, or None if all are valid.

    Values must have the right types, and methods must exist and be callable. Attributes that look like misspelled
    declarations are reported too, because they would have no effect.
    """
    problems = [*_wrong_values(stage), *_mistyped_names(stage), *_wrong_methods(stage)]
    where = f"the stage {stage.name} ({stage.__module__}.{stage.__qualname__}) has invalid declarations"
    return f"{where}: {'; '.join(problems)}" if problems else None


def _wrong_values(stage: type[Any]) -> Iterator[str]:
    """Yield a message for each declaration with a missing or invalid value."""
    for name, (accepts, expected, example) in _RULES.items():
        value = getattr(stage, name, None)
        if not accepts(value):
            if not isinstance(value, Set | list | tuple | dict | str | ArtifactKey | Slot):
                example = example or "{...}"
            elif expected == _KEYS[1] and any(isinstance(item, str) for item in _items(value)):
                example = '{ArtifactKey("my_package.name", type)}'
            mended = example or _source(stage, dict.fromkeys(_items(value)).keys(), slots=True)
            yield f"{name} must be {expected}, not {_source(stage, value)} (write {name} = {mended})"
    for name, annotation in (pair for base in stage.__mro__ for pair in vars(base).get("__annotations__", {}).items()):
        if "ClassVar" in str(annotation) and not hasattr(stage, name):
            yield f"the class has no {name} (write {name} = ... in the class)"


def _mistyped_names(stage: type[Any]) -> Iterator[str]:
    """Yield a message for each attribute that is probably a misspelled declaration."""
    own, inherited = _attributes(stage)
    for name, value in own.items():
        near = None if name in inherited else _nearest(name, _RULES)
        is_one = isinstance(value, Set | ArtifactKey | Slot) or _is_model(value)
        holds_one = isinstance(value, list | tuple | dict) and any(isinstance(key, ArtifactKey | Slot) for key in value)
        if near is not None and (is_one or holds_one or (near == "scope" and _RULES[near][0](value))):
            yield f"{name!r} is not a known declaration and has no effect (write {near} = {_source(stage, value)})"


def _wrong_methods(stage: type[Any]) -> Iterator[str]:
    """Yield a message for each method that is missing, misspelled or of the wrong kind. A constructor with required
    arguments is also reported.
    """
    own, inherited = ({k: v for k, v in attributes.items() if isfunction(v)} for attributes in _attributes(stage))
    for name in [name for name in dir(stage) if _is_missing(stage, name)]:
        method, near = getattr(stage, name), _nearest(name, own)
        line = f"{'async ' * iscoroutinefunction(method)}def {name}({', '.join(signature(method).parameters)})"
        yield f"the class has no {name}(){f', and {near}() is never called' if near else ''} (write {line})"
    for name, method in own.items():
        base, near = inherited.get(name), _nearest(name, [key for key in inherited if len(key) >= _LONG])
        if base is not None and name != "execute" and iscoroutinefunction(method) > iscoroutinefunction(base):
            yield f"{name}() is never awaited (write def {name}(...), without async)"
        elif base is not None and (is_generator(method) > is_generator(base) or isasyncgenfunction(method)):
            yield f"{name}() is a generator, so calling it does nothing (write it without yield)"
        elif base is None and near and [*signature(method).parameters] == [*signature(inherited[near]).parameters]:
            yield f"{name}() is not a stage method and is never called (write def {near}(...))"
    plain = all(getattr(stage, method) == getattr(object, method) for method in ("__new__", "__init__"))
    parameters = () if plain else signature(stage).parameters.values()  # slow to read
    needed = [parameter for parameter in parameters if parameter.default is Parameter.empty]
    if any(parameter.kind not in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD) for parameter in needed):
        names = ", ".join(parameter.name for parameter in needed)
        yield f"the stage is created without arguments, but its constructor requires {names} (add default values)"


def _is_missing(stage: type[Any], name: str) -> bool:
    """Return whether `name` is still an abstract method although the stage inherits an `execute` that calls it."""
    if not getattr(getattr(stage, name, None), "__isabstractmethod__", False):
        return False  # most names, so the slower steps are left for the others
    owner = next(base for base in stage.__mro__ if name in vars(base))
    return issubclass(owner, next(base for base in stage.__mro__ if "execute" in vars(base)))


def _attributes(stage: type[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return two dictionaries of public attributes: those that the stage or a base class outside the core defines, and
    those that the core's base classes define.
    """
    own, inherited = dict[str, Any](), dict[str, Any]()
    for base in stage.__mro__[-2::-1]:
        attributes = inherited if base.__module__ == _BASES else own
        attributes.update({name: value for name, value in vars(base).items() if not name.startswith("_")})
    return own, inherited


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the first name in `known` that is exactly one edit away from `name`, or None."""
    return next((one for one in known if abs(len(one) - len(name)) < 2 and is_one_edit_away(name, one)), None)


def _items(value: object) -> Iterable[object]:
    """Return the items of a set, list, tuple or dictionary. Any other value is treated as a single item."""
    return value if isinstance(value, Set | list | tuple | dict) else [value]


def _source(stage: type[Any], value: object, *, slots: bool = False) -> str:
    """Return `value` as source code, or a description if it is a function or property. Constants of the stage's module
    are shown by name. Other values are cut to 200 characters. With `slots`, slot names are shown as members of `Slot`.
    """
    if isinstance(value, Set | list):
        inner = ", ".join(_source(stage, item, slots=slots) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"{{{inner}}}" if inner else "frozenset()"
    if isinstance(value, Slot) or (slots and isinstance(value, str) and find_slot(value)):
        return str(value if isinstance(value, Slot) else find_slot(str(value)))
    if isfunction(value) or isinstance(value, property):
        return f"a {type(value).__name__}"
    constants = getattr(sys.modules.get(stage.__module__), "__dict__", {}) if not isinstance(value, str | None) else {}
    return next((name for name, constant in constants.items() if constant is value), f"{value!r:.200}")
