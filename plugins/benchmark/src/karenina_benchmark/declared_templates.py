"""Loads declared templates. Those of a benchmark often differ only in texts and numbers, and are made from one form.

A form is the source of a template without these values. It is only kept if the source that it gives for the declaration
is the one that `make_template_source` writes, and if `load_template` has found a pattern for this source. Everything
else, and every error, comes from these two functions.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any, Final, NamedTuple, TypeAlias

from karenina_benchmark.template_declarations import (
    MAX_EXACT_FLOAT,
    WRITTEN_DATE,
    DeclarationError,
    make_template_source,
)
from karenina_template.templates import Template
from karenina_template.templates.source.cache import ParsedPattern, find_pattern
from karenina_template.templates.source.literals import literal_value, split_literals
from karenina_template.templates.source.loading import load_template
from karenina_toolkit.files.json_values import has_lone_surrogate

_FREE: Final = frozenset({"description", "ground_truth", "extraction_hint"})
"""The keys of a field whose value can differ between templates of the same form, like parameters of its primitive."""
_SIZE: Final = 256
_LONGEST: Final = 10_000
"""The maximum number of characters of a value that is not part of the form."""
_END: Final = object()
"""Ends a field and its primitive in the key of a form."""

_lock: Final = RLock()
_forms: Final[OrderedDict[tuple[object, ...], _Form | None]] = OrderedDict()
"""The forms by the rest of their declarations, without the values. None means that a declaration has no form."""

Value: TypeAlias = str | int | float


def declare_template(fields: Mapping[str, Any], strategy: Any = None) -> tuple[str, Template]:
    """Return the source of a declared template, and the template loaded from it. Nothing is executed. Raises
    `DeclarationError` for an invalid declaration, and `TemplateError` if its source cannot be loaded.
    """
    values: list[Value] = []
    rest = _split(fields, strategy, values)
    form = _find_form(rest) if rest is not None else None
    if form is not None:
        try:
            return form.fill(values)
        except (ValueError, TypeError, ArithmeticError):
            pass  # loading the source finds the error, if there is one
    source = make_template_source(fields, strategy)
    template = load_template(source)
    if rest is not None and form is None:
        _add_form(rest, fields, strategy, values, source)
    return source, template


def _split(fields: Mapping[str, Any], strategy: Any, values: list[Value]) -> tuple[object, ...] | None:
    """Return the declared `fields` and the `strategy` without their exchangeable values, as a tuple that equal
    declarations share. The values are appended to `values`. Returns None if a field is not a mapping, or if a value
    cannot be exchanged in the source.
    """
    rest: list[object] = []
    for name, declared in fields.items():
        if type(declared) is not dict:
            return None
        rest.append(name)
        for key, value in declared.items():
            rest.append(key)
            if key in _FREE:
                if not _take(value, rest, values):
                    return None
            elif key == "verify_with" and type(value) is dict:
                for parameter, given in value.items():
                    rest.append(parameter)
                    if parameter == "type":
                        rest.append(repr(given))
                    elif not _take(given, rest, values):
                        return None
                rest.append(_END)
            else:
                rest.append(repr(value))
        rest.append(_END)
    rest.append(repr(strategy))
    return tuple(rest)


def _take(value: object, rest: list[object], values: list[Value]) -> bool:
    """Add the free values in `value`, which may be a list, to `values`, and the rest to `rest`: the type of a free
    value, the length of a list, and None or a boolean itself. Returns False if a value cannot be exchanged in a source,
    such as a date, a negative number or a very long string.
    """
    if value is None or isinstance(value, bool):
        rest.append(repr(value))
    elif isinstance(value, list):
        rest.append(len(value))
        return all(_take(entry, rest, values) for entry in value)
    elif isinstance(value, str):
        if not value or len(value) > _LONGEST or WRITTEN_DATE.fullmatch(value) or has_lone_surrogate(value):
            return False  # a truth such as 2001-12-31 makes its field a date
        rest.append(str)
        values.append(value)
    elif isinstance(value, int | float):
        if not 0 <= value < MAX_EXACT_FLOAT or math.copysign(1, value) < 0:  # signs are not part of a literal
            return False
        rest.append(type(value))
        values.append(value)
    else:
        return False
    return True


class _Form(NamedTuple):
    """The source of a template without some of its values: the parts between them, and the other literals."""

    parts: Sequence[str]
    order: Sequence[int]
    """The index of each value in the order of the source."""
    literals: Sequence[object]
    places: Sequence[int]
    """The place of each value among the literals, in the order of the declaration."""
    pattern: ParsedPattern

    def fill(self, values: Sequence[Value]) -> tuple[str, Template]:
        """Return the source and the template with the given values. Raises `ValueError` if they do not fit."""
        source = self.write(values)
        literals = list(self.literals)
        for place, value in zip(self.places, values, strict=True):
            literals[place] = value
        return source, self.pattern.fill(literals, source)

    def write(self, values: Sequence[Value]) -> str:
        """Return the source with the given values, which are in the order of the declaration, as literals."""
        pieces = [self.parts[0]]
        for number, part in zip(self.order, self.parts[1:], strict=True):
            pieces += (repr(values[number]), part)
        return "".join(pieces)


def _find_form(rest: tuple[object, ...]) -> _Form | None:
    with _lock:
        form = _forms.get(rest)
        if form is not None:
            _forms.move_to_end(rest)
        return form


def _add_form(
    rest: tuple[object, ...], fields: Mapping[str, Any], strategy: Any, values: Sequence[Value], source: str
) -> None:
    """Store the form of a declaration with these fields, strategy and values, made from its `source`, under the key
    `rest`, or None if it has no form. The oldest form is removed if there are too many. Nothing is stored if the key
    exists, or for a source without a parsed pattern, which may get one later.
    """
    with _lock:
        if rest in _forms:
            return
        split = split_literals(source)
        pattern = find_pattern(split) if split is not None else None
        if pattern is None:
            return
        try:
            _forms[rest] = _make_form(pattern, fields, strategy, values, source)
        except (DeclarationError, ValueError):
            _forms[rest] = None
        if len(_forms) > _SIZE:
            _forms.popitem(last=False)


def _make_form(
    pattern: ParsedPattern, fields: Mapping[str, Any], strategy: Any, values: Sequence[Value], source: str
) -> _Form:
    """Return the form of a declaration, which makes its source and template with other values. Raises `ValueError` if
    the source is not the same around other values.
    """
    marks = [_mark(number, value) for number, value in enumerate(values)]
    waiting = iter(marks)
    marked = make_template_source({name: _with_marks(declared, waiting) for name, declared in fields.items()}, strategy)
    written = [repr(mark) for mark in marks]
    found = split_literals(marked)
    if found is None or any(found.literals.count(text) != 1 for text in written):
        raise ValueError("a value does not occur exactly once in the source")
    places = [found.literals.index(text) for text in written]
    order = sorted(range(len(values)), key=places.__getitem__)
    parts, end = [], 0
    for number in order:
        start = marked.index(written[number], end)
        parts.append(marked[end:start])
        end = start + len(written[number])
    free = dict(pattern.free)
    literals = [
        literal_value(literal, free[place]) if place in free and place not in places else literal
        for place, literal in enumerate(found.literals)
    ]
    form = _Form((*parts, marked[end:]), order, literals, places, pattern)
    if form.write(values) != source or not free.keys() >= set(places):
        raise ValueError("the source around a value depends on the value")
    return form


def _mark(number: int, value: Value) -> Value:
    """Return a value of the same type that occurs nowhere else."""
    if isinstance(value, str):
        return f"karenina:form:{number}:"
    return type(value)(7_000_000_019 + number) + (0.5 if isinstance(value, float) else 0)


def _with_marks(declared: Mapping[str, Any], marks: Iterable[Value]) -> dict[str, Any]:
    """Return a field's declaration with its free values replaced by `marks`, in the order of `_split`."""

    def marked(value: object) -> object:
        """Return the mark of a value, or the value itself if it is not free."""
        if isinstance(value, list):
            return [marked(entry) for entry in value]
        return value if value is None or isinstance(value, bool) else next(waiting)

    waiting = iter(marks)
    replaced: dict[str, Any] = {}
    for key, value in declared.items():
        if key in _FREE:
            replaced[key] = marked(value)
        elif key == "verify_with" and isinstance(value, dict):
            replaced[key] = {name: given if name == "type" else marked(given) for name, given in value.items()}
        else:
            replaced[key] = value
    return replaced
