"""`RegexRubricTrait`: whether the answer matches a pattern."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from karenina_core.data.rubrics.base import RubricTrait, register_trait_kind
from karenina_core.models.from_files import FromFiles


@register_trait_kind
class RegexRubricTrait(RubricTrait):
    """A trait that is true if `pattern` is found anywhere in the answer, or with `invert_result`, if it is not.

    Patterns are those of the `regex` library. They are checked when a file is loaded and before a run.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, description="The pattern to search for.")
    case_sensitive: bool = Field(default=True, description="Whether matching is case-sensitive.")
    invert_result: bool = Field(default=False, description="The score is true if the pattern is not found.")
