"""Makes cases from a benchmark's templates: the truth is stated, hidden, denied, corrected or omitted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from karenina_selftest.cases import Case
from karenina_template.question_template import template_of
from karenina_template.templates.bound_template import as_json
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_template.templates import BoundTemplate


FILLER: Final = (
    "Before the answer, some words on the background. The subject has been studied for a long time, by many groups. "
    "Their methods differ, and so do their reports. Most of them agree on the main points, though, and the details are "
    "easy to look up. "
)
ABSENT: Final = (
    "This is a subject on which much has been written. It has a long history, several schools, and a literature that "
    "grows from year to year. I will not commit myself to an answer here."
)


def say(value: object) -> str | None:
    """Return a value as it is said in a sentence, such as `yes` for True and `a, b` for a list. Returns None for empty
    values, and for those that are neither a text, a number, a date, a boolean nor a list of these.
    """
    if isinstance(value, Enum):
        value = value.value
    match value:
        case bool():
            return "yes" if value else "no"
        case str():
            return value.strip() or None
        case int() | float():
            return repr(value)
        case date():
            return value.isoformat()
        case list() | tuple() | set() | frozenset():
            parts = [say(item) for item in as_json(value)]
            return ", ".join(part for part in parts if part) if parts and all(parts) else None
        case _:
            text = as_json(value)
            return text if isinstance(text, str) and text else None


def labels(bound: BoundTemplate) -> dict[str, str]:
    """Return a label for each field that a judge fills in, which is its description or, without one, its name."""
    schema: Mapping[str, Any] = bound.judge_schema()["properties"]
    return {name: _label(name, str(schema[name].get("description") or "")) for name in bound.judge_fields}


def state(labels: Mapping[str, str], said: Mapping[str, str], prefix: str = "") -> str:
    """Return a line for each field with its label, `prefix`, and its value in words."""
    return "\n".join(f"{labels[name]}: {prefix}{value}" for name, value in said.items())


def _label(name: str, description: str) -> str:
    """Return a field's description without a final period or colon, or its name in words if it has none."""
    text = description.strip().rstrip(".:")
    return text if text else name.replace("_", " ")


Convert = Callable[[Decimal], Decimal]


def _multiply_by(factor: str) -> Convert:
    """Return a function that multiplies a value by `factor`."""
    return lambda value: value * Decimal(factor)


_UNITS: Final[Sequence[tuple[str, str, Convert]]] = (
    (r"degrees? celsius|°\s?c\b", "degrees Fahrenheit", lambda value: value * Decimal("1.8") + 32),
    (r"kilomet(er|re)s?|\bkm\b", "metres", _multiply_by("1000")),
    (r"centimet(er|re)s?|\bcm\b", "millimetres", _multiply_by("10")),
    (r"millimet(er|re)s?|\bmm\b", "micrometres", _multiply_by("1000")),
    (r"\bmet(er|re)s?\b", "centimetres", _multiply_by("100")),
    (r"kilograms?|\bkg\b", "grams", _multiply_by("1000")),
    (r"milligrams?|\bmg\b", "micrograms", _multiply_by("1000")),
    (r"\bgrams?\b", "milligrams", _multiply_by("1000")),
    (r"millilit(er|re)s?|\bml\b", "microlitres", _multiply_by("1000")),
    (r"\blit(er|re)s?\b", "millilitres", _multiply_by("1000")),
    (r"\bdays\b|number of days", "hours", _multiply_by("24")),
    (r"\bhours\b", "minutes", _multiply_by("60")),
    (r"\bminutes\b", "seconds", _multiply_by("60")),
    (r"\bweeks\b", "days", _multiply_by("7")),
    (r"per ?cent(age)?\b|%", "parts per thousand", _multiply_by("10")),
)


