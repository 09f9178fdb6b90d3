"""A cache of parsing results, for sources that differ only in some literals.

Most templates in a benchmark are the same source with different ground truths and descriptions, and parsing a source
takes longer than all other steps. A `ParsedPattern` records which literal is which field's ground truth, description or
parameter, so that a template can be created from the literals alone. Each template's rules are still checked, and its
ground truths are converted. If no pattern applies, the source is parsed as usual, so errors do not depend on the cache.

Only sources that need no trust have patterns. Literals outside the answer's verified fields must be the same.
"""

from __future__ import annotations

import ast
import inspect
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, NamedTuple

from karenina_template.templates.base import AnswerKey
from karenina_template.templates.bound_template import Template, template_id
from karenina_template.templates.compose import Tree
from karenina_template.templates.field import NO_OPTIONS, UNSET, VERIFIED, FieldRule, make_rule
from karenina_template.templates.shapes.declaration import Declaration
from karenina_template.templates.shapes.expressions import Scope, find_constructor, read_arguments, read_value
from karenina_template.templates.shapes.shape import Shape
from karenina_template.templates.source.literals import (
    LiteralSplit,
    is_comment,
    literal_spans,
    literal_value,
    prefix_before,
)
from karenina_toolkit.files.json_values import find_problem

_SIZE: Final = 256
_lock: Final = RLock()
_patterns: Final[OrderedDict[tuple[str, ...], ParsedPattern]] = OrderedDict()
_fixed: Final[OrderedDict[str, tuple[int, ...] | None]] = OrderedDict()
"""The indexes of literals that must be the same, keyed by the rest of the source. None means no pattern."""
_seen: Final[OrderedDict[int, None]] = OrderedDict()
"""Hashes of parsed sources. A pattern is only made for the second source of the same kind."""

Values = Sequence[Any]


class _PatternMismatchError(ValueError):
    """Raised if a pattern does not apply to a source or cannot be made from it."""


def find_template(split: LiteralSplit, source: str) -> Template | None:
    """Return the template for `source`, made from an earlier template that differs only in the literals of `split`, or
    None if there is none, or if the literals are invalid.
    """
    pattern = find_pattern(split)
    if pattern is None:
        return None
    try:
        return pattern.make_template(split.literals, source)
    except (ValueError, TypeError, ArithmeticError):
        return None


def find_shape(split: LiteralSplit) -> Shape | None:
    """Return the shape of a template with the given `split`, or None if there is no pattern for it."""
    pattern = find_pattern(split)
    return pattern.shape if pattern is not None else None


def find_pattern(split: LiteralSplit) -> ParsedPattern | None:
    """Return the cached pattern of a source with the given `split`, and mark it as recently used, or return None if
    there is none.
    """
    with _lock:
        fixed = _fixed.get(split.rest)
        if fixed is None:
            return None
        key = (split.rest, *[split.literals[place] for place in fixed])
        pattern = _patterns.get(key)
        if pattern is None:
            return None
        _patterns.move_to_end(key)
        _fixed.move_to_end(split.rest)
        return pattern


def add_template(
    split: LiteralSplit, source: str, tree: ast.Module, declaration: Declaration, template: Template
) -> None:
    """Remember how `template` was parsed from `source`, so that `find_template` can make templates for sources that
    differ only in some literals, unless this is the first source of its kind. If that is impossible, this is remembered
    as well.
    """
    with _lock:
        fixed = _fixed.get(split.rest, ())
        if fixed is None or _is_new(hash((split.rest, *[split.literals[place] for place in fixed]))):
            return
        try:
            pattern, fixed = _make_pattern(split.literals, source, tree, declaration, template)
            if pattern.make_template(split.literals, source) != template:
                raise _PatternMismatchError
        except (ValueError, TypeError, ArithmeticError):
            _store(_fixed, split.rest, None)
            return
        _store(_fixed, split.rest, fixed)
        _store(_patterns, (split.rest, *[split.literals[place] for place in fixed]), pattern)


def _is_new(mark: int) -> bool:
    new = mark not in _seen
    _store(_seen, mark, None)
    return new


