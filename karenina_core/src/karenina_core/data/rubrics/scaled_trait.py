"""`ScaledTrait`: the base of traits with scores on a scale, which judges, agents and functions give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, Field, JsonValue, model_validator

from karenina_core.data.rubrics.base import RubricTrait
from karenina_core.models.from_files import FromFiles

Kind = Literal["boolean", "score", "literal", "template"]


class ScaledTrait(RubricTrait):
    """A trait that is scored as yes or no, on a scale, as one of ordered classes, or by filling a schema.

    For `score` the bounds are whole numbers, both included (1 to 5 by default). For `literal` the score is the position
    of the class in `classes`, from 0; their order is the scale and sets the bounds. `kind` may also be a pydantic
    class: this is kind `template`, and `template_schema` is the class's JSON Schema. Such a trait has no direction, so
    that its `higher_is_better` is None.
    """

    from_files: ClassVar[FromFiles] = "any"
    kind: Kind = Field(default="boolean", description="The kind of score.")
    min_score: int | None = Field(default=None, description="Kind score: lowest score (default 1).")
    max_score: int | None = Field(default=None, description="Kind score: highest score (default 5).")
    classes: dict[str, str] | None = Field(
        default=None, description="Kind literal: class name to description, from the lowest class to the highest."
    )
    template_schema: dict[str, JsonValue] | None = Field(
        default=None, description="Kind template: JSON Schema of the values that the judge fills in."
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
            raise ValueError('kind "literal" needs `classes` (name to description, in order), and no other kind has it')
        if (self.template_schema is not None) != (self.kind == "template"):
            raise ValueError('kind "template" needs `template_schema`, and no other kind has it')
        if self.kind == "template" and self.higher_is_better is not None:
            raise ValueError("a trait of kind template has no direction: remove higher_is_better")
        low, high = self.min_score, self.max_score
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ValueError("a literal trait needs at least two classes to choose between")
            own = (0, len(self.classes) - 1)
            if low not in (None, own[0]) or high not in (None, own[1]):
                raise ValueError(f"the scores of these classes go from 0 to {own[1]}: remove min_score and max_score")
            low, high = own
        elif self.kind == "score":
            low, high = 1 if low is None else low, 5 if high is None else high
            if low >= high:
                raise ValueError(f"min_score ({low}) must be below max_score ({high})")
        elif low is not None or high is not None:
            raise ValueError(f'min_score and max_score are only for kind "score", not "{self.kind}": remove them')
        object.__setattr__(self, "min_score", low)
        object.__setattr__(self, "max_score", high)
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of a literal trait's classes, lowest first; empty for other kinds."""
        return tuple(self.classes or ())
