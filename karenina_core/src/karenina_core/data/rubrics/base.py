"""The base class of traits, and the registry of trait kinds.

Use `ScaledTrait` for traits that a judge, an agent or a function scores on a scale.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.namespaces import check_name, flatten, is_owned, namespace_of

Kind = Literal["boolean", "score", "literal", "template"]


class RubricTrait(BaseModel, defer_build=True):
    """A quality of answers, as immutable data. Stages do the scoring.

    Each subclass is a *kind* of trait: its `type` field has a literal value of its own, and the class is registered
    with `register_trait_kind`. Scores are stored under the trait's `name`, which is unique within a rubric.

    `extra` contains the fields owned by plugins (`Stage.trait_settings`), keyed by full name, such as
    `my_package.words`. In files, these fields are written alongside the trait's own. When reading, a table named after
    the package is accepted too. Fields that are None are dropped.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(description="The kind of trait.")
    name: str = Field(min_length=1, description="The trait's name, unique within the rubric, for its scores.")
    description: str | None = Field(default=None, description="A description of the quality, shown to judges.")
    summary: str | None = Field(default=None, description="The concept in a few words, used in presence checks.")
    higher_is_better: bool | None = Field(
        default=True, description="Whether a higher score is better; None if scores have no direction."
    )
    unread: dict[str, JsonValue] = Field(
        default_factory=dict, description="Fields that this version does not know; they are saved unchanged."
    )
    extra: dict[str, JsonValue] = Field(default_factory=dict, description="Fields owned by plugins.")

    @model_validator(mode="before")
    @classmethod
    def _collect_extra(cls, values: Any) -> Any:
        """Return the values with the fields owned by plugins moved to `extra`, or dropped if they are None. Fields in
        tables of plugin packages count too (see `flatten`). Other unknown fields stay, for pydantic to reject.
        """
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
        """Return the trait's serialized values, in which the fields that plugins own are moved from `extra` to the top
        level.
        """
        values: dict[str, Any] = write(self)
        extra = values.pop("extra", {})
        owned = {name: value for name, value in extra.items() if is_owned(name, "trait_fields")}
        others = {name: value for name, value in extra.items() if name not in owned}
        return {**values, **owned, **({"extra": others} if others else {})}

    @model_validator(mode="after")
    def _named(self) -> RubricTrait:
        """Return the trait, or raise `ValueError` if its name is blank."""
        if not self.name.strip():
            raise ValueError(f"the trait name {self.name!r} has no visible characters")
        return self


class UnknownTrait(RubricTrait):
    """A trait that cannot be scored. All of its fields are preserved.

    Either the plugin for its kind is not installed, or its fields are invalid. In the second case, `unscorable`
    contains the reason. Results report the missing score as an error.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    model_config = ConfigDict(extra="allow", frozen=True)

    unscorable: str | None = Field(default=None, description="Why the trait cannot be scored, if its kind is known.")


_KINDS: dict[str, type[RubricTrait]] = {}
TraitT = TypeVar("TraitT", bound=RubricTrait)


def register_trait_kind(kind: type[TraitT]) -> type[TraitT]:
    """Register a kind of trait under its default `type`, so that files can contain it, and return it, as a class
    decorator. Raises `ValueError` if `type` has no default, or if another class has the same name.

    Registering the same class again has no effect. Third-party kinds must start with the name of their package.
    """
    name = kind.model_fields["type"].default
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"the field `type` of {kind.__module__}.{kind.__qualname__} has no default; "
            f'declare it as `type: Literal["my_kind"] = "my_kind"`'
        )
    check_name("trait kind", name, kind)
    if namespace_of(kind):
        kind.model_rebuild(raise_errors=False)  # if built later, an error would not be the plugin's
    registered = _KINDS.setdefault(name, kind)
    if registered is not kind:
        raise ValueError(
            f"two trait kinds have the name {name!r}: {registered.__module__}.{registered.__qualname__} and "
            f"{kind.__module__}.{kind.__qualname__}; give one of them a different `type`"
        )
    return kind


def trait_kinds() -> Mapping[str, type[RubricTrait]]:
    """Return the registered trait kinds keyed by name. The core's kinds come first."""
    return dict(_KINDS)


