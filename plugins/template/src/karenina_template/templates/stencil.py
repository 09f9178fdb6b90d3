"""Stencils: what is read once of sources that differ in their literals alone.

The templates of a benchmark are mostly one text with other truths and descriptions in it, and to read its syntax tree
takes longer than all that its own truths ask for. A stencil knows which literal is the truth, the description or a
parameter of which field. Each template is still its own: its rules are checked and its truths fitted as ever, and where
anything about it is not as it was, its source is read as if there were no stencil, and its errors come from there.

Only what needs no trust has a stencil. Literals beyond those of the answer's verified fields have to be the same.
"""

from __future__ import annotations

import ast
import inspect
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

from karenina_template.templates.answer_key import AnswerKey
from karenina_template.templates.compose import Tree
from karenina_template.templates.declaration import Declaration
from karenina_template.templates.field import UNSET, VERIFIED, FieldRule, make_rule
from karenina_template.templates.literals import Cut, is_comment, prefix_before, spans, value_of_literal
from karenina_template.templates.shape import Shape
from karenina_template.templates.syntax import Scope, arguments_of, value_of
from karenina_template.templates.template import Template, template_id

_KEPT: Final = 256
_lock: Final = RLock()
_stencils: Final[OrderedDict[tuple[str, ...], Stencil]] = OrderedDict()
_fixed: Final[OrderedDict[str, tuple[int, ...] | None]] = OrderedDict()
"""By the rest of sources which of their literals have to be the same; None where there can be no stencil."""
_seen: Final[OrderedDict[int, None]] = OrderedDict()
"""What was seen once, as hashes: a text that comes once is not worth a stencil."""

Values = Sequence[Any]


class _NotAlikeError(ValueError):
    """A stencil does not hold, or cannot be made."""


def filled(pieces: Cut, source: str) -> Template | None:
    """The template that `source` is, of which `pieces` are the parts; None where no stencil is known that holds."""
    with _lock:
        fixed = _fixed.get(pieces.rest)
        if fixed is None:
            return None
        key = (pieces.rest, *[pieces.literals[place] for place in fixed])
        stencil = _stencils.get(key)
        if stencil is None:
            return None
        _stencils.move_to_end(key)
        _fixed.move_to_end(pieces.rest)
    try:
        return stencil.filled(pieces.literals, source)
    except (ValueError, TypeError, ArithmeticError):
        return None


def learn(pieces: Cut, source: str, tree: ast.Module, declaration: Declaration, template: Template) -> None:
    """Remember how `template` was read from `source`, where this is not the first of its kind."""
    with _lock:
        fixed = _fixed.get(pieces.rest, ())
        if fixed is None or _is_new(hash((pieces.rest, *[pieces.literals[place] for place in fixed]))):
            return
        try:
            stencil, fixed = _stencil(pieces.literals, source, tree, declaration, template)
            if stencil.filled(pieces.literals, source) != template:
                raise _NotAlikeError
        except (ValueError, TypeError, ArithmeticError):
            _keep(_fixed, pieces.rest, None)
            return
        _keep(_fixed, pieces.rest, fixed)
        _keep(_stencils, (pieces.rest, *[pieces.literals[place] for place in fixed]), stencil)


def _is_new(mark: int) -> bool:
    new = mark not in _seen
    _keep(_seen, mark, None)
    return new


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _KEPT:
        kept.popitem(last=False)


@dataclass(slots=True)
class _Argument:
    """One argument of a `VerifiedField`: an expression whose constants are literals of the source, by their places.

    `place` is that of a literal which is the whole argument, and else None.
    """

    parameter: str
    node: ast.expr
    scope: Scope
    constants: tuple[tuple[ast.Constant, tuple[int, ...]], ...]
    place: int | None = field(init=False)
    last: tuple[Values, object] | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.node, ast.Constant) and len(self.constants) == 1 and len(self.constants[0][1]) == 1
        self.place = self.constants[0][1][0] if whole else None

    def value(self, values: Values) -> object:
        """Its value where the literals have these values."""
        found = [_constant(places, values) for _, places in self.constants]
        if self.last is not None and _same(self.last[0], found):
            return self.last[1]
        with _lock:
            for (constant, _), value in zip(self.constants, found, strict=True):
                constant.value = value
            made: object = value_of(self.node, self.scope)
        if isinstance(self.node, ast.Call):  # a list may be changed by whoever has it, what is called for may not
            self.last = found, made
        return made


