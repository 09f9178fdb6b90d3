"""A cache for sources that differ only in some literals.

Most templates in a benchmark are the same source with other ground truths and descriptions, and parsing is the slowest
step. A `ParsedPattern` knows which literal is which field's ground truth, description or parameter, so that a template
can be made from the literals alone. Its rules are still checked and its ground truths converted. If there is no
pattern, the source is parsed as usual, so that errors do not depend on the cache.

Only sources that need no trust have patterns. Literals outside of the answer's verified fields must be the same.

Sources are split into literals and the rest without parsing them as Python. This is safe, because Python's grammar does
not depend on the values of literals: sources with the same rest have the same syntax tree, except for constants.
"""

from __future__ import annotations

import ast
import inspect
import re
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final

from karenina_template.templates.base import AnswerKey
from karenina_template.templates.bound_template import Template, template_id
from karenina_template.templates.compose import Tree
from karenina_template.templates.field import CLASS_BUILD_LOCK, NO_OPTIONS, UNSET, VERIFIED, FieldRule, make_rule
from karenina_template.templates.shapes.declaration import Declaration
from karenina_template.templates.shapes.expressions import Scope, read_arguments, read_value
from karenina_template.templates.shapes.shape import Shape
from karenina_toolkit.files.json_values import find_problem

# The pattern starts with a set of characters, so that other characters are skipped quickly. A string that is not
# terminated is matched up to where it would have to end, so that matching takes linear time.
_PIECE: Final = re.compile(
    r"""( [\#"'.0-9] (?:
      (?<=\#) [^\n]*+
    | (?<=") (?:
          "" [^\\"]*+ (?: (?: \\. | "(?!"") ) [^\\"]*+ )*+ (?: \"\"\" | \\?\Z )
        | (?!"") [^\\"\n]*+ (?: \\. [^\\"\n]*+ )*+ (?: " | (?=\n) | \\?\Z )
      )
    | (?<=') (?:
          '' [^\\']*+ (?: (?: \\. | '(?!'') ) [^\\']*+ )*+ (?: \'\'\' | \\?\Z )
        | (?!'') [^\\'\n]*+ (?: \\. [^\\'\n]*+ )*+ (?: ' | (?=\n) | \\?\Z )
      )
    | (?<![\w.][.0-9]) (?: (?<=[0-9]) | (?<=\.)[0-9] ) (?: [\w.] | (?<=[eE])[+-] )*+
    ))""",
    re.VERBOSE | re.DOTALL,
)
_AFTER_A_WORD: Final = re.compile(r"\0(?<=\w\0)")
_KINDS: Final = {"#": ";", **dict.fromkeys("'\"", "$"), **dict.fromkeys(".0123456789", "%")}
_WHOLE: Final = re.compile(r"0|[1-9][0-9]*")
_FRACTION: Final = re.compile(r"[0-9]+\.[0-9]+")
_LONGEST: Final = 50_000


@dataclass(slots=True)
class LiteralSplit:
    """Source code split into its `literals`, including comments, and the `rest`.

    In the `rest`, a mark for its kind takes the place of each literal. The prefixes `r` and `u` of strings belong to
    the rest.
    """

    rest: str
    literals: tuple[str, ...]


def split_literals(source: str) -> LiteralSplit | None:
    """Split `source` into literals and the rest.

    Returns None if it is too long, or may contain f-strings, bytes and the like.
    """
    if len(source) > _LONGEST or "\0" in source or "\r" in source or not _is_encodable(source):
        return None
    parts = _PIECE.split(source)
    literals = tuple(parts[1::2])
    parts[1::2] = [_KINDS[literal[0]] for literal in literals]
    rest = "\0".join(parts)
    if any(not _is_prefix(rest, match.start()) for match in _AFTER_A_WORD.finditer(rest)):
        return None
    return LiteralSplit(rest, literals)


def _is_prefix(text: str, end: int) -> bool:
    """Return whether the text before `end` ends with the string prefix `r` or `u`, not with a name."""
    return text[end - 1] in "rRuU" and (end == 1 or not (text[end - 2].isalnum() or text[end - 2] == "_"))


def literal_spans(source: str) -> list[tuple[int, int]]:
    """Return the start and end of each literal and comment in `source`, in the order of its `LiteralSplit`."""
    return [match.span() for match in _PIECE.finditer(source)]


def prefix_before(source: str, start: int) -> str:
    """Return the prefix of the literal at `start`: `r`, `u` or an empty string."""
    return source[start - 1 : start] if source[start] in "'\"" and source[start - 1 : start].isalpha() else ""


def is_comment(literal: str) -> bool:
    """Return whether one of the `literals` is just a comment."""
    return literal[0] == "#"


def literal_value(literal: str, prefix: str = "") -> str | int | float:
    """Return the value of a literal with its `prefix`. Raises `ValueError` if it is not a string or number."""
    quote = literal[0]
    if quote in "'\"" and "\\" not in literal:
        width = 3 if literal.startswith(quote * 3) else 1
        if len(literal) < 2 * width or not literal.endswith(quote * width):
            raise ValueError(f"{literal!r:.200} is not terminated")
        return literal[width:-width]
    if _WHOLE.fullmatch(literal):
        return int(literal)
    if _FRACTION.fullmatch(literal):
        return float(literal)
    try:
        with CLASS_BUILD_LOCK:
            value = ast.literal_eval(prefix + literal)
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"{literal!r:.200} is not a literal") from error
    if type(value) not in (str, int, float):
        raise ValueError(f"{literal!r:.200} is neither a string nor a number")
    trouble = find_problem(value)
    if trouble is not None:
        raise ValueError(f"{trouble.what}; {trouble.cure}")
    checked: str | int | float = value
    return checked


