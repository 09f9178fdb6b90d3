"""All settings, with their names, owners and declarations.

The core owns the settings that several distributions read (`CoreSettings`). This module also parses the values of
environment variables and command-line options.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, ClassVar, Final, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, field_validator
from pydantic.fields import FieldInfo

from karenina_core.artifacts.artifact import EvaluationMode, Slot, find_slot
from karenina_core.catalog import CORE, read_catalog
from karenina_core.errors import ConfigError
from karenina_core.models.model import MAX_REPLY_BYTES, STREAM_TIMEOUT, ModelConfig
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings, declared, mark_of
from karenina_core.namespaces import flatten, namespace_of
from karenina_core.plugins import Plugins, active_plugins
from karenina_core.plugins.hookspecs import karenina_settings
from karenina_core.text import did_you_mean

_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"changes_results": False, "allowed_in_files": "never"}


class PluginSelection(StrictSettings):
    """The `[plugins]` table: which plugins may be loaded."""

    block: tuple[str, ...] = Field(default=(), description="Plugins or distributions to leave out.")
    only: tuple[str, ...] = Field(default=(), description="If set, only these plugins or distributions are loaded.")
    require: tuple[str, ...] = Field(default=(), description="Plugins or distributions without which no run starts.")
    pick: dict[str, str] = Field(default={}, description="The distribution to use for a name that several offer.")


def _models(description: str, role: str, *options: str) -> Any:
    """Return the field of a setting that contains models. `role` is what messages call these models, and `options` are
    the command-line options that set the field.
    """
    extra: dict[str, JsonValue] = {"allowed_in_files": "models", "role": role, "option": list(options)}
    return Field(default=(), description=description, json_schema_extra=extra)


class CoreSettings(BaseModel):
    """The settings owned by the core, because several distributions read them."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True, protected_namespaces=(), defer_build=True, allow_inf_nan=False)

    evaluation_mode: EvaluationMode = Field(
        default="template_only", description="What is evaluated: templates, rubrics, or both."
    )
    answering_models: tuple[ModelConfig, ...] = _models(
        "The models under test.", "answering model", "--answering", "-a"
    )
    parsing_models: tuple[ModelConfig, ...] = _models("The judges.", "judge", "--judge", "-j")
    replicate_count: int = Field(default=1, ge=1, description="How many times each question is answered.")
    parsing_only: bool = Field(default=False, description="Only judge answers that were recorded earlier.")
    run_name: str | None = Field(default=None, description="A name for the run, stored in the results.")
    use_full_trace_for_template: bool = Field(
        default=False, description="Show the template's judge the whole conversation, not only the final answer."
    )
    use_full_trace_for_rubric: bool = Field(
        default=True, description="Show the rubric's judge the whole conversation, not only the final answer."
    )
    rubric_trait_names: tuple[str, ...] | None = Field(
        default=None, description="The names of the traits to score; by default, all traits are scored."
    )
    prompt_config: dict[str, str] = Field(
        default={}, description="Your own instructions, keyed by prompt task and added to the task's instructions."
    )
    request_timeout: float = Field(
        default=120.0,
        gt=0,
        description="Time limit for one request in seconds, unless the model sets its own.",
        json_schema_extra={"changes_results": False},
    )
    max_reply_bytes: int = Field(
        default=MAX_REPLY_BYTES,
        gt=0,
        description="Maximum size of one reply in bytes, decompressed; more is an error. Models may set their own.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    stream_timeout: float = Field(
        default=STREAM_TIMEOUT,
        gt=0,
        description="Time limit for one whole streamed reply in seconds, unless the model sets its own.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    slots: dict[str, tuple[str, ...]] = Field(
        default={},
        description="The stages to use in each slot, instead of those that the plan would choose.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    plugins: PluginSelection = Field(
        default=PluginSelection(),
        description="Which plugins may be loaded.",
        json_schema_extra=_NOT_FROM_FILES,
    )

    @field_validator("slots", mode="before")
    @classmethod
    def _one_name_is_a_list(cls, value: object) -> object:
        """Wrap each stage name that is given as a string in a tuple. If `value` is not a mapping, it is returned
        unchanged for pydantic to reject.
        """
        if isinstance(value, Mapping):
            return {key: (names,) if isinstance(names, str) else names for key, names in value.items()}
        return value

    @field_validator("slots")
    @classmethod
    def _slots_exist(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Return `value`. Raises `ValueError` if a key is not a slot, with a message that suggests the nearest name."""
        for name in value:
            if find_slot(name) is None:
                raise ValueError(f"unknown slot {name!r}{did_you_mean(name, [slot.config_name for slot in Slot])}")
        return value

    @field_validator("answering_models", "parsing_models")
    @classmethod
    def _ids_differ(cls, value: tuple[ModelConfig, ...]) -> tuple[ModelConfig, ...]:
        ids = [model.id for model in value]
        for id in ids:
            if ids.count(id) > 1:
                raise ValueError(f"two models have the id {id!r}, which must be unique; rename one of them")
        return value


PREFIX: Final = "KARENINA_"
"""The prefix of environment variables that set settings."""
_json: Final = TypeAdapter(Any).validate_json


class Setting(NamedTuple):
    """A setting, as shown by `karenina config`."""

    name: str
    owner: str
    model: type[BaseModel]
    info: FieldInfo

    @property
    def field(self) -> str:
        """The name of the field in the settings model, without a namespace."""
        return self.name.rpartition(".")[2]

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that set the setting. If several are set, the first takes precedence."""
        own = declared(self.info, "env")
        usual = f"{PREFIX}{self.name.upper().replace('.', '__')}"
        return (usual, str(own)) if own else (usual,)

    @property
    def changes_results(self) -> bool:
        """Whether results depend on the setting. This is true unless the settings model declares otherwise. Declare
        limits, timeouts and the like with `Field(..., json_schema_extra={"changes_results": False})`.
        """
        return declared(self.info, "changes_results") is not False

    @property
    def allowed_in_files(self) -> AllowedInFiles:
        """Which values a benchmark may set without the user's trust. The default is none."""
        return mark_of(self.model, self.field) or "never"

    @property
    def follows(self) -> str | None:
        """Return the benchmark field that overrides the setting, such as `workspace_root`, or None. Declare it with
        `Field(..., json_schema_extra={"follows": "workspace_root"})`.
        """
        field: str | None = declared(self.info, "follows")
        return field

    @property
    def default(self) -> Any:
        """The setting's default value."""
        return self.info.get_default(call_default_factory=True)

    @property
    def meaning(self) -> str:
        """The setting's one-sentence description, or an empty string."""
        return self.info.description or ""


def all_settings() -> dict[str, Setting]:
    """Return all settings of the core and the active plugins, keyed by name. Raises `ConfigError` if two settings
    models own the same name, or if a third-party model uses a name that belongs to this project.

    Third-party settings start with the name of their package, as in `my_package.words`.
    """
    return dict(_settings_of(*settings_models(active_plugins())))


@lru_cache(maxsize=8)  # a command asks 14 times
def _settings_of(*models: tuple[type[BaseModel], str]) -> dict[str, Setting]:
    """Return the settings of the core and `models` (each with the name of its distribution) by name. Raises
    `ConfigError` if a name has two owners or belongs to a distribution of this project.
    """
    settings = {name: Setting(name, CORE, CoreSettings, info) for name, info in CoreSettings.model_fields.items()}
    problems = []
    shipped = read_catalog()["settings"]
    for model, distribution in models:
        for field, info in model.model_fields.items():
            name = namespace_of(model) + field
            other = settings.setdefault(name, Setting(name, distribution, model, info))
            if name in shipped and not model.__module__.startswith(shipped[name].replace("-", "_")):
                problems.append(
                    f"the name {name!r} declared by {distribution} belongs to {shipped[name]}; use a different name"
                )
            if other.model is not model:
                problems.append(
                    f"the configuration name {name!r} has two owners: {other.owner} ({other.model.__name__}) and "
                    f"{distribution} ({model.__name__}); block one of them under [plugins]"
                )
    if problems:
        raise ConfigError(sorted(set(problems)))
    return settings


def flatten_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings keyed by full name, with those in tables of third-party packages moved to the top level.
    Raises `ConfigError` if a name is given in both forms.
    """
    try:
        return flatten(values, {*CoreSettings.model_fields, *read_catalog()["settings"]})
    except ValueError as error:
        raise ConfigError([str(error)]) from None


def translate_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of `values` in which the `translate` methods of the settings models have replaced alternative names
    of settings.
    """
    for model, _ in settings_models(active_plugins()):
        if (translate := getattr(model, "translate", None)) is not None:
            values = translate(values)
    return dict(values)


def settings_models(plugins: Plugins) -> list[tuple[type[BaseModel], str]]:
    """Return the settings models of plugins, stages and hook owners, each with the name of its distribution."""
    models = [(offer.value, offer.distribution) for offer in plugins.offers(karenina_settings, type[BaseModel])]
    models += [(offer.value.settings, offer.distribution) for offer in plugins.of_kind("stage") if offer.value.settings]
    return [*models, *plugins.settings.items()]


def prompt_tasks() -> frozenset[str]:
    """Return the valid keys of `prompt_config`: the names of prompt tasks and of their families. Tasks of packages that
    are not installed are included, because instructions for them do no harm.
    """
    tasks = [task for offer in active_plugins().of_kind("stage") for task in offer.value.prompts]
    families = {task.family for task in tasks if task.family is not None}
    return frozenset({*read_catalog()["prompts"], *(task.name for task in tasks), *families})


def not_loaded(plugins: Plugins | None = None) -> str:
    """Return a note with each plugin that failed to load and the reason, to add to errors about unknown names, or an
    empty string if none failed. `plugins` defaults to the active plugins.
    """
    used = active_plugins() if plugins is None else plugins
    bad = [f"{info.distribution} {info.version}: {info.failure}" for info in used.describe() if info.state == "failed"]
    return f" (plugins that could not be loaded: {'; '.join(dict.fromkeys(bad))})" if bad else ""


def read_environment() -> Iterator[tuple[str, Any]]:
    """Yield the names and values (see `read_value`) of settings from environment variables, except `KARENINA_PLUGINS`.
    Unknown variables that begin with `KARENINA_` are yielded under their own names as strings, so that the
    configuration reports them.

    For example, `KARENINA_RUN_NAME=nightly` and `KARENINA_REPLICATE_COUNT=3` both work. `Selection.of` reads
    `KARENINA_PLUGINS`.
    """
    strange = {variable for variable in os.environ if variable.startswith(PREFIX)}
    for name, setting in all_settings().items():
        strange.difference_update(setting.environment)
        for variable in setting.environment:
            if variable in os.environ and variable != "KARENINA_PLUGINS":
                yield name, read_value(os.environ[variable], setting.info.annotation)
                break
    yield from ((unknown, os.environ[unknown]) for unknown in sorted(strange - read_catalog()["variables"].keys()))


def read_value(text: str, annotation: Any, read: Callable[[str], Any] = _json) -> Any:
    """Parse the text of an environment variable or a command-line option as the value of a setting with this
    `annotation`, None if unknown. Text that `read` (by default JSON) rejects, and any text for a `Literal` or a setting
    that allows strings or paths, is returned unchanged.
    """
    kind = get_origin(annotation)
    one_of_several = get_args(annotation) if kind in (Union, UnionType) else ()
    if kind is Literal or {str, Path} & {annotation, *one_of_several}:
        return text
    try:
        return read(text)
    except ValueError:  # a ValidationError is one
        return text
