"""`MetricRubricTrait`: how many of a list of expected statements an answer contains."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from karenina_core.data.rubrics.base import RubricTrait, register_trait_kind
from karenina_core.models.from_files import FromFiles

Metric = Literal["precision", "recall", "f1", "specificity", "accuracy"]
_NEEDS_TRUE_NEGATIVES = ("specificity", "accuracy")


@register_trait_kind
class MetricRubricTrait(RubricTrait):
    """A trait that counts the expected statements in an answer, and computes metrics, 0 to 1, from the counts.

    - `tp_only`: `tp_instructions` list what a correct answer contains. Every other statement is a false positive. There
      are no true negatives, so that `specificity` and `accuracy` cannot be computed.
    - `full_matrix`: `tn_instructions` also list what an answer must not contain.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["metric"] = "metric"
    evaluation_mode: Literal["tp_only", "full_matrix"] = Field(default="tp_only", description="Which lists are given.")
    metrics: tuple[Metric, ...] = Field(min_length=1, description="The metrics to report.")
    tp_instructions: tuple[str, ...] = Field(
        min_length=1, description="What the answer should contain, one statement each."
    )
    tn_instructions: tuple[str, ...] = Field(default=(), description="What the answer should not contain.")
    repeated_extraction: bool = Field(default=True, description="Count repeated statements once.")

    @model_validator(mode="after")
    def _computable(self) -> Self:
        if len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"a metric is named twice in {list(self.metrics)}")
        if self.evaluation_mode == "full_matrix":
            if not self.tn_instructions:
                raise ValueError("full_matrix needs tn_instructions: what the answer should not contain")
            return self
        if self.tn_instructions:
            raise ValueError("tp_only does not use tn_instructions: set evaluation_mode to full_matrix to use them")
        missing = [metric for metric in self.metrics if metric in _NEEDS_TRUE_NEGATIVES]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} cannot be computed in tp_only, which has no true negatives; "
                "set evaluation_mode to full_matrix and add tn_instructions"
            )
        return self
