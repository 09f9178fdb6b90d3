"""The configuration names that the core owns, because several distributions read them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationInfo, field_validator

from karenina_core.from_files import FromFiles
from karenina_core.models import ModelConfig
from karenina_core.prices import OwnPrice
from karenina_core.reply_bounds import MAX_REPLY_BYTES, STREAM_TIMEOUT
from karenina_core.slots import EvaluationMode, Slot, slot_named
from karenina_core.wording import nearest

_NO_CHANGE: Final[dict[str, JsonValue]] = {"changes_results": False}
_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"changes_results": False, "from_files": "never"}


class PluginSelection(BaseModel):
    """The `[plugins]` table: which plugins may be loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: tuple[str, ...] = Field(default=(), description="Plugins or distributions to leave out.")
    only: tuple[str, ...] = Field(default=(), description="Load these only.")
    pick: dict[str, str] = Field(default={}, description="Whose offer stands where two distributions offer one name.")


class CoreSettings(BaseModel):
    """The names that the core owns, because several distributions read them."""

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(frozen=True, protected_namespaces=())

    evaluation_mode: EvaluationMode = Field(
        default="template_only", description="Judge templates, rubrics, or both: which stages exist."
    )
    answering_models: tuple[ModelConfig, ...] = Field(
        default=(), description="The models under test.", json_schema_extra={"from_files": "models"}
    )
    parsing_models: tuple[ModelConfig, ...] = Field(
        default=(), description="The judges.", json_schema_extra={"from_files": "models"}
    )
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
    max_reply_bytes: int = Field(
        default=MAX_REPLY_BYTES,
        gt=0,
        description="Most bytes of one reply after unpacking, unless the model says; a longer one is an error.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    stream_timeout: float = Field(
        default=STREAM_TIMEOUT,
        gt=0,
        description="Seconds for one streamed reply in all, unless the model says.",
        json_schema_extra=_NOT_FROM_FILES,
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
        json_schema_extra=_NOT_FROM_FILES,
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
        description="Seconds that a call may wait between its tries, in all, and that a server may refuse every call.",
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
        json_schema_extra=_NOT_FROM_FILES,
    )
    journal_sync: Literal["normal", "full"] = Field(
        default="normal",
        description="What a power failure may cost: normal, replies of the last moments, which are paid for again; "
        "full, nothing: each commit waits for the disk.",
        json_schema_extra={"changes_results": False, "from_files": "any"},
    )
    slots: dict[str, tuple[str, ...]] = Field(
        default={},
        description="Stages by slot, where they shall differ from what the plan would choose.",
        json_schema_extra={"from_files": "never"},
    )
    plugins: PluginSelection = Field(
        default=PluginSelection(),
        description="Which plugins may be loaded.",
        json_schema_extra=_NOT_FROM_FILES,
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
