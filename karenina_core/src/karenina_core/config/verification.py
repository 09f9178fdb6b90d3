"""`VerificationConfig`, the configuration of a run."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from decimal import Decimal
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, model_validator

from karenina_core.catalog import CORE, read_catalog
from karenina_core.config.setting_owners import (
    PREFIX,
    CoreSettings,
    Setting,
    all_settings,
    flatten_settings,
    not_loaded,
    prompt_tasks,
    read_environment,
    translate_settings,
)
from karenina_core.errors import ConfigError, type_and_message
from karenina_core.models.model import SECRECY
from karenina_core.namespaces import describe_unknown, namespace_of, owned_fields, third_parties
from karenina_core.plugins import active_plugins
from karenina_core.text import did_you_mean

S = TypeVar("S", bound=BaseModel)
logger = logging.getLogger("karenina")
_PLAIN = {
    **dict.fromkeys(("bool_parsing", "bool_type"), "must be true or false"),
    **dict.fromkeys(("decimal_parsing", "decimal_type", "float_parsing", "float_type"), "must be a number"),
    **dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "must be an integer"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type"), 'must be a list, such as ["a", "b"]'),
    "dict_type": 'must be a mapping, such as {"name": "value"}',
    "missing": "this field is required; add it",
}


class VerificationConfig(BaseModel):
    """The configuration of a run.

    Every name listed by `karenina config` is a keyword argument: `VerificationConfig(answering_models=[...],
    abstention_enabled=True)`. Settings that are not given are taken from the environment. Raises `ConfigError` with all
    problems: invalid values, and unknown names, each with the closest match or the plugin that provides the name.
    """

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    _sections: dict[type[BaseModel], BaseModel] = PrivateAttr(default_factory=dict)
    _given: frozenset[str] = PrivateAttr(default=frozenset())
    _from_benchmark: frozenset[str] = PrivateAttr(default=frozenset())

    def __init__(self, /, **values: Any) -> None:  # positional-only, because a file may contain the name `self`
        given = {**translate_settings(dict(read_environment())), **translate_settings(flatten_settings(values))}
        super().__init__(**given)
        self._given = frozenset(given)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        """Return the values of all settings, including defaults, keyed by full name. Raises `ConfigError` with all
        problems.
        """
        if not isinstance(values, Mapping):
            raise ConfigError([f"a configuration must be a table of names and values, not a {type(values).__name__}"])
        values, owned = flatten_settings(values), all_settings()
        problems = [_describe_unknown(name, owned) for name in values if name not in owned]
        sections: dict[type[BaseModel], dict[str, Any]] = {}
        for name, setting in owned.items():
            section = sections.setdefault(setting.model, {})
            if name in values:
                section[setting.field] = values[name]
        filled: dict[str, Any] = {}
        for model, section_values in sections.items():
            try:
                instance = model.model_validate(section_values, context={**values, **filled}, by_name=True)
            except ValidationError as error:
                prefix = namespace_of(model)
                problems += [_describe_problem(problem, owned, prefix) for problem in error.errors(include_url=False)]
            except Exception as error:
                problems.append(f"the settings {model.__module__}.{model.__name__} failed: {type_and_message(error)}")
            else:
                filled.update({name: getattr(instance, owned[name].field) for name in owned_fields([model])})
        problems += _find_unknown_tasks(filled.get("prompt_config", {}))
        if problems:
            raise ConfigError(problems)
        return filled

    def section(self, model: type[S]) -> S:
        """Return an instance of the settings model `model` with the values of this configuration, or with defaults if
        no plugin in use offers the model. The values are not validated again, and the same object is returned on every
        call.

        If the defaults of a third party's model are used, this is logged as a warning.
        """
        sections = (self.__pydantic_private__ or {})["_sections"]  # much faster than an attribute of pydantic's
        section: S | None = sections.get(model)
        if section is None:
            owned = [name for name in owned_fields([model]) if name in self._values]
            if not owned and model.model_fields and namespace_of(model):
                message = "%s.%s has its default values: no plugin in use declares it with karenina_settings"
                logger.warning(message, model.__module__, model.__name__)
            section = model.model_construct(**{name.rpartition(".")[2]: self._values[name] for name in owned})
            sections[model] = section
        return section

    @property
    def core(self) -> CoreSettings:
        """The core's own settings as a typed object."""
        return self.section(CoreSettings)

    def has(self, name: str) -> bool:
        """Return whether a setting with the given name exists. Its owner must be installed."""
        return name in (self.__pydantic_extra__ or {})

    def setting(self, name: str) -> Any:
        """Return the value of the given setting. Raises `ConfigError` if the name is unknown or the setting's owner is
        not installed.
        """
        if self.has(name):
            return self._values[name]
        raise ConfigError([_describe_unknown(name, all_settings())])

    def given(self) -> dict[str, Any]:
        """Return the values set by arguments or the environment, without defaults."""
        return {name: self._values[name] for name in sorted(self._given) if name in self._values}

    def with_values(self, **changes: Any) -> Self:
        """Return a copy with the given changes, validated like a new configuration. The changed names no longer count
        as set by a benchmark file. Raises `ConfigError` for unknown names and invalid values.
        """
        changes = flatten_settings(changes)
        changed = type(self)(**{**self.given(), **changes})
        return changed.with_benchmark_names(self._from_benchmark - changes.keys())

    @property
    def benchmark_names(self) -> frozenset[str]:
        """The names of settings that came from a benchmark file, possibly someone else's, rather than from the user."""
        return self._from_benchmark

    def with_benchmark_names(self, names: Iterable[str]) -> Self:
        """Mark exactly the given names as set by a benchmark file, and return this configuration (not a copy)."""
        self._from_benchmark = frozenset(names)
        return self

    @property
    def _values(self) -> dict[str, Any]:
        """The values of all settings, keyed by full name."""
        return self.__pydantic_extra__ or {}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Return the value of the given setting. Use `section` for typed access."""


def _describe_unknown(name: str, owned: Mapping[str, Setting]) -> str:
    """Explain why `name` is not a setting, and how to fix it. `name` may also be an environment variable."""
    plain = name.removeprefix(PREFIX).lower() if name.startswith(PREFIX) else name
    if (distribution := read_catalog()["settings"].get(plain)) is not None:
        return f"{name}: the plugin of this setting is not available; {active_plugins().why_absent(distribution)}"
    listed = "; `karenina config` lists all names"
    package = plain.partition("." if plain == name else "__")[0]
    if package != plain and package not in third_parties():
        return f"{name}: {describe_unknown(f'{package}.', (), {})}{not_loaded()}"
    if plain == name:
        near = did_you_mean(name, {*owned, *third_parties()}, listed)
        return f"{name}: unknown configuration name{near}{not_loaded()}"
    variables = [key.upper().replace(".", "__") for key in owned]
    near = did_you_mean(plain.upper(), variables, listed).replace("mean '", f"mean '{PREFIX}")
    return f"{name}: there is no setting {plain!r}; correct or unset this environment variable{near}{not_loaded()}"


def _find_unknown_tasks(names: Iterable[str]) -> list[str]:
    """Return a message for each key of `prompt_config` that is neither a prompt task nor a family."""
    tasks = prompt_tasks()
    return [
        f"prompt_config.{name}: no stage has a prompt task with that name{did_you_mean(name, tasks)}{not_loaded()}"
        for name in names
        if name not in tasks
    ]


def _describe_problem(problem: Any, owned: Mapping[str, Setting], prefix: str) -> str:
    """Describe a pydantic error on one line: the setting, after `prefix`, its owner, the reason and the value. `owned`
    contains the settings by name. The owner is omitted if it is the core, and the value if it may contain a secret.
    """
    where = prefix + ".".join(str(part) for part in problem["loc"])
    owner = owned.get(prefix + str(problem["loc"][0])) if problem["loc"] else None
    from_whom = f" (of {owner.owner})" if owner is not None and owner.owner != CORE else ""
    message = _PLAIN.get(problem["type"], problem["msg"].removeprefix("Value error, ").replace("Input should", "must"))
    return f"{where}{from_whom}: {message[:1].lower()}{message[1:]}{_show_value(problem, owner)}"


def _show_value(problem: Any, owner: Setting | None) -> str:
    """Return `, not VALUE` for an error message, or an empty string if the message contains the value or it may be a
    secret. Only numbers, booleans and None are shown, and strings (cut to 60 characters) if the setting `owner`, or
    None if it is unknown, has fixed choices.
    """
    value = problem.get("input")
    if problem["type"] in ("value_error", "unknown_name") or any(part in SECRECY for part in problem["loc"]):
        return ""
    if isinstance(value, (bool, int, float, NoneType)):
        return f", not {value!r}"
    if isinstance(value, str) and owner is not None and len(problem["loc"]) == 1 and _is_plain(owner.info.annotation):
        return f", not {value!r:.60}"
    return ""


def _is_plain(annotation: Any) -> bool:
    """Return whether `annotation` consists only of numbers, booleans and literals."""
    kind = get_origin(annotation)
    if kind in (Union, UnionType, Annotated):
        return all(_is_plain(part) for part in get_args(annotation)[: 1 if kind is Annotated else None])
    return kind is Literal or annotation in (bool, int, float, Decimal, NoneType)
