"""`MetricRubricTrait`: how much of a list of expected things an answer says."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from karenina_core.data.rubrics.base import RubricTrait, register_trait_kind
from karenina_core.models.from_files import FromFiles

Metric = Literal["precision", "recall", "f1", "specificity", "accuracy"]
_NEEDS_TRUE_NEGATIVES = ("specificity", "accuracy")


@register_trait_kind
class MetricRubricTrait(RubricTrait):
    """Counts which expected things an answer has, and computes metrics, 0 to 1, from the confusion lists.

    `tp_only`: `tp_instructions` say what a correct answer contains; everything else that it says is a false
    positive, and true negatives do not exist, so `specificity` and `accuracy` cannot be had. `full_matrix`:
    `tn_instructions` also say what must not be there.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["metric"] = "metric"
    evaluation_mode: Literal["tp_only", "full_matrix"] = Field(default="tp_only", description="Which lists there are.")
    metrics: tuple[Metric, ...] = Field(min_length=1, description="The metrics to report.")
    tp_instructions: tuple[str, ...] = Field(min_length=1, description="What should be in the answer, one thing each.")
    tn_instructions: tuple[str, ...] = Field(default=(), description="What should not be in the answer.")
    repeated_extraction: bool = Field(default=True, description="Count a thing once however often it is said.")

    @model_validator(mode="after")
    def _computable(self) -> Self:
        if len(set(self.metrics)) != len(self.metrics):
            raise ValueError(f"a metric is named twice in {list(self.metrics)}")
        if self.evaluation_mode == "full_matrix":
            if not self.tn_instructions:
                raise ValueError("full_matrix needs tn_instructions: what should not be in the answer")
            return self
        if self.tn_instructions:
            raise ValueError("tp_only does not use tn_instructions; write evaluation_mode full_matrix to use them")
        missing = [metric for metric in self.metrics if metric in _NEEDS_TRUE_NEGATIVES]
        if missing:
            raise ValueError(
                f"{', '.join(missing)} cannot be computed in tp_only, which has no true negatives; "
                "write evaluation_mode full_matrix and tn_instructions"
            )
        return self
