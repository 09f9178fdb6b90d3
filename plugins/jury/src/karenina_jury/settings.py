"""The setting `jury`."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from karenina_core.models.settings_models import AllowedInFiles, StrictSettings

Vote = Literal["field", "verdict"]


class Jury(StrictSettings, defer_build=True):
    """The configuration of a jury: how the judges of a run vote."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"

    vote: Vote = Field(default="field", description="What is voted on: the value of each field, or the verdict.")
    quorum: int | None = Field(
        default=None,
        ge=1,
        description="How many equal votes decide; more than half. Default: all with escalate_to, else a majority.",
    )
    escalate_to: str | None = Field(
        default=None,
        description="The id of a judge that does not vote: it decides alone if there is no quorum, or an excerpt is "
        "missing.",
    )


class JurySettings(BaseModel):
    """The settings of juries."""

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(frozen=True)

    jury: Jury | None = Field(
        default=None, description="The judges vote, and each answer has one result; by default, one of each judge."
    )