def in_another_unit(description: str, value: object) -> str | None:
    """Return a number in another unit than that in `description`, as in `77 degrees Fahrenheit`, or None if `value` is
    not a number, or if `description` has no known unit or several.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    text, units = description.casefold(), []
    for pattern, unit, convert in _UNITS:
        text, hits = re.subn(pattern, " ", text)
        if hits:
            units.append((unit, convert))
    if len(units) != 1:
        return None
    unit, convert = units[0]
    number = convert(Decimal(str(value))).normalize()
    return f"{number:f} {unit}"


FAMILY: Final = "own templates"
_CORRECTION: Final = "\n\nCorrection: the lines above are wrong. The right ones are:\n"
_CHOICE: Final = "Two answers are common.\nA)\n{}\nB)\n{}\n\nB is right, and A is wrong."


@dataclass(frozen=True, slots=True)
class OwnCases:
    """The cases made from a benchmark. `left_out` maps the IDs of questions without cases to the reasons."""

    cases: Sequence[Case]
    left_out: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Values:
    """The values of a template's fields in words: passing and failing values, and values in another unit.

    `booleans` is True if a passing value is a boolean.
    """

    true: dict[str, str] = field(default_factory=dict)
    false: dict[str, str] = field(default_factory=dict)
    converted: dict[str, str] = field(default_factory=dict)
    booleans: bool = False


class _NoCases(Exception):
    """Raised if no cases can be made from a template. The message contains the reason."""


def make_own_cases(questions: Iterable[Question], trust: Trust) -> OwnCases:
    """Return the cases made from the questions' templates, and why other questions were left out, by their ID. Code
    only runs if `trust` covers it.
    """
    cases: list[Case] = []
    left_out: dict[str, str] = {}
    for question in questions:
        try:
            cases += _make_cases(question, trust)
        except (_NoCases, TemplateError) as error:
            left_out[question.id] = str(error)
    return OwnCases(cases, left_out)


def _make_cases(question: Question, trust: Trust) -> list[Case]:
    """Return the cases made from a question. Raises `_NoCases` or `TemplateError` if none can be made."""
    template = template_of(question, trust)
    if template is None:
        raise _NoCases("the question has no template")
    bound = template.for_question(question.id)
    values = _values_of(bound)
    return [
        Case(f"own/{question.id}/{name}", f"{FAMILY}: {name}", question, text, passes, f"own/{question.id}")
        for name, passes, text in _responses(labels(bound), values)
    ]


def _values_of(bound: BoundTemplate) -> _Values:
    """Return passing and failing values in words, for every field that a judge fills in. Raises `_NoCases`, with the
    reason, if a field has no such values, or if the template needs no judge, has known values, needs a model to
    compare, has patterns, or gives its own values the wrong verdict.
    """
    if not bound.judge_fields:
        raise _NoCases("the template needs no judge")
    if bound.sources:
        raise _NoCases(
            f"the fields {', '.join(bound.sources)} are filled with known values, which example answers do not have"
        )
    if any(rule.primitive.needs_model for rule in bound.template.key.rules.values()):
        raise _NoCases("the template needs a model to compare values")
    names, values = labels(bound), _Values()
    true: dict[str, object] = {}
    false: dict[str, object] = {}
    rules = bound.template.key.rules
    for name in bound.judge_fields:
        rule = rules.get(name)
        if rule is None or rule.reads_trace or rule.truth is None:
            raise _NoCases(f"the field {name!r} is not compared with a ground truth")
        true[name], wrong = rule.primitive.accept(rule.truth), rule.primitive.mutate(rule.truth)
        if wrong is None:
            raise _NoCases(f"{type(rule.primitive).__name__} defines no wrong value for the field {name!r}")
        false[name] = wrong
        stated, denied = say(true[name]), say(wrong)
        if stated is None or denied is None:
            raise _NoCases(f"the value of the field {name!r} cannot be stated in a sentence")
        values.true[name], values.false[name] = stated, denied
        other = in_another_unit(names[name], true[name])
        if other is not None:
            values.converted[name] = other
    _require_verdict(bound, true, passes=True)
    _require_verdict(bound, false, passes=False)
    booleans = any(isinstance(value, bool) for value in true.values())
    return _Values(values.true, values.false, values.converted, booleans)


def _require_verdict(bound: BoundTemplate, values: Mapping[str, object], *, passes: bool) -> None:
    """Raise `_NoCases` if the template has patterns, does not give `values` the verdict `passes`, or cannot verify them
    at all.
    """
    try:
        answer = bound.bind(values)
        verdict, patterns = Comparison(answer).passed(), answer.verify_regex("").performed
    except Exception as error:
        raise _NoCases(f"the template cannot verify its own values: {type(error).__name__}: {error}") from error
    if patterns:
        raise _NoCases("the template has patterns for the whole response")
    if verdict is not passes:
        what = "does not pass its own ground truth" if passes else "passes wrong values"
        raise _NoCases(f"the template {what}; `karenina check` gives details")


def _responses(names: Mapping[str, str], values: _Values) -> Iterator[tuple[str, bool, str]]:
    """Yield the name of each case, whether it must pass, and its text, which states `values` under their labels in
    `names`.

    The truth is not denied if a value is a boolean, and only converted if it has a known unit.
    """
    truth, wrong = state(names, values.true), state(names, values.false)
    yield "plain", True, truth
    yield "wrong", False, wrong
    yield "in a long text", True, f"{FILLER}{FILLER}\n\n{truth}\n\n{FILLER}"
    yield "corrected to the truth", True, f"{wrong}{_CORRECTION}{truth}"
    yield "corrected away", False, f"{truth}{_CORRECTION}{wrong}"
    yield "chosen among others", True, _CHOICE.format(wrong, truth)
    yield "rejected among others", False, _CHOICE.format(truth, wrong)
    yield "absent", False, ABSENT
    if not values.booleans:  # denying "yes" would state "no"
        yield "denied", False, state(names, values.true, "certainly not ") + "\nWhat it is instead, I cannot say."
    if values.converted:
        yield "in another unit", True, state(names, {**values.true, **values.converted})
