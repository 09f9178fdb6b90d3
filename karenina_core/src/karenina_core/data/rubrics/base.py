"""`RubricTrait`, the base of all kinds of traits, and the registry of the kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from karenina_core.models.from_files import FromFiles
from karenina_core.namespaces import check_name

if TYPE_CHECKING:
    from collections.abc import Mapping


class RubricTrait(BaseModel):
    """A quality of answers. Immutable data, which trait evaluators score.

    A subclass is one *kind* of trait: it gives `type` a literal value of its own, and is registered with
    `register_trait_kind`. Scores are stored under the `name` of the trait, which is unique in a rubric.
    """

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(description="The kind of trait.")
    name: str = Field(min_length=1, description="Unique name in the rubric; scores are stored under it.")
    description: str | None = Field(default=None, description="The description of the quality for judges.")
    summary: str | None = Field(default=None, description="The concept in a few words, for presence checks.")
    higher_is_better: bool | None = Field(
        default=True, description="Whether a higher score is better; None if scores have no direction."
    )
    unread: dict[str, JsonValue] = Field(
        default_factory=dict, description="Fields of a file that this version does not know; saved unchanged."
    )

    @model_validator(mode="after")
    def _named(self) -> RubricTrait:
        if not self.name.strip():
            raise ValueError("a trait's name must contain a visible character")
        return self


class UnknownTrait(RubricTrait):
    """A trait that cannot be scored, with all its fields as they were read.

    Either its kind is not registered, because its plugin is not installed, or its fields are invalid for its kind, and
    `unscorable` is the reason. Its missing score is reported as an error.
    """

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(extra="allow", frozen=True)

    unscorable: str | None = Field(default=None, description="Why it cannot be scored, if its kind is known.")


_KINDS: dict[str, type[RubricTrait]] = {}
TraitT = TypeVar("TraitT", bound=RubricTrait)


def register_trait_kind(kind: type[TraitT]) -> type[TraitT]:
    """Register a kind of trait, so that files can contain it. Can be used as a class decorator.

    The default of the class's `type` field is the name of the kind. Registering a class again has no effect. Raises
    `ValueError` if there is no such default, another class has the name, or the name of a third party's kind does not
    begin with its package.
    """
    name = kind.model_fields["type"].default
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"the field `type` of {kind.__module__}.{kind.__qualname__} has no default; "
            f'declare it as `type: Literal["my_kind"] = "my_kind"`'
        )
    check_name("kind of traits", name, kind)
    known = _KINDS.setdefault(name, kind)
    if known is not kind:
        raise ValueError(
            f"two classes are trait kinds named {name!r}: {known.__module__}.{known.__qualname__} and "
            f"{kind.__module__}.{kind.__qualname__}; give one of them another `type`"
        )
    return kind


def trait_kinds() -> Mapping[str, type[RubricTrait]]:
    """Return the registered kinds by name, those of the core first."""
    return dict(_KINDS)


def trait_from_json(data: Mapping[str, Any]) -> RubricTrait:
    """Return the trait that `trait_to_json` converted to `data`.

    It is an `UnknownTrait`, so that nothing in a file is lost, if its `type` is not registered or it has `unscorable`.
    Raises `ValueError` (pydantic's `ValidationError` is one) for a missing `type` and for invalid fields.
    """
    name = data.get("type")
    if not isinstance(name, str) or not name:
        raise ValueError(f"the trait has no `type` among its fields {sorted(data)}: add one of {', '.join(_KINDS)}")
    kind = UnknownTrait if data.get("unscorable") else _KINDS.get(name, UnknownTrait)
    return kind.model_validate(dict(data))


def trait_to_json(trait: RubricTrait) -> dict[str, JsonValue]:
    """Return the trait as JSON values with its `type` first, without fields that have their default."""
    values: dict[str, JsonValue] = trait.model_dump(mode="json", exclude_defaults=True)
    values.pop("type", None)
    return {"type": trait.type, **values}
