"""`LocalSettings`: what `ModelConfig.extra` may say about a model on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from karenina_core.models.adapters import extra_of
from karenina_core.models.from_files import FromFiles
from karenina_core.models.strict_settings import StrictSettings

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig


class LocalSettings(StrictSettings):
    """How llama.cpp serves the model, and how far a judge's constrained reply may go.

    A schema's own `maxItems` and `maxLength` are never changed: the two limits are for lists and strings that have
    none, where a small model would otherwise go on until its tokens are used up.
    """

    from_files: ClassVar[FromFiles] = "any"

    slots: int = Field(default=2, ge=1, le=64, description="Calls answered side by side.")
    context: int = Field(default=4096, ge=256, description="Tokens of one slot: prompt and reply together.")
    threads: int | None = Field(
        default=None, ge=1, description="Threads that compute; llama.cpp's choice where absent."
    )
    seed: int = Field(default=0, ge=0, lt=2**32 - 1, description="Seed of the sampling; each further replicate adds 1.")
    start_timeout: float = Field(default=300.0, gt=0, description="Seconds that loading the model may take.")
    max_list_items: int = Field(default=20, ge=1, description="Most items of a list in a judge's reply.")
    max_string_length: int = Field(default=200, ge=1, description="Most characters of a text in a judge's reply.")


def settings_of(model: ModelConfig) -> LocalSettings:
    """The settings in `model.extra`. Raises `AdapterConfigError` that names every wrong one."""
    return extra_of(model, LocalSettings)
