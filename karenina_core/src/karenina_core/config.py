"""`VerificationConfig`: the flat names that users write, each owned by the core or by one plugin.

The core owns what several distributions read; every other name belongs to the settings model of some stage. Values
come, in this order, from arguments, the environment, a file, and the owner's default.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
)

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    PrivateAttr,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from karenina_core import plugins as plugin_room
from karenina_core.errors import ConfigError
from karenina_core.known import install_line, known
from karenina_core.models import ModelConfig
from karenina_core.prices import OwnPrice
from karenina_core.slots import EvaluationMode, Slot, slot_named
from karenina_core.wording import nearest

S = TypeVar("S", bound=BaseModel)

CORE = "karenina-core"


_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}


class PluginSelection(BaseModel):
    """The `[plugins]` table: which plugins may be loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: tuple[str, ...] = Field(default=(), description="Plugins or distributions to leave out.")
    only: tuple[str, ...] = Field(default=(), description="Load these only.")
    pick: dict[str, str] = Field(default={}, description="Whose offer stands where two distributions offer one name.")


class CoreSettings(BaseModel):
    """The names that the core owns, because several distributions read them."""

    model_config = ConfigDict(frozen=True, protected_namespaces=())

    evaluation_mode: EvaluationMode = Field(
        default="template_only", description="Judge templates, rubrics, or both: which stages exist."
    )
    answering_models: tuple[ModelConfig, ...] = Field(default=(), description="The models under test.")
    parsing_models: tuple[ModelConfig, ...] = Field(default=(), description="The judges.")
    replicate_count: int = Field(default=1, ge=1, description="How often each question is answered.")
    parsing_only: bool = Field(default=False, description="Only judge; the answering models' answers are all recorded.")
    run_name: str | None = Field(default=None, description="A name for the run; results carry it.")
    use_full_trace_for_template: bool = Field(
        default=False, description="Show the template's judge the whole conversation, not only the final answer."
    )
    use_full_trace_for_rubric: bool = Field(
        default=True, description="Show the rubric's judge the whole conversation, not only the final answer."
    )
    rubric_trait_names: tuple[str, ...] | None = Field(
        default=None, description="Score only these traits; all where absent."
    )
    prompt_config: dict[str, str] = Field(
        default={}, description="Your own instructions by prompt task, added to those of the task."
    )
    request_timeout: float = Field(
        default=120.0,
        gt=0,
        description="Seconds for one request, unless the model says.",
        json_schema_extra={"changes_results": False},
    )
    item_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for one item, its answer and all waiting included; then it is an error.",
        json_schema_extra=_NO_CHANGE,
    )
    run_timeout: float | None = Field(
        default=None,
        gt=0,
        description="Seconds for the run; then it stops and keeps what is done.",
        json_schema_extra=_NO_CHANGE,
    )
    max_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Most calls under way at once, of all models together.",
        json_schema_extra=_NO_CHANGE,
    )
    model_concurrency: dict[str, Annotated[int, Field(ge=1)]] = Field(
        default={},
        description="Calls under way at once by model id, fixed; others find out what their server bears.",
        json_schema_extra=_NO_CHANGE,
    )
    concurrency_start: int | None = Field(
        default=None,
        ge=1,
        description="Calls under way at once with which a model begins; what its adapter declares where absent, or 32.",
        json_schema_extra=_NO_CHANGE,
    )
    concurrency_ceiling: int = Field(
        default=256,
        ge=1,
        description="Most calls under way at once of a model whose adapter declares no number.",
        json_schema_extra=_NO_CHANGE,
    )
    executor: str = Field(
        default="asyncio",
        description="Where the work is done: asyncio is one event loop in this process; plugins bring others.",
        json_schema_extra=_NO_CHANGE,
    )
    retry_connection: int = Field(
        default=2,
        ge=0,
        description="How often a call is made again when no connection is.",
        json_schema_extra=_NO_CHANGE,
    )
    retry_timeout: int = Field(
        default=1,
        ge=0,
        description="How often a call is made again after its time was out.",
        json_schema_extra=_NO_CHANGE,
    )
    retry_rate_limit: int = Field(
        default=8,
        ge=0,
        description="How often a call is made again after a rate limit; 0: such a call fails.",
        json_schema_extra=_NO_CHANGE,
    )
    retry_server: int = Field(
        default=4,
        ge=0,
        description="How often a call is made again after an error of the server.",
        json_schema_extra=_NO_CHANGE,
    )
    retry_patience: float = Field(
        default=300.0,
        ge=0,
        description="Seconds that a call may wait between its tries, in all.",
        json_schema_extra=_NO_CHANGE,
    )
    budget: Decimal | None = Field(
        default=None,
        ge=0,
        decimal_places=6,
        description="Most US dollars that may be spent, by all runs of a journal together; then the run stops.",
        json_schema_extra={"changes_results": False},
    )
    prices: dict[str, OwnPrice] = Field(
        default={},
        description="Your own prices by model id or name: US dollars for a million tokens (input, output, ...).",
        json_schema_extra={"changes_results": False},
    )
    slots: dict[str, tuple[str, ...]] = Field(
        default={}, description="Stages by slot, where they shall differ from what the plan would choose."
    )
    plugins: PluginSelection = Field(
        default=PluginSelection(),
        description="Which plugins may be loaded.",
        json_schema_extra={"changes_results": False},
    )

    @field_validator("slots", mode="before")
    @classmethod
    def _one_name_is_a_list(cls, value: object) -> object:
        if isinstance(value, Mapping):
            return {key: (names,) if isinstance(names, str) else names for key, names in value.items()}
        return value

    @field_validator("slots")
    @classmethod
    def _slots_exist(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name in value:
            if slot_named(name) is None:
                raise ValueError(f"there is no slot {name!r}{nearest(name, [slot.config_name for slot in Slot])}")
        return value

    @field_validator("model_concurrency")
    @classmethod
    def _models_exist(cls, value: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        ids = [model.id for role in ("answering_models", "parsing_models") for model in info.data.get(role, ())]
        for id in value:
            if ids and id not in ids:
                raise ValueError(f"there is no model {id!r}{nearest(id, ids)}")
        return value

    @field_validator("answering_models", "parsing_models")
    @classmethod
    def _ids_differ(cls, value: tuple[ModelConfig, ...]) -> tuple[ModelConfig, ...]:
        ids = [model.id for model in value]
        for id in ids:
            if ids.count(id) > 1:
                raise ValueError(f"two models have the id {id!r}: results could not be told apart; give each its own")
        return value


@dataclass(frozen=True, slots=True)
class Setting:
    """One configuration name, as `karenina config` prints it."""

    name: str
    owner: str
    model: type[BaseModel]
    info: FieldInfo

    @property
    def environment(self) -> tuple[str, ...]:
        """The environment variables that set it, the first one winning."""
        extra = self.info.json_schema_extra
        own = extra.get("env") if isinstance(extra, dict) else None
        usual = f"KARENINA_{self.name.upper()}"
        return (usual, str(own)) if own else (usual,)

    @property
    def changes_results(self) -> bool:
        """Whether a result depends on it. Of limits, time-outs and the like the settings model says that none does:
        `Field(..., json_schema_extra={"changes_results": False})`."""
        extra = self.info.json_schema_extra
        return not (isinstance(extra, dict) and extra.get("changes_results") is False)

    @property
    def follows(self) -> str | None:
        """The field of a benchmark that goes over the setting where the benchmark has it: `workspace_root`.

        The settings model says so: `Field(..., json_schema_extra={"follows": "workspace_root"})`.
        """
        extra = self.info.json_schema_extra
        field = extra.get("follows") if isinstance(extra, dict) else None
        return str(field) if field is not None else None

    @property
    def type_name(self) -> str:
        """The type in words of Python."""
        return _type_words(self.info.annotation)

    @property
    def default(self) -> Any:
        """The value where nobody says anything."""
        return self.info.get_default(call_default_factory=True)

    @property
    def meaning(self) -> str:
        """One sentence."""
        return self.info.description or ""


def settings() -> dict[str, Setting]:
    """All configuration names of the core and of the plugins in force.

    Raises `ConfigError` where two settings models own one name.
    """
    found = {name: Setting(name, CORE, CoreSettings, info) for name, info in CoreSettings.model_fields.items()}
    problems = []
    for model, distribution in plugin_room.current().settings_models():
        for name, info in model.model_fields.items():
            other = found.get(name)
            if other is None:
                found[name] = Setting(name, distribution, model, info)
            elif other.model is not model:
                problems.append(
                    f"two owners of the configuration name {name!r}: {other.owner} ({other.model.__name__}) and "
                    f"{distribution} ({model.__name__}); block one of them under [plugins]"
                )
    if problems:
        raise ConfigError(sorted(set(problems)))
    return found


class VerificationConfig(BaseModel):
    """The configuration of a run.

    Takes every name that `karenina config` prints, flat: `VerificationConfig(answering_models=[...],
    abstention_enabled=True)`. Raises `ConfigError` with all problems at once: an unknown name (with the nearest one, or
    the plugin that would bring it), and values that their owner refuses.
    """

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())

    _sections: dict[type[BaseModel], BaseModel] = PrivateAttr(default_factory=dict)
    _given: frozenset[str] = PrivateAttr(default=frozenset())

    FILE_SUFFIXES: ClassVar[tuple[str, ...]] = (".toml", ".yaml", ".yml", ".json")

    def __init__(self, **values: Any) -> None:
        given = {**dict(from_environment()), **values}
        super().__init__(**given)
        self._given = frozenset(given)

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            raise ConfigError([f"a configuration is a table of names and values, not a {type(values).__name__}"])
        owned = settings()
        problems = [_unknown(name, owned) for name in values if name not in owned]
        sections: dict[type[BaseModel], dict[str, Any]] = {}
        for name, setting in owned.items():
            section = sections.setdefault(setting.model, {})
            if name in values:
                section[name] = values[name]
        filled: dict[str, Any] = {}
        for model, given in sections.items():
            try:
                made = model.model_validate(given)
            except ValidationError as error:
                problems += [_reworded(problem, owned) for problem in error.errors(include_url=False)]
            else:
                filled.update({name: getattr(made, name) for name in model.model_fields})
        problems += _strange_tasks(filled.get("prompt_config", {}))
        if problems:
            raise ConfigError(problems)
        return filled

    @classmethod
    def from_file(cls, path: str | Path, **arguments: Any) -> Self:
        """The configuration in a TOML, YAML or JSON file; the environment, then `arguments`, go over it."""
        return cls(**{**read_table(path), **dict(from_environment()), **arguments})

    def section(self, model: type[S]) -> S:
        """The settings model of one owner, filled."""
        sections = (self.__pydantic_private__ or {})["_sections"]  # stages ask often, and an attribute is slow here
        if model not in sections:
            sections[model] = model.model_construct(
                **{name: value for name, value in self._values.items() if name in model.model_fields}
            )
        return cast("S", sections[model])

    @property
    def core(self) -> CoreSettings:
        """The core's own names, typed."""
        return self.section(CoreSettings)

    def has(self, name: str) -> bool:
        """Whether the name's owner is installed."""
        return name in self._values

    def setting(self, name: str) -> Any:
        """The value of any name; the owner's default where the owner is not installed."""
        if self.has(name):
            return self._values[name]
        entry = known()["settings"].get(name)
        if entry is not None:
            return entry["default"]
        raise ConfigError([_unknown(name, settings())])

    def given(self) -> dict[str, Any]:
        """The values that somebody gave, the environment included; the others are their owners' defaults."""
        return {name: self._values[name] for name in sorted(self._given) if name in self._values}

    def with_values(self, **changes: Any) -> Self:
        """A copy with other values, validated like a new one. What nobody gave is left to its owner once more."""
        return type(self)(**{**self.given(), **changes})

    @property
    def _values(self) -> dict[str, Any]:
        return self.__pydantic_extra__ or {}

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Every configured name is an attribute; a section gives the same values typed."""


def from_environment() -> Iterator[tuple[str, Any]]:
    """The names that environment variables set, with their values read as the owner's type asks.

    Text that is no JSON is taken as it stands: `KARENINA_RUN_NAME=nightly` and `KARENINA_REPLICATE_COUNT=3` both work.
    """
    for name, setting in settings().items():
        for variable in setting.environment:
            if variable in os.environ and variable != "KARENINA_PLUGINS":
                yield name, _read_value(os.environ[variable], setting.info.annotation)
                break


def read_value(name: str, text: str) -> Any:
    """The value that `name=text` means, by the type of the name; unknown names are read as JSON where they can be."""
    setting = settings().get(name)
    return _read_value(text, setting.info.annotation if setting is not None else None)


def read_table(path: str | Path) -> dict[str, Any]:
    """The table in a TOML, YAML or JSON file. Raises `ConfigError` where it cannot be read."""
    file = Path(path)
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"the configuration file {file} cannot be read: {error}"]) from error
    try:
        found = _parse_table(file.suffix.lower(), text)
    except ValueError as error:
        raise ConfigError([f"the configuration file {file} is not well-formed: {error}"]) from error
    if not isinstance(found, dict):
        raise ConfigError([f"the configuration file {file} holds a {type(found).__name__}, not a table of names"])
    return found


def _parse_table(suffix: str, text: str) -> Any:
    if suffix == ".toml":
        import tomllib

        return tomllib.loads(text)
    if suffix == ".json":
        import json

        return json.loads(text)
    if suffix in (".yaml", ".yml"):
        import yaml

        try:
            return yaml.safe_load(text) or {}
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from error
    raise ValueError(f"its suffix is {suffix!r}, and a configuration is .toml, .yaml, .yml or .json")


def _read_value(text: str, annotation: Any) -> Any:
    kind = get_origin(annotation)
    one_of_several = get_args(annotation) if kind in (Union, UnionType) else ()
    if annotation is str or str in one_of_several or kind is Literal:
        return text
    try:
        return TypeAdapter(Any).validate_json(text)
    except ValidationError:
        return text


def _unknown(name: str, owned: Mapping[str, Setting]) -> str:
    entry = known()["settings"].get(name)
    if entry is not None:
        distribution = entry["distribution"]
        return f"{name}: belongs to a plugin that is not installed: {install_line(distribution)}"
    return f"{name}: there is no such configuration name{nearest(name, owned)}"


def prompt_tasks() -> frozenset[str]:
    """The keys that `prompt_config` takes: names of prompt tasks and of their families.

    Tasks of the plugins in force, and of members of this project that are not installed: instructions for a stage that
    is not there do no more harm than those for one that is switched off.
    """
    tasks = [task for offered in plugin_room.current().stages() for task in offered.stage.prompts]
    families = {task.family for task in tasks if task.family is not None}
    return frozenset({*known()["prompts"], *(task.name for task in tasks), *families})


def _strange_tasks(names: Iterable[str]) -> list[str]:
    tasks = prompt_tasks()
    return [
        f"prompt_config.{name}: no stage asks a model by that name, so nobody would read it{nearest(name, tasks)}"
        for name in names
        if name not in tasks
    ]


def _reworded(problem: Any, owned: Mapping[str, Setting]) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    owner = owned.get(str(problem["loc"][0])) if problem["loc"] else None
    from_whom = f" (of {owner.owner})" if owner is not None and owner.owner != CORE else ""
    message = problem["msg"].removeprefix("Value error, ")
    given = problem.get("input")
    shown = (
        f", not {given!r}" if "api_key" not in where and isinstance(given, (str, int, float, bool, NoneType)) else ""
    )
    return f"{where}{from_whom}: {message[:1].lower()}{message[1:]}{shown}"


def _type_words(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        return " | ".join(_type_words(part) for part in get_args(annotation))
    if annotation is NoneType:
        return "None"
    if get_origin(annotation) is Literal:
        return " | ".join(repr(part) for part in get_args(annotation))
    if isinstance(annotation, type) and not get_args(annotation):
        return annotation.__name__
    return str(annotation).replace("typing.", "").replace("karenina_core.models.", "")
