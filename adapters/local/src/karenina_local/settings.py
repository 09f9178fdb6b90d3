"""The fields of `ModelConfig.extra` for local models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit.adapter_settings import extra_of
from karenina_toolkit.attachments.support import MediaExtra

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig


class LocalSettings(MediaExtra):
    """Settings for llama.cpp, and limits for a judge's constrained replies.

    `maxItems` and `maxLength` in a schema are never changed. `max_list_items` and `max_string_length` apply to lists
    and strings without a limit, which a small model would otherwise continue until `max_tokens`.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    slots: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Number of concurrent calls. More are faster with many cores, but llama.cpp then evaluates several "
        "calls in one batch, so a reply may depend on the calls that happen to run at the same time.",
    )
    context: int = Field(
        default=4096, ge=256, description="Number of tokens in one slot, for prompt and reply together."
    )
    threads: int | None = Field(default=None, ge=1, description="Number of threads; by default, llama.cpp decides.")
    seed: int = Field(
        default=0, ge=0, lt=2**32 - 1, description="Sampling seed; each further replicate adds 1 to the seed."
    )
    start_timeout: float = Field(default=300.0, gt=0, description="Time limit for loading the model, in seconds.")
    prompt_cache: int = Field(
        default=500,
        ge=0,
        description="Maximum size, in megabytes, of the evaluated instructions that are kept on disk for later runs; "
        "with 0, none are kept after a run.",
    )
    replies: Path | None = Field(
        default=None,
        description="A file of recorded replies that are returned instead of running the model, as `karenina demo "
        "--recorded` does.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    mmproj: Path | None = Field(
        default=None,
        description="The GGUF file with which the model reads images (its multimodal projector). Without it, the model "
        "reads text only.",
        json_schema_extra={"allowed_in_files": "never"},
    )
    max_list_items: int = Field(default=20, ge=1, description="Maximum number of items in a list in a judge's reply.")
    max_string_length: int = Field(
        default=200, ge=1, description="Maximum number of characters in a string in a judge's reply."
    )

    @model_serializer(mode="wrap")
    def _without_projector(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `mmproj` if it is not set, so that journals from earlier versions can be continued."""
        data: dict[str, Any] = handler(self)
        return data if self.mmproj is not None else {name: data[name] for name in data if name != "mmproj"}


def settings_of(model: ModelConfig) -> LocalSettings:
    """Return the settings in `model.extra`. Raises `AdapterConfigError` with all invalid settings."""
    return extra_of(model, LocalSettings)
