"""`RegexRubricTrait`: a pattern that the answer has or has not."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from karenina_core.data.rubrics.base import RubricTrait, register_trait_kind
from karenina_core.models.from_files import FromFiles


@register_trait_kind
class RegexRubricTrait(RubricTrait):
    """True where `pattern` is found anywhere in the answer; the other way round with `invert_result`.

    Patterns are those of the `regex` library. One that does not compile is refused when a file with it is loaded, and
    before a run.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, description="The pattern to search for.")
    case_sensitive: bool = Field(default=True, description="Whether upper and lower case differ.")
    invert_result: bool = Field(default=False, description="True where the pattern is not found.")
