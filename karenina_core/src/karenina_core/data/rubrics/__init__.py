"""Rubric traits as data: qualities of an answer that have no single correct value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from operator import attrgetter
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, SerializeAsAny, field_validator, model_validator

from karenina_core.data.rubrics.base import (
    RubricTrait,
    UnknownTrait,
    register_trait_kind,
    trait_from_json,
    trait_kinds,
    trait_to_json,
)
from karenina_core.data.rubrics.kinds import (
    AgenticRubricTrait,
    CallableRubricTrait,
    LLMRubricTrait,
    MetricRubricTrait,
    RegexRubricTrait,
)

__all__ = [
    "AgenticRubricTrait",
    "CallableRubricTrait",
    "DynamicRubric",
    "LLMRubricTrait",
    "MetricRubricTrait",
    "RegexRubricTrait",
    "Rubric",
    "RubricTrait",
    "UnknownTrait",
    "check_dynamic_names",
    "register_trait_kind",
    "trait_from_json",
    "trait_kinds",
    "trait_to_json",
]

_LISTS: tuple[tuple[str, type[RubricTrait]], ...] = (
    ("llm_traits", LLMRubricTrait),
    ("regex_traits", RegexRubricTrait),
    ("callable_traits", CallableRubricTrait),
    ("metric_traits", MetricRubricTrait),
    ("agentic_traits", AgenticRubricTrait),
)
_lists_of = attrgetter(*(name for name, _ in _LISTS), "other_traits")


class Rubric(BaseModel, defer_build=True):
    """The traits by which answers are scored.

    There is one list for each built-in kind of trait, and `other_traits` for the kinds of plugins. A single list of
    traits is accepted too. In JSON, each of its traits needs a `type`. Rubrics are immutable. Raises `ValueError` if
    two traits have the same name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    llm_traits: tuple[LLMRubricTrait, ...] = Field(default=(), description="Traits scored by a judge model.")
    regex_traits: tuple[RegexRubricTrait, ...] = Field(default=(), description="Traits scored by matching a pattern.")
    callable_traits: tuple[CallableRubricTrait, ...] = Field(default=(), description="Traits computed by a function.")
    metric_traits: tuple[MetricRubricTrait, ...] = Field(default=(), description="Traits counting expected statements.")
    agentic_traits: tuple[AgenticRubricTrait, ...] = Field(default=(), description="Traits investigated by an agent.")
    other_traits: tuple[SerializeAsAny[RubricTrait], ...] = Field(default=(), description="Traits of plugins' kinds.")

    @model_validator(mode="before")
    @classmethod
    def _sorted_by_kind(cls, data: Any) -> Any:
        """Return a single list of traits as a dict with one list for each kind, with JSON values converted to traits.
        Other data is returned unchanged. Raises `ValueError` if an item is neither a trait nor a mapping.
        """
        if isinstance(data, BaseModel | Mapping | str) or not isinstance(data, Iterable):
            return data
        lists: dict[str, list[RubricTrait]] = {}
        for position, item in enumerate(data):
            if isinstance(item, RubricTrait):
                trait = item
            elif isinstance(item, Mapping):
                trait = trait_from_json(item)
            else:
                raise ValueError(f"entry {position + 1} of the rubric must be a trait, not {type(item).__name__}")  # noqa: TRY004
            name = next((name for name, kind in _LISTS if isinstance(trait, kind)), "other_traits")
            lists.setdefault(name, []).append(trait)
        return lists

    @field_validator("other_traits", mode="before")
    @classmethod
    def _by_type(cls, value: Any) -> Any:
        """Convert the JSON values in a list or another iterable to a list of traits, based on their `type`. Values that
        are traits already are kept. Strings, mappings and what is not iterable are returned unchanged.
        """
        if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
            return value
        return [trait_from_json(trait) if isinstance(trait, Mapping) else trait for trait in value]

    @model_validator(mode="after")
    def _unique_names(self) -> Self:
        """Return the rubric. Raises `ValueError` if two traits have the same name, even if they are of different
        kinds.
        """
        seen: dict[str, RubricTrait] = {}
        for trait in self.traits:
            first = seen.setdefault(trait.name, trait)
            if first is not trait:
                raise ValueError(
                    f"two traits in the rubric have the name {trait.name!r} "
                    f"({first.type} and {trait.type}); rename one of them"
                )
        return self

    @classmethod
    def of(cls, *traits: RubricTrait) -> Self:
        """Return a rubric that contains the given traits."""
        return cls.model_validate(list(traits))

    @property
    def traits(self) -> Iterator[RubricTrait]:
        """All traits, grouped by kind and in the given order within each kind."""
        return chain(*_lists_of(self))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all traits, in the order of `traits`."""
        return tuple(trait.name for trait in self.traits)

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def merge(cls, global_rubric: Self | None, question_rubric: Self | None) -> Self:
        """Return a new rubric with the traits of a benchmark and a question. Within each kind, the benchmark's come
        first. Either rubric may be None. Raises `ValueError` if both have a trait with the same name.
        """
        ours = tuple(global_rubric.traits) if global_rubric is not None else ()
        theirs = tuple(question_rubric.traits) if question_rubric is not None else ()
        by_name = {trait.name: trait for trait in ours}
        for trait in theirs:
            if trait.name in by_name:
                raise ValueError(
                    f"the trait name {trait.name!r} is used both in the global rubric ({by_name[trait.name].type} "
                    f"trait) and in the question's rubric ({trait.type} trait); rename one of them"
                )
        return cls.of(*ours, *theirs)


class DynamicRubric(Rubric, defer_build=True):
    """Traits that are scored only if their concept is present in the answer.

    Each trait needs a `summary` or a `description` of its concept.
    """

    @model_validator(mode="after")
    def _check_concepts(self) -> Self:
        """Return the rubric. Raises `ValueError` if a trait that can be scored has no summary and no description."""
        for trait in self.traits:
            if not (trait.summary or trait.description or getattr(trait, "unscorable", None)):
                raise ValueError(
                    f"the dynamic trait {trait.name!r} has neither a summary nor a description, so its presence in an "
                    "answer cannot be checked; add a summary"
                )
        return self


def check_dynamic_names(rubric: Rubric | None, dynamic: DynamicRubric | None) -> None:
    """Raise `ValueError` if a question's static and dynamic rubrics share a trait name."""
    if rubric is None or dynamic is None:
        return
    both = sorted(set(rubric.names) & set(dynamic.names))
    if both:
        why = f"the trait name {both[0]!r} is used both in the rubric and in the dynamic rubric; rename one of them"
        raise ValueError(why)