def _is_encodable(source: str) -> bool:
    """Return whether the source has no lone surrogates and can be encoded."""
    if source.isascii():
        return True
    try:
        source.encode()
    except UnicodeEncodeError:
        return False
    return True


_SIZE: Final = 256
_lock: Final = RLock()
_patterns: Final[OrderedDict[tuple[str, ...], ParsedPattern]] = OrderedDict()
_fixed: Final[OrderedDict[str, tuple[int, ...] | None]] = OrderedDict()
"""The indexes of literals that must be the same, by the rest of the source, or None if there is no pattern."""
_seen: Final[OrderedDict[int, None]] = OrderedDict()
"""Hashes of sources that were parsed. A pattern is only made for the second source of a kind."""

Values = Sequence[Any]


class _PatternMismatchError(ValueError):
    """Raised if a pattern does not apply to a source, or cannot be made from it."""


def find_template(split: LiteralSplit, source: str) -> Template | None:
    """Return the template for a source with this `split`, if there is a pattern for it."""
    pattern = _find_pattern(split)
    if pattern is None:
        return None
    try:
        return pattern.make_template(split.literals, source)
    except (ValueError, TypeError, ArithmeticError):
        return None


def find_shape(split: LiteralSplit) -> Shape | None:
    """Return the shape of the template with this `split`, if there is a pattern for it."""
    pattern = _find_pattern(split)
    return pattern.shape if pattern is not None else None


def _find_pattern(split: LiteralSplit) -> ParsedPattern | None:
    """Return the cached pattern for sources with this `split`, if there is one."""
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
    """Remember how `template` was parsed, unless this is the first source of its kind.

    If no pattern can be made, this is remembered too.
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
    """Return whether `mark` is new, and remember it."""
    new = mark not in _seen
    _store(_seen, mark, None)
    return new


def _store(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Store a value in the cache, dropping the oldest if it is full."""
    cache[key] = value
    cache.move_to_end(key)
    if len(cache) > _SIZE:
        cache.popitem(last=False)


@dataclass(slots=True)
class _Argument:
    """An argument of a `VerifiedField`: its expression, and the indexes of its constants in the literals.

    If it is a single literal, `place` is its index.
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
        """Return the value of the argument, given the values of the literals."""
        current = [_join_constant(places, values) for _, places in self.constants]
        if self.last is not None and _are_identical(self.last[0], current):
            return self.last[1]
        with _lock:
            for (constant, _), value in zip(self.constants, current, strict=True):
                constant.value = value
            result: object = read_value(self.node, self.scope)
        if isinstance(self.node, ast.Call | ast.Constant):  # immutable, so it may be shared, unlike a list
            self.last = current, result
        return result


@dataclass(frozen=True, slots=True)
class ParsedPattern:
    """What templates have in common if their sources differ only in some literals.

    `free` contains the indexes of these literals with their prefix (`r`, `u` or an empty string).
    """

    free: tuple[tuple[int, str], ...]
    fields: tuple[tuple[str, bool, tuple[_Argument, ...] | str | None, Mapping[str, object]], ...]
    """For each field: its name, whether it has a description, its arguments (or the description of a plain field), and
    options for plugins, whose literals must be the same.
    """
    docstring: tuple[int, ...]
    shape: Shape
    strategy: Tree | None

    def make_template(self, literals: Sequence[str], source: str) -> Template:
        """Make a template for a source with these literals. Raises `ValueError` if the pattern does not apply."""
        values: list[Any] = list(literals)
        for place, prefix in self.free:
            values[place] = literal_value(literals[place], prefix)
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
    """Return the value of a constant, joining adjacent strings."""
    return values[places[0]] if len(places) == 1 else "".join([values[place] for place in places])


def _are_identical(some: Values, others: Values) -> bool:
    """Return whether the values are equal and have the same types. 1 is not 1.0."""
    return some == others and [type(one) for one in some] == [type(other) for other in others]


def _make_pattern(
    literals: Sequence[str], source: str, tree: ast.Module, declaration: Declaration, template: Template
) -> tuple[ParsedPattern, tuple[int, ...]]:
    """Make a pattern, and return it with the indexes of the literals that must be the same.

    Raises `ValueError` if this is not possible.
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
            _Argument(key, expression, scope, tuple(places.constants(expression)))
            for key, expression in by_name.items()
            if key in VERIFIED
        )
        free.update(place for argument in arguments for _, indexes in argument.constants for place in indexes)
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
    """Yield docstrings, and other statements of a single string or number."""
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
        """Yield the strings and numbers in an expression, with the indexes of their literals.

        Raises `ValueError` if the literals have other values.
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
        """Return the offset in characters for a position in a syntax tree, where columns count bytes."""
        return self._offsets[line - 1] + len(self._lines[line - 1].encode()[:column].decode())