def _store(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Store `value` in `cache`, and drop the value that was used least recently if `cache` is full."""
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _SIZE:
        cache.popitem(last=False)


@dataclass(slots=True)
class _Argument:
    """One argument of a `VerifiedField`, with a function that reads it from the values of the source's literals.

    `constants` contains the indexes of the literals that make up the argument. If `shared` is true, the value is
    immutable, so templates may share it. If the whole argument is a single literal, `place` is its index, and otherwise
    None.
    """

    parameter: str
    read: Callable[[Values], object]
    constants: tuple[tuple[int, ...], ...]
    shared: bool
    place: int | None
    last: tuple[Values, object] | None = None

    def value(self, values: Values) -> object:
        """Return the value of this argument in a source whose literals have the given `values`."""
        if not self.constants and self.last is not None:
            return self.last[1]
        current = [_join_constant(places, values) for places in self.constants]
        if self.last is not None and _are_identical(self.last[0], current):
            return self.last[1]
        result = self.read(values)
        if self.shared:
            self.last = current, result
        return result


def _make_argument(parameter: str, node: ast.expr, scope: Scope, places: _LiteralIndex) -> _Argument:
    """Return the argument `parameter` of a `VerifiedField`, which can be read again with other values for the literals
    in its expression `node`. Raises `ValueError` if the value of one of them differs from the one in `places`.
    """
    constants = {id(constant): indexes for constant, indexes in places.constants(node)}
    whole = constants[id(node)] if isinstance(node, ast.Constant) and id(node) in constants else ()
    return _Argument(
        parameter,
        _make_reader(node, scope, constants),
        tuple(constants.values()),
        isinstance(node, ast.Call | ast.Constant),
        whole[0] if len(whole) == 1 else None,
    )


def _make_reader(node: ast.expr, scope: Scope, constants: Mapping[int, tuple[int, ...]]) -> Callable[[Values], object]:
    """Return a function that reads an expression like `read_value`, but with other values for its `constants`.
    Constants and calls are read without the syntax tree, which is much faster.
    """
    if id(node) in constants:
        indexes = constants[id(node)]

        def read_constant(values: Values) -> object:
            value = _join_constant(indexes, values)
            if find_problem(value) is not None:
                raise _PatternMismatchError
            return value

        return read_constant
    constructor = find_constructor(node, scope) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and constructor is not None:
        positional, named = read_arguments(node, scope)
        arguments = [_make_reader(argument, scope, constants) for argument in positional]
        keywords = {key: _make_reader(argument, scope, constants) for key, argument in named.items()}
        return lambda values: constructor(
            *[read(values) for read in arguments], **{key: read(values) for key, read in keywords.items()}
        )
    inside = [part for part in ast.walk(node) if isinstance(part, ast.Constant) and id(part) in constants]

    def read_other(values: Values) -> object:
        with _lock:
            for constant in inside:
                constant.value = _join_constant(constants[id(constant)], values)
            return read_value(node, scope)

    return read_other


class ParsedPattern(NamedTuple):
    """The data shared by templates whose sources differ only in some literals.

    `free` contains the indexes of these literals, each with its prefix (`r`, `u` or an empty string).
    """

    free: tuple[tuple[int, str], ...]
    fields: tuple[tuple[str, bool, tuple[_Argument, ...] | str | None, Mapping[str, object]], ...]
    """The name of each field, whether it has a description, its arguments, and its plugin options.

    A plain field has its description instead of arguments. The literals in plugin options must be the same.
    """
    docstring: tuple[int, ...]
    shape: Shape
    strategy: Tree | None

    def make_template(self, literals: Sequence[str], source: str) -> Template:
        """Return a template for a source with the given literals. Raises `ValueError` if the pattern does not apply."""
        values: list[Any] = list(literals)
        for place, prefix in self.free:
            values[place] = literal_value(literals[place], prefix)
        return self.fill(values, source)

    def fill(self, values: Values, source: str) -> Template:
        """Return a template for a source whose literals have the given values, where they are `free`. Raises
        `ValueError` if the pattern does not apply.
        """
        rules: dict[str, FieldRule] = {}
        descriptions: dict[str, str] = {}
        for name, described, arguments, options in self.fields:
            description: object = arguments
            if isinstance(arguments, tuple):
                passed = {
                    argument.parameter: argument.value(values) if argument.place is None else values[argument.place]
                    for argument in arguments
                }
                description = passed.pop("description", None)
                rules[name] = make_rule(
                    passed.get("ground_truth", UNSET),
                    passed.get("verify_with", UNSET),
                    passed.get("weight", 1.0),
                    passed.get("extraction_hint"),
                    options,
                    passed.get("source"),
                ).with_coerced_truth(self.shape.coercer, name)
            if bool(description) is not described:
                raise _PatternMismatchError
            if description:
                if not isinstance(description, str):
                    raise _PatternMismatchError
                descriptions[name] = description
        docstring = inspect.cleandoc(_join_constant(self.docstring, values)) if self.docstring else None
        key = AnswerKey(rules, self.strategy)
        return Template(self.shape, key, template_id(source), docstring, source, descriptions)


def _join_constant(places: tuple[int, ...], values: Values) -> Any:
    """Return the value of a constant. Adjacent strings are joined."""
    return values[places[0]] if len(places) == 1 else "".join([values[place] for place in places])


def _are_identical(some: Values, others: Values) -> bool:
    """Return whether the values are equal and have the same types. For example, 1 and 1.0 are not identical."""
    return some == others and [type(one) for one in some] == [type(other) for other in others]


def _make_pattern(
    literals: Sequence[str], source: str, tree: ast.Module, declaration: Declaration, template: Template
) -> tuple[ParsedPattern, tuple[int, ...]]:
    """Make a pattern, and return it with the indexes of the literals that must be the same. Raises `ValueError` if this
    is not possible.
    """
    places = _LiteralIndex(literals, source)
    scope, answer = declaration.scope, declaration.answer
    (node,) = [
        statement for statement in tree.body if isinstance(statement, ast.ClassDef) and statement.name == answer.name
    ]
    declared = {
        statement.target.id: statement
        for statement in node.body
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    }
    if declared.keys() != answer.fields.keys():
        raise _PatternMismatchError  # the class inherits fields
    free: set[int] = set()
    fields: list[tuple[str, bool, tuple[_Argument, ...] | str | None, Mapping[str, object]]] = []
    for name, item in answer.fields.items():
        call = declared[name].value
        if item.rule is None or not isinstance(call, ast.Call):
            fields.append((name, bool(item.description), item.description, NO_OPTIONS))
            continue
        positional, named = read_arguments(call, scope)
        by_name = {**dict(zip(VERIFIED, positional, strict=False)), **named}
        arguments = tuple(
            _make_argument(key, expression, scope, places) for key, expression in by_name.items() if key in VERIFIED
        )
        free.update(place for argument in arguments for indexes in argument.constants for place in indexes)
        fields.append((name, bool(item.description), arguments, item.rule.options))
    for constant in _bare_constants(tree):
        free.update(places.find(constant))
    first = node.body[0]
    has_docstring = ast.get_docstring(node, clean=False) is not None
    text = first.value if has_docstring and isinstance(first, ast.Expr) else None
    docstring = places.find(text) if isinstance(text, ast.Constant) else ()
    comments = {place for place, literal in enumerate(literals) if is_comment(literal)}
    fixed = tuple(place for place in range(len(literals)) if place not in free and place not in comments)
    varying = tuple((place, places.prefixes[place]) for place in sorted(free))
    return ParsedPattern(varying, tuple(fields), docstring, template.shape, answer.strategy), fixed


def _bare_constants(tree: ast.Module | ast.ClassDef) -> Iterator[ast.Constant]:
    """Yield docstrings, and other statements that consist of a single string or number."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield from _bare_constants(statement)
            continue
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and type(value.value) in (str, int, float):
            yield value


class _LiteralIndex:
    """Maps a syntax tree's constants to the literals of its source."""

    def __init__(self, literals: Sequence[str], source: str) -> None:
        self._starts = [start for start, _ in literal_spans(source)]
        self.prefixes = [prefix_before(source, start) for start in self._starts]
        self._values = [
            None if is_comment(literal) else literal_value(literal, prefix)
            for literal, prefix in zip(literals, self.prefixes, strict=True)
        ]
        self._lines = source.split("\n")
        self._offsets = [0]
        for line in self._lines:
            self._offsets.append(self._offsets[-1] + len(line) + 1)

    def constants(self, node: ast.expr) -> Iterator[tuple[ast.Constant, tuple[int, ...]]]:
        """Yield the strings and numbers in an expression with the indexes of their literals. Raises `ValueError` if the
        literals have other values.
        """
        for part in ast.walk(node):
            if isinstance(part, ast.Constant) and type(part.value) in (str, int, float):
                yield part, self.find(part)

    def find(self, constant: ast.Constant) -> tuple[int, ...]:
        """Return the indexes of a constant's literals. Raises `ValueError` if they have another value."""
        assert constant.end_lineno is not None
        assert constant.end_col_offset is not None
        start = self._offset(constant.lineno, constant.col_offset)
        end = self._offset(constant.end_lineno, constant.end_col_offset)
        inside = range(bisect_left(self._starts, start), bisect_left(self._starts, end))
        indexes = tuple(place for place in inside if self._values[place] is not None)
        if not indexes or not _are_identical([_join_constant(indexes, self._values)], [constant.value]):
            raise _PatternMismatchError
        return indexes

    def _offset(self, line: int, column: int) -> int:
        """Return the offset in characters of a position in a syntax tree, whose columns count bytes."""
        return self._offsets[line - 1] + len(self._lines[line - 1].encode()[:column].decode())
