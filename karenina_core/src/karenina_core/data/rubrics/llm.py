"""`LLMRubricTrait`: a quality that a judge model scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field, JsonValue, SerializerFunctionWrapHandler, model_serializer, model_validator

from karenina_core.catalog import read_catalog
from karenina_core.data.rubrics.base import register_trait_kind
from karenina_core.data.rubrics.scaled_trait import ScaledTrait
from karenina_core.models.from_files import FromFiles
from karenina_core.namespaces import flatten, is_owned


def owned_trait_fields() -> frozenset[str]:
    """Return the names of the trait fields that members of this project own, whether they are installed or not."""
    return frozenset(read_catalog()["trait_fields"])


@register_trait_kind
class LLMRubricTrait(ScaledTrait):
    """A quality that a judge model scores from the answer's text.

    `extra` contains the fields that plugins own (`Stage.trait_settings`) by their full names, `my_package.words`. They
    are read and written like the trait's own fields, also as a table of the namespace, unless they are None.
    """

    from_files: ClassVar[FromFiles] = "any"
    type: Literal["llm"] = "llm"
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Fields that plugins own.")

    @model_validator(mode="before")
    @classmethod
    def _collect_extra(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not values.keys() - cls.model_fields.keys():
            return values
        values = flatten({str(name): value for name, value in values.items()}, cls.model_fields)
        others = values.keys() - cls.model_fields.keys()
        owned = {name: values[name] for name in values if name in others and is_owned(name, "trait_fields")}
        rest = {name: values[name] for name in values if name not in owned}
        extra = rest.get("extra", {})
        if not owned or not isinstance(extra, Mapping):
            return rest
        return {**rest, "extra": {**extra, **{name: value for name, value in owned.items() if value is not None}}}

    @model_serializer(mode="wrap")
    def _flatten_extra(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = write(self)
        extra = values.pop("extra", {})
        owned = {name: value for name, value in extra.items() if is_owned(name, "trait_fields")}
        others = {name: value for name, value in extra.items() if name not in owned}
        return {**values, **owned, **({"extra": others} if others else {})}
