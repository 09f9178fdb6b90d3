"""`RegexRubricTrait`: a pattern that the answer has or has not."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, field_validator

from karenina_core.from_files import FromFiles
from karenina_core.rubrics.base import RubricTrait, register_trait_kind


@register_trait_kind
class RegexRubricTrait(RubricTrait):
    """True where `pattern` is found anywhere in the answer; the other way round with `invert_result`.

    Patterns are those of the `regex` library. One that does not compile is refused when the trait is made.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["regex"] = "regex"
    pattern: str = Field(min_length=1, description="The pattern to search for.")
    case_sensitive: bool = Field(default=True, description="Whether upper and lower case differ.")
    invert_result: bool = Field(default=False, description="True where the pattern is not found.")

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, pattern: str) -> str:
        import regex

        try:
            regex.compile(pattern)
        except RecursionError as error:
            raise ValueError(
                f"the pattern {pattern!r:.200} does not compile: its groups are nested too deeply"
            ) from error
        except (regex.error, ValueError, OverflowError) as error:
            raise ValueError(f"the pattern {pattern!r:.200} does not compile: {error}") from error
        return pattern
