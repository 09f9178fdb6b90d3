"""The declarations of a template's source as plain data."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from karenina_template.templates.annotation import Annotation
from karenina_template.templates.compose import Tree
from karenina_template.templates.expressions import Scope
from karenina_template.templates.field import FieldRule


class _NoDefault:
    def __repr__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True, slots=True)
class FieldDeclaration:
    """One annotated field. `constraints` are those of pydantic's `Field` (ge, max_length, ...), by name."""

    name: str
    line: int
    annotation: Annotation
    description: str | None = None
    constraints: tuple[tuple[str, object], ...] = ()
    default: object = NO_DEFAULT
    rule: FieldRule | None = None

    @property
    def is_trace(self) -> bool:
        """Whether the field reads the raw response and is not filled by a judge."""
        return self.rule is not None and self.rule.reads_trace


@dataclass(frozen=True, slots=True)
class EnumDeclaration:
    """An enumeration. `base` is Enum, StrEnum or IntEnum, or the type "str" or "int" that is mixed in."""

    name: str
    line: int
    base: str
    members: tuple[tuple[str, object], ...]


@dataclass(frozen=True, slots=True)
class ModelDeclaration:
    """A class with fields: the answer itself (`is_answer`), or a model nested in it."""

    name: str
    line: int
    is_answer: bool
    docstring: str | None
    fields: Mapping[str, FieldDeclaration]
    strategy: Tree | None = None
    strategy_line: int | None = None


@dataclass(frozen=True, slots=True)
class Declaration:
    """A whole source: the answer, the classes that it may use, by name, and the meaning of its names."""

    answer: ModelDeclaration
    classes: Mapping[str, ModelDeclaration | EnumDeclaration]
    scope: Scope

    def descriptions(self) -> dict[str, str]:
        """Return the descriptions of the answer's own fields for the judge."""
        return {item.name: item.description for item in self.answer.fields.values() if item.description}

    def shape(self) -> Hashable:
        """Return a key that is equal for templates with the same class.

        It contains the names, annotations, constraints and defaults of the answer and the classes that it uses, but not
        truths, weights, primitives, hints, composition and docstrings. Of the descriptions, it contains those of nested
        models, and for the answer's own fields only whether they have one.
        """
        seen: dict[str, Hashable] = {}
        waiting = sorted(_used_classes(self.answer))
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            declared = self.classes[name]
            seen[name] = _shape_of(declared, is_root=False)
            if isinstance(declared, ModelDeclaration):
                waiting.extend(sorted(_used_classes(declared)))
        return _shape_of(self.answer, is_root=True), tuple(sorted(seen.items(), key=lambda item: item[0]))


def _used_classes(model: ModelDeclaration) -> set[str]:
    return {name for declared in model.fields.values() for name in declared.annotation.classes()}


def _shape_of(declared: ModelDeclaration | EnumDeclaration, *, is_root: bool) -> Hashable:
    if isinstance(declared, EnumDeclaration):
        return declared.name, declared.base, repr(declared.members)
    return declared.name, tuple(
        (
            item.name,
            item.annotation,
            bool(item.description) if is_root else item.description,
            repr(item.constraints) if item.constraints else "",
            "" if declared.is_answer or item.default is NO_DEFAULT else repr(item.default),
            item.is_trace,
        )
        for item in declared.fields.values()
    )
