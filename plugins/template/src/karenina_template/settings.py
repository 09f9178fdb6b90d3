"""The settings of this distribution."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field

from karenina_core.models.from_files import FromFiles


class TemplateSettings(BaseModel):
    """Settings of template parsing."""

    from_files: ClassVar[FromFiles] = "any"
    include_extraction_hints: bool = Field(
        default=True, description="Show the judge the extraction hints of templates."
    )
    list_rejected: bool | None = Field(
        default=None,
        description="Have the judge list the values that the response rejects before it fills the template. By "
        "default, judges that an adapter declares as small do so.",
    )
    check_values: bool | None = Field(
        default=None,
        description="Have the judge look a second time: if the template has one field, for text, at the response with "
        "its values masked by letters; and at numbers that it seems to have misread in words or in another unit, "
        "and dates whose year the response does not have. By default, judges that an adapter declares as small do so.",
    )