@dataclass(frozen=True, slots=True)
class Stencil:
    """What templates share whose sources differ in some literals: `free`, by their places with what stands before."""

    free: tuple[tuple[int, str], ...]
    fields: tuple[tuple[str, bool, tuple[_Argument, ...] | str | None], ...]
    """Each field's name, whether it has a description, and its arguments; for a plain field its description."""
    docstring: tuple[int, ...]
    shape: Shape
    strategy: Tree | None

    def filled(self, literals: Sequence[str], source: str) -> Template:
        """The template that a source with these literals is. Raises `ValueError` where it may be none, or another."""
        values: list[Any] = list(literals)
        for place, prefix in self.free:
            values[place] = value_of_literal(literals[place], prefix)
        rules: dict[str, FieldRule] = {}
        descriptions: dict[str, str] = {}
        for name, described, arguments in self.fields:
            description: object = arguments
            if isinstance(arguments, tuple):
                given = {
                    one.parameter: one.value(values) if one.place is None else values[one.place] for one in arguments
                }
                description = given.pop("description", None)
                rules[name] = make_rule(
                    given.get("ground_truth", UNSET),
                    given.get("verify_with", UNSET),
                    given.get("weight", 1.0),
                    given.get("extraction_hint"),
                ).fitted(self.shape.truths, name)
            if bool(description) is not described:
                raise _NotAlikeError
            if description:
                if not isinstance(description, str):
                    raise _NotAlikeError
                descriptions[name] = description
        docstring = inspect.cleandoc(_constant(self.docstring, values)) if self.docstring else None
        key = AnswerKey(rules, self.strategy)
        return Template(self.shape, key, template_id(source), docstring, source, descriptions)


def _constant(places: tuple[int, ...], values: Values) -> Any:
    """The value of a constant: texts that stand side by side are one."""
    return values[places[0]] if len(places) == 1 else "".join([values[place] for place in places])


def _same(some: Values, others: Values) -> bool:
    """Whether the values are equal and of the same types: 1 is not 1.0."""
    return some == others and [type(one) for one in some] == [type(one) for one in others]


def _stencil(
    literals: Sequence[str], source: str, tree: ast.Module, declaration: Declaration, template: Template
) -> tuple[Stencil, tuple[int, ...]]:
    """The stencil, and the places of the literals that have to be the same. Raises `ValueError`."""
    places = _Places(literals, source)
    scope, answer = declaration.scope, declaration.answer
    (node,) = [one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == answer.name]
    declared = {
        one.target.id: one for one in node.body if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name)
    }
    if declared.keys() != answer.fields.keys():
        raise _NotAlikeError  # it inherits fields
    free: set[int] = set()
    fields: list[tuple[str, bool, tuple[_Argument, ...] | str | None]] = []
    for name, item in answer.fields.items():
        call = declared[name].value
        if item.rule is None or not isinstance(call, ast.Call):
            fields.append((name, bool(item.description), item.description))
            continue
        positional, named = arguments_of(call, scope)
        given = {**dict(zip(VERIFIED, positional, strict=False)), **named}
        arguments = tuple(
            _Argument(key, one, scope, tuple(places.constants(one))) for key, one in given.items() if key in VERIFIED
        )
        free.update(place for one in arguments for _, found in one.constants for place in found)
        fields.append((name, bool(item.description), arguments))
    for text in _notes(tree):
        free.update(places.of(text))
    first = node.body[0]
    has_docstring = ast.get_docstring(node, clean=False) is not None
    constant = first.value if has_docstring and isinstance(first, ast.Expr) else None
    docstring = places.of(constant) if isinstance(constant, ast.Constant) else ()
    comments = {place for place, literal in enumerate(literals) if is_comment(literal)}
    fixed = tuple(place for place in range(len(literals)) if place not in free and place not in comments)
    known = tuple((place, places.prefixes[place]) for place in sorted(free))
    return Stencil(known, tuple(fields), docstring, template.shape, answer.strategy), fixed


def _notes(tree: ast.Module | ast.ClassDef) -> Iterator[ast.Constant]:
    """The docstrings and other lone texts and numbers, which mean nothing to a template."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield from _notes(statement)
            continue
        note = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(note, ast.Constant) and type(note.value) in (str, int, float):
            yield note


class _Places:
    """Which literals of a source the constants of its syntax tree are. Raises `ValueError` where one is no literal."""

    def __init__(self, literals: Sequence[str], source: str) -> None:
        self._starts = [start for start, _ in spans(source)]
        self.prefixes = [prefix_before(source, start) for start in self._starts]
        self._values = [
            None if is_comment(literal) else value_of_literal(literal, prefix)
            for literal, prefix in zip(literals, self.prefixes, strict=True)
        ]
        self._lines = source.split("\n")
        self._offsets = [0]
        for line in self._lines:
            self._offsets.append(self._offsets[-1] + len(line) + 1)

    def constants(self, node: ast.expr) -> Iterator[tuple[ast.Constant, tuple[int, ...]]]:
        """The texts and numbers in an expression, each with the places of the literals that it consists of."""
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and type(part.value) in (str, int, float):
                yield part, self.of(part)

    def of(self, constant: ast.Constant) -> tuple[int, ...]:
        """The places of the literals that a constant consists of. Raises `ValueError` where they do not make it."""
        assert constant.end_lineno is not None
        assert constant.end_col_offset is not None
        start = self._offset(constant.lineno, constant.col_offset)
        end = self._offset(constant.end_lineno, constant.end_col_offset)
        inside = range(bisect_left(self._starts, start), bisect_left(self._starts, end))
        found = tuple(place for place in inside if self._values[place] is not None)
        if not found or not _same([_constant(found, self._values)], [constant.value]):
            raise _NotAlikeError
        return found

    def _offset(self, line: int, column: int) -> int:
        """The place in the source; columns are counted in bytes."""
        return self._offsets[line - 1] + len(self._lines[line - 1].encode()[:column].decode())
