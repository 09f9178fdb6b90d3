"""The executor's settings."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from karenina_core.models.settings_models import AllowedInFiles


class RaySettings(BaseModel):
    """The settings of the executor `ray`."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    model_config = ConfigDict(frozen=True)

    ray_workers: int | None = Field(
        default=None,
        ge=1,
        description="Number of workers of the executor ray, one CPU each; by default as many as there are CPUs.",
        json_schema_extra={"changes_results": False},
    )
    ray_address: str | None = Field(
        default=None,
        description="Address of a running Ray cluster: host:port of its head, or auto; by default one is started.",
        json_schema_extra={"changes_results": False, "env": "RAY_ADDRESS"},
    )
    ray_patience: float = Field(
        default=120.0,
        gt=0,
        description="Seconds within which the first worker of the executor ray must be ready.",
        json_schema_extra={"changes_results": False},
    )

    @field_validator("ray_address")
    @classmethod
    def _no_client(cls, value: str | None) -> str | None:
        if value is not None and value.startswith("ray://"):
            raise ValueError(
                "the Ray client (ray://) is not supported: run on a node of the cluster, and give host:port"
            )
        return value
