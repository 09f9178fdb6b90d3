"""Namespaces: third-party names start with their import package, as in `my_package.words`.

This applies to settings, fields of questions, traits and templates, adapter interfaces, primitives and trait kinds.
Names that belong to this project, or that a program registers without a plugin, have no prefix.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.metadata import entry_points
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from karenina_core.catalog import install_command, read_catalog
from karenina_core.text import did_you_mean

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")

installed: Final = cache(entry_points)
"""Return the installed entry points of all groups. They are only discovered once per process."""
facts_of: Final = cache(attrgetter("metadata"))
"""Return the metadata of a distribution. It is only parsed once per process."""


@cache
def third_parties() -> frozenset[str]:
    """Return the import packages of installed third-party plugins."""
    groups = (group for group in installed().groups if group.startswith("karenina."))
    modules = (point.value.partition(":")[0] for group in groups for point in installed().select(group=group))
    return frozenset(module.partition(".")[0] for module in modules) - _members()


@cache
def _members() -> frozenset[str]:
    """Return the import names of this project's packages, installed or not."""
    return frozenset(name.replace("-", "_") for name in read_catalog()["members"])


def namespace(module: str) -> str:
    """Return the prefix for names from `module`: `my_package.` for a third party, otherwise an empty string."""
    package = module.partition(".")[0]
    return f"{package}." if package not in _members() and package in third_parties() else ""


def namespace_of(owner: object) -> str:
    """Return the prefix for names from a module, class or object. See `namespace`."""
    return namespace(str(getattr(owner, "__module__", None) or getattr(owner, "__name__", "")))


def check_name(kind: str, name: str, owner: object) -> None:
    """Raise `ValueError` if `name` is outside the namespace of `owner`, unless `owner` has none, as in this project's
    packages. The message calls the name a `kind`.
    """
    prefix = namespace_of(owner)
    if not name.startswith(prefix):
        raise ValueError(
            f"the {kind} {name!r} must begin with the name of its package, so that files show which plugin to "
            f"install; write {prefix + name.rpartition('.')[2]!r}"
        )


def check_owner(model: type[BaseModel], plugin: object) -> None:
    """Raise `ValueError` if a settings model belongs neither to the plugin's own package nor to this project. Plugins
    without a namespace may use any model.
    """
    package, mine = model.__module__.partition(".")[0], namespace_of(plugin)
    if mine and package not in _members() and namespace_of(model) != mine:
        raise ValueError(f"{model.__name__} is defined in {package}; define it in the plugin's own package, {mine}")


def flatten(values: Mapping[str, Any], known: Collection[str] = ()) -> dict[str, Any]:
    """Return the values with the tables of plugin packages flattened: `my_package: {words: 3}` becomes
    `my_package.words: 3`. Names in `known` are never such packages. Raises `ValueError` if a name is given in both
    forms.
    """
    flat: dict[str, Any] = {}
    for name, value in values.items():
        is_table = isinstance(value, Mapping) and name not in known and name in third_parties()
        for key, entry in (
            {f"{name}.{inner}": item for inner, item in value.items()}.items() if is_table else [(name, value)]
        ):
            if key in flat or (is_table and key in values):
                raise ValueError(f"{key} was given twice; keep only one")
            flat[key] = entry
    return flat


def is_owned(name: str, kind: Literal["trait_fields", "question_fields", "template_fields"]) -> bool:
    """Return whether a key in a file is a plugin's field, or a table named after a plugin's package. A name with a dot
    always is. `kind` is the key in the catalog for the fields of this project's plugins, which have no dot.
    """
    return "." in name or name in read_catalog()[kind] or name in third_parties()


def owned_fields(models: Iterable[type[BaseModel] | None]) -> dict[str, type[BaseModel]]:
    """Return the fields of all `models`, keyed by full name, each with the model that owns it. None is ignored."""
    return {namespace_of(model) + name: model for model in models if model is not None for name in model.model_fields}


def read_owned(model: type[M], values: Mapping[str, Any]) -> M:
    """Create an instance of `model` from those of `values` that are its fields, named with the prefix of its plugin.
    All others are ignored. Raises pydantic's `ValidationError` if the values are invalid.
    """
    prefix = namespace_of(model)
    return model.model_validate({name: values[prefix + name] for name in model.model_fields if prefix + name in values})


def describe_unknown(name: str, known: Iterable[str], owners: Mapping[str, str]) -> str:
    """Explain why the field `name` has no owner, and how to fix it. `known` contains the names that may have been
    meant, and `owners` maps the fields of known plugins to the packages to install.
    """
    package = name.rpartition(".")[0]
    if name in owners:
        return f"the plugin that owns this field is not installed: {install_command(owners[name])}"
    if package and package not in third_parties():
        near = f" (if the distribution has that name){did_you_mean(package, third_parties(), '')}"
        return f"the plugin {package} is not installed: {install_command(package.replace('_', '-'))}{near}"
    return f"no plugin has a field with that name{did_you_mean(name, known)}"
