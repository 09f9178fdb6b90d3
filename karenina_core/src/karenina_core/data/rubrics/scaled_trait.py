"""`ScaledTrait`: the kinds of score that a judge gives, shared by the traits that a model or an agent scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, JsonValue, model_validator

from karenina_core.data.rubrics.base import RubricTrait
from karenina_core.models.from_files import FromFiles

Kind = Literal["boolean", "score", "literal", "template"]


class ScaledTrait(RubricTrait):
    """A trait that is scored as yes or no, on a scale, as one of ordered classes, or by filling a schema.

    For `score` the bounds are whole numbers, both ends included (1 to 5 where not given). For `literal` the score is
    the position of the class in `classes`, from 0, so their order is the scale and the bounds follow from it.
    `kind` may also be given as a pydantic class: that is kind `template`, and the class's JSON Schema is kept in
    `template_schema`; such a trait has no direction, so its `higher_is_better` is None.
    """

    from_files: ClassVar[FromFiles] = "any"
    kind: Kind = Field(default="boolean", description="How it is scored.")
    min_score: int | None = Field(default=None, description="Lowest score of kind score (1).")
    max_score: int | None = Field(default=None, description="Highest score of kind score (5).")
    classes: dict[str, str] | None = Field(
        default=None, description="Kind literal: class name to description, from the lowest class to the highest."
    )
    template_schema: dict[str, JsonValue] | None = Field(
        default=None, description="Kind template: JSON Schema of what the judge fills."
    )

    @model_validator(mode="before")
    @classmethod
    def _schema_of_a_class(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        values = dict(data)
        kind = values.get("kind")
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            values.update(kind="template", template_schema=kind.model_json_schema())
        elif isinstance(kind, Mapping) and kind.get("type") == "template":
            values.update(kind="template", template_schema=kind.get("schema"))
        if values.get("kind") == "template":
            values.setdefault("higher_is_better", None)
        return values

    @model_validator(mode="after")
    def _scale_fits_kind(self) -> ScaledTrait:
        if (self.classes is not None) != (self.kind == "literal"):
            raise ValueError('`classes` (name to description, in order) and kind "literal" come together')
        if (self.template_schema is not None) != (self.kind == "template"):
            raise ValueError('`template_schema` and kind "template" come together')
        if self.kind == "template" and self.higher_is_better is not None:
            raise ValueError("a trait of kind template has no direction: leave higher_is_better out")
        low, high = self.min_score, self.max_score
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ValueError("a literal trait needs at least two classes to choose between")
            own = (0, len(self.classes) - 1)
            if low not in (None, own[0]) or high not in (None, own[1]):
                raise ValueError(
                    f"the scores of these classes go from 0 to {own[1]}; leave min_score and max_score out"
                )
            low, high = own
        elif self.kind == "score":
            low, high = 1 if low is None else low, 5 if high is None else high
            if low >= high:
                raise ValueError(f"min_score ({low}) must be below max_score ({high})")
        elif low is not None or high is not None:
            raise ValueError(f'min_score and max_score belong to kind "score"; a {self.kind} trait has none')
        object.__setattr__(self, "min_score", low)
        object.__setattr__(self, "max_score", high)
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of a literal trait's classes, lowest first; empty for other kinds."""
        return tuple(self.classes or ())