def trait_from_json(data: Mapping[str, Any]) -> RubricTrait:
    """Return a trait from the output of `trait_to_json`. It is an `UnknownTrait` with all fields if the `type` is not
    registered or `unscorable` is set. Raises `ValueError` (such as pydantic's `ValidationError`) if `type` is missing
    or a field is invalid.
    """
    name = data.get("type")
    if not isinstance(name, str) or not name:
        raise ValueError(f"the trait needs a `type`, one of {', '.join(_KINDS)}; it only has the keys {sorted(data)}")
    kind = UnknownTrait if data.get("unscorable") else _KINDS.get(name, UnknownTrait)
    return kind.model_validate(dict(data))


def trait_to_json(trait: RubricTrait) -> dict[str, JsonValue]:
    """Convert a trait to a JSON-compatible dict without default values. Its first entry is `type`."""
    values: dict[str, JsonValue] = trait.model_dump(mode="json", exclude_defaults=True)
    values.pop("type", None)
    return {"type": trait.type, **values}


class ScaledTrait(RubricTrait):
    """A trait that is scored on a scale.

    - `boolean`: yes or no.
    - `score`: a whole number from `min_score` to `max_score`, both included (1 to 5 by default).
    - `literal`: one of the ordered `classes`. The score is the position of the class, starting at 0.
    - `template`: the values that the judge fills into `template_schema`. Such a trait has no direction, so
      `higher_is_better` is None. If `kind` is given as a pydantic class, its JSON Schema becomes `template_schema`.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    kind: Kind = Field(default="boolean", description="The kind of score.")
    min_score: int | None = Field(default=None, description='For kind "score": the lowest score (default 1).')
    max_score: int | None = Field(default=None, description='For kind "score": the highest score (default 5).')
    classes: dict[str, str] | None = Field(
        default=None, description='For kind "literal": class names and descriptions, lowest class first.'
    )
    template_schema: dict[str, JsonValue] | None = Field(
        default=None, description='For kind "template": the JSON Schema of the values that the judge fills in.'
    )

    @model_validator(mode="before")
    @classmethod
    def _schema_of_a_class(cls, data: Any) -> Any:
        """Return the data with `kind` set to `template` and `template_schema` filled in if `kind` is a pydantic class
        or a mapping with the `type` `template` and a `schema`. For the kind `template`, `higher_is_better` defaults to
        None.
        """
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
        """Return the trait with missing limits set: to 1 and 5, or to the positions of the first and last class. Raises
        `ValueError` if the classes, schema, direction or limits do not match the kind.
        """
        if (self.classes is not None) != (self.kind == "literal"):
            has = "needs" if self.classes is None else "cannot have"
            raise ValueError(f'a trait of kind "{self.kind}" {has} `classes` (names and descriptions, in order)')
        if (self.template_schema is not None) != (self.kind == "template"):
            has = "needs" if self.template_schema is None else "cannot have"
            raise ValueError(f'a trait of kind "{self.kind}" {has} `template_schema`')
        if self.kind == "template" and self.higher_is_better is not None:
            raise ValueError('a trait of kind "template" has no direction; remove higher_is_better')
        low, high = self.min_score, self.max_score
        if self.classes is not None:
            if len(self.classes) < 2:
                raise ValueError(f"a literal trait needs at least two classes, but this one has {len(self.classes)}")
            own = (0, len(self.classes) - 1)
            if low not in (None, own[0]) or high not in (None, own[1]):
                raise ValueError(f"these classes are scored from 0 to {own[1]}; remove min_score and max_score")
            low, high = own
        elif self.kind == "score":
            low, high = 1 if low is None else low, 5 if high is None else high
            if low >= high:
                raise ValueError(f"min_score ({low}) must be below max_score ({high})")
        elif low is not None or high is not None:
            raise ValueError(f'min_score and max_score are only for kind "score", not "{self.kind}"; remove both')
        object.__setattr__(self, "min_score", low)
        object.__setattr__(self, "max_score", high)
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The names of a literal trait's classes, lowest first. For other kinds, this is empty."""
        return tuple(self.classes or ())
