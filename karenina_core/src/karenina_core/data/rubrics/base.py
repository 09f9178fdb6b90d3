"""`RubricTrait`: what every kind of trait has, and the register of the kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from karenina_core.models.from_files import FromFiles

if TYPE_CHECKING:
    from collections.abc import Mapping


class RubricTrait(BaseModel):
    """One quality that an answer may have. Immutable data; how it is scored is the business of a trait evaluator.

    A subclass is one *kind* of trait: it gives `type` a literal value of its own, and is made known with
    `register_trait_kind`. Scores of a trait are stored under its `name`, so a name is unique in a rubric.
    """

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(extra="forbid", frozen=True)

    type: str = Field(description="The kind of trait; it tells the kinds apart in JSON.")
    name: str = Field(min_length=1, description="Unique name in the rubric; scores are stored under it.")
    description: str | None = Field(default=None, description="What the quality is, as a judge is told it.")
    summary: str | None = Field(default=None, description="The concept in a few words, for presence checks.")
    higher_is_better: bool | None = Field(
        default=True, description="Whether more of it is good; None where no direction has a meaning."
    )
    unread: dict[str, JsonValue] = Field(
        default_factory=dict, description="What a file said about it that this version does not know; written back."
    )

    @model_validator(mode="after")
    def _named(self) -> RubricTrait:
        if not self.name.strip():
            raise ValueError("a trait's name must have at least one visible character")
        return self


class UnknownTrait(RubricTrait):
    """A trait that cannot be scored, kept with all its fields as they were read.

    Its kind is not registered, since its plugin is not installed, or its fields do not fit its kind: `unscorable` says
    why then. Its score is reported as an error instead of being left out.
    """

    from_files: ClassVar[FromFiles] = "any"
    model_config = ConfigDict(extra="allow", frozen=True)

    unscorable: str | None = Field(default=None, description="Why it cannot be scored, if its kind is known.")


_KINDS: dict[str, type[RubricTrait]] = {}
TraitT = TypeVar("TraitT", bound=RubricTrait)


def register_trait_kind(kind: type[TraitT]) -> type[TraitT]:
    """Make a kind of trait known, so that files can hold it; also usable as a class decorator.

    The default of the class's `type` field is the name. Registering the same class again changes nothing. Raises
    `ValueError` when the class has no such default, or when another class has the name.
    """
    name = kind.model_fields["type"].default
    if not isinstance(name, str) or not name:
        raise ValueError(
            f"{kind.__module__}.{kind.__qualname__} gives its field `type` no default; "
            f'write `type: Literal["my_kind"] = "my_kind"` in it'
        )
    known = _KINDS.setdefault(name, kind)
    if known is not kind:
        raise ValueError(
            f"two classes are trait kinds named {name!r}: {known.__module__}.{known.__qualname__} and "
            f"{kind.__module__}.{kind.__qualname__}; give one of them another `type`"
        )
    return kind


def trait_kinds() -> Mapping[str, type[RubricTrait]]:
    """The registered kinds by name, those of the core first."""
    return dict(_KINDS)


def trait_from_json(data: Mapping[str, Any]) -> RubricTrait:
    """The trait that `trait_to_json` gave `data` for.

    A `type` that nobody registered gives an `UnknownTrait`, so nothing that a file holds is lost, and so does
    `unscorable`. Raises `ValueError` (pydantic's `ValidationError` is one) for a missing `type` and for fields that do
    not fit the kind.
    """
    name = data.get("type")
    if not isinstance(name, str) or not name:
        raise ValueError(f"a trait needs a `type`, one of {', '.join(_KINDS)}; this one has {sorted(data)}")
    kind = UnknownTrait if data.get("unscorable") else _KINDS.get(name, UnknownTrait)
    return kind.model_validate(dict(data))


def trait_to_json(trait: RubricTrait) -> dict[str, JsonValue]:
    """The trait as JSON values with its `type` first, without the fields that have their default."""
    values: dict[str, JsonValue] = trait.model_dump(mode="json", exclude_defaults=True)
    values.pop("type", None)
    return {"type": trait.type, **values}
