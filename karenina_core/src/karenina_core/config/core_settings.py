"""The configuration names that the core owns, because several distributions read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from karenina_core.artifacts.slots import EvaluationMode, Slot, find_slot
from karenina_core.models.model import MAX_REPLY_BYTES, STREAM_TIMEOUT, ModelConfig
from karenina_core.models.settings_models import AllowedInFiles, StrictSettings
from karenina_core.text import did_you_mean

_NOT_FROM_FILES: Final[dict[str, JsonValue]] = {"changes_results": False, "allowed_in_files": "never"}


class PluginSelection(StrictSettings):
    """The `[plugins]` table: which plugins may be loaded."""

    block: tuple[str, ...] = Field(default=(), description="Plugins or distributions to leave out.")
    only: tuple[str, ...] = Field(default=(), description="Load these only.")
    require: tuple[str, ...] = Field(
        default=(), description="Plugins or distributions that must work; without them no run starts."
    )
    pick: dict[str, str] = Field(
        default={}, description="For a name that two distributions offer: the distribution to use."
    )


class CoreSettings(BaseModel):
    """The names that the core owns, because several distributions read them."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True, protected_namespaces=())

    evaluation_mode: EvaluationMode = Field(
        default="template_only", description="What is evaluated: templates, rubrics, or both."
    )
    answering_models: tuple[ModelConfig, ...] = Field(
        default=(), description="The models under test.", json_schema_extra={"allowed_in_files": "models"}
    )
    parsing_models: tuple[ModelConfig, ...] = Field(
        default=(), description="The judges.", json_schema_extra={"allowed_in_files": "models"}
    )
    replicate_count: int = Field(default=1, ge=1, description="How often each question is answered.")
    parsing_only: bool = Field(default=False, description="Only judge answers that were recorded earlier.")
    run_name: str | None = Field(default=None, description="A name for the run, which is stored in its results.")
    use_full_trace_for_template: bool = Field(
        default=False, description="Show the template's judge the whole conversation, not only the final answer."
    )
    use_full_trace_for_rubric: bool = Field(
        default=True, description="Show the rubric's judge the whole conversation, not only the final answer."
    )
    rubric_trait_names: tuple[str, ...] | None = Field(
        default=None, description="Score only these traits; by default, all."
    )
    prompt_config: dict[str, str] = Field(
        default={}, description="Your own instructions by prompt task, added to those of the task."
    )
    request_timeout: float = Field(
        default=120.0,
        gt=0,
        description="Seconds for one request, unless the model sets its own.",
        json_schema_extra={"changes_results": False},
    )
    max_reply_bytes: int = Field(
        default=MAX_REPLY_BYTES,
        gt=0,
        description="Maximum bytes of one reply after decompression, unless the model sets its own; more is an error.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    stream_timeout: float = Field(
        default=STREAM_TIMEOUT,
        gt=0,
        description="Seconds for one whole streamed reply, unless the model sets its own.",
        json_schema_extra=_NOT_FROM_FILES,
    )
    slots: dict[str, tuple[str, ...]] = Field(
        default={},
        description="Stages by slot, in place of those that the plan would choose.",
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
        if isinstance(value, Mapping):
            return {key: (names,) if isinstance(names, str) else names for key, names in value.items()}
        return value

    @field_validator("slots")
    @classmethod
    def _slots_exist(cls, value: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        for name in value:
            if find_slot(name) is None:
                raise ValueError(f"there is no slot {name!r}{did_you_mean(name, [slot.config_name for slot in Slot])}")
        return value

    @field_validator("answering_models", "parsing_models")
    @classmethod
    def _ids_differ(cls, value: tuple[ModelConfig, ...]) -> tuple[ModelConfig, ...]:
        ids = [model.id for model in value]
        for id in ids:
            if ids.count(id) > 1:
                raise ValueError(f"two models have the id {id!r}, which must be unique: rename one of them")
        return value
