"""`LLMRubricTrait`: a quality that a judge model scores."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from karenina_core.from_files import FromFiles
from karenina_core.rubrics.base import register_trait_kind
from karenina_core.rubrics.scale import ScaledTrait


@register_trait_kind
class LLMRubricTrait(ScaledTrait):
    """A quality that a judge model scores from the answer's text.

    The `deep_judgment_*` fields are this trait's own wishes for deep judgment; they count where
    `deep_judgment_rubric_mode` is `use_checkpoint`. None leaves a number to the configuration.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["llm"] = "llm"
    deep_judgment_enabled: bool = Field(default=False, description="Score it from excerpts and reasoning.")
    deep_judgment_excerpt_enabled: bool = Field(default=True, description="Demand verbatim excerpts.")
    deep_judgment_max_excerpts: int | None = Field(default=None, ge=1, description="Most excerpts.")
    deep_judgment_fuzzy_match_threshold: float | None = Field(
        default=None, ge=0, le=1, description="Similarity, 0 to 1, from which an excerpt counts as found."
    )
    deep_judgment_excerpt_retry_attempts: int | None = Field(
        default=None, ge=0, description="How often missing excerpts are asked for again."
    )
    deep_judgment_search_enabled: bool = Field(
        default=False,
        description="Check excerpts against a web search.",
        json_schema_extra={"from_files": "never"},
    )
