"""Checks templates without a model.

Ground truths must pass, wrong values must fail, and judges must see neither.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from pydantic import ValidationError

from karenina_core.data.sections import KnownValue
from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.bound_template import as_json
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.normalize import normalize
from karenina_template.templates.primitives import (
    ContainsAll,
    ContainsAny,
    DateMatch,
    DateTolerance,
    NumberWithUnit,
    TraceContains,
)
from karenina_template.templates.primitives.date_parser import read_dates
from karenina_template.templates.primitives.latex import plain_text
from karenina_template.templates.primitives.quantity_parser import known_part, read_quantity
from karenina_template.templates.primitives.units import find_meanings
from karenina_template.templates.primitives.values import plain, text_of
from karenina_template.templates.shapes.open_fields import SHOW

if TYPE_CHECKING:
    from karenina_template.templates.bound_template import BoundTemplate
    from karenina_template.templates.field import FieldRule

Level = Literal["error", "warning", "unchecked"]

_VAGUE_WORDS: Final = frozenset(
    (
        *("a", "an", "the", "this", "that", "its", "your", "any", "some", "of", "for", "in", "to", "is"),
        *("answer", "value", "result", "response", "reply", "output", "field", "text", "string", "description", "data"),
        *("info", "information", "d", "x", "y", "todo", "tbd", "fixme", "placeholder"),
    )
)
_VERDICT: Final = re.compile(
    r"\b(answer|response|reply|model)\b[^.;]{0,40}\b(is|are|was|gives?|has|got)\b[^.;]{0,20}"
    r"\b(correct|right|accurate|wrong|incorrect)\b|\b(the|a) (correct|right) (answer|value|response)\b",
    re.IGNORECASE,
)
_COMMON: Final = frozenset(
    ("yes", "no", "true", "false", "none", "null", "unknown", "other", "high", "low", "positive", "negative")
)
_ORDINARY: Final = (
    "an inhibitor of the enzyme",
    "the Treaty of Ghent in 1814",
    "chronic kidney disease, in adults over 60",
    "it is not mentioned in the response",
    "about 37 degrees Celsius",
    "the author of the novel, Jane Austen",
    "a freshwater fish that lives in the Danube",
    "The first line of treatment is metformin",
)
_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")
"""Matches the words in a name in snake case or camel case."""
_CLASS: Final = "name of the class"
_NEARLY_EVERY: Final = 0.6
"""If this share of ordinary values contains a substring, finding the substring means nothing."""
_MIN_LETTERS: Final = 3
_MIN_DIGITS: Final = 3


class Flaw(NamedTuple):
    """Something found in a template: an error, a warning, or something that cannot be checked.

    `what` describes the problem, and `cure` says how to fix it. `field` is None if the flaw concerns the whole
    template. `part` is the part of the field's declaration, if known. Of the flaws of a benchmark with the same text in
    `once`, only the first is shown.
    """

    level: Level
    field: str | None
    what: str
    cure: str = ""
    part: str | None = None
    once: str = ""


def find_flaws(bound: BoundTemplate, question: str = "") -> Iterator[Flaw]:
    """Yield the flaws of a template. `question` is the question's text, which the judge also sees. This runs the
    template's code, which must be trusted. Exceptions raised by this code are reported as flaws or ignored.
    """
    yield from find_truth_flaws(bound)
    yield from _find_description_flaws(bound)
    yield from _find_unshown(bound)
    yield from _find_shown_truths(bound, question)


def find_truth_errors(bound: BoundTemplate) -> Iterator[Flaw]:
    """Yield only the errors among the flaws of the ground truths, which is faster than `find_truth_flaws`."""
    for flaw in _find_truth_flaws(bound, None):
        if flaw.level == "error":
            yield flaw


def find_truth_flaws(bound: BoundTemplate) -> Iterator[Flaw]:
    """Yield flaws for ground truths that fail, wrong values that pass, and fields that cannot be checked."""
    return _find_truth_flaws(bound, {})


def _find_truth_flaws(bound: BoundTemplate, changed: dict[str, object] | None) -> Iterator[Flaw]:
    """Yield the flaws in the ground truths. Add the wrong value that was tried for each field to `changed`; if it is
    None, no wrong values are tried, no types are checked, and warnings may be missing.
    """
    accepted: dict[str, object] = {}
    for name, rule in bound.template.key.rules.items():
        yield from _check_rule(name, rule, accepted, changed)
    if changed is not None:
        yield from _check_types(bound, accepted)
    if bound.answer_class.verify is not BaseAnswer.verify:
        yield from _check_verify(bound, accepted, changed or {})


def _check_rule(
    name: str, rule: FieldRule, accepted: dict[str, object], changed: dict[str, object] | None
) -> Iterator[Flaw]:
    """Yield the flaws of a rule, and add a right value to `accepted` and a wrong one to `changed`. If that is None, no
    wrong value is tried, and only errors are sure to be found. Otherwise, fields that read the raw response and
    primitives that need a model are reported as unchecked.
    """
    primitive = rule.primitive
    kind = type(primitive).__name__
    try:
        primitive.check_files(rule.truth)
    except ValueError as error:
        yield Flaw("error", name, f"the rule of field {name!r} cannot be used: {error}", part="verify_with")
        return
    if changed is not None:
        yield from _find_common_substrings(name, rule)
        yield from _find_two_dates(name, rule)
        yield from _find_two_units(name, rule)
    if rule.reads_trace or primitive.needs_model:
        if changed is None:
            return
        why = "reads the whole response" if rule.reads_trace else "needs an embedding model"
        yield Flaw("unchecked", name, f"the ground truth of field {name!r} cannot be checked because {kind} {why}")
        return
    try:
        if rule.truth is not None:
            accepted[name] = primitive.accept(rule.truth)
            if rule.passes(accepted[name], "") is not True:
                yield _failing_truth(name, rule)
        if changed is None:
            return
        wrong = primitive.mutate(rule.truth)
        if wrong is None:
            what = f"cannot check whether field {name!r} rejects wrong values because {kind} defines no wrong value"
            yield Flaw("unchecked", name, f"{what} for {_short_repr(rule.truth)}")
            return
        changed[name] = wrong
        if rule.passes(wrong, "") is True:
            what = (
                f"the field {name!r} accepts wrong values, such as {_short_repr(wrong)} instead of "
                f"{_short_repr(rule.truth)}"
            )
            yield Flaw("warning", name, what, f"make its {kind} stricter", "verify_with")
    except Exception as error:  # a primitive of a plugin may raise anything
        yield Flaw(
            "warning",
            name,
            f"{kind} raised an error for the ground truth of field {name!r}: {type(error).__name__}: {error}",
        )


def _find_common_substrings(name: str, rule: FieldRule) -> Iterator[Flaw]:
    """Yield a flaw for each substring for which the rule searches and that is a single character or in nearly every
    value, so that finding it proves nothing.
    """
    primitive = rule.primitive
    if isinstance(primitive, ContainsAny | ContainsAll):
        normalizers = primitive.normalize
        parts = {part: normalize(part, normalizers) for part in primitive.substrings}
        values = [normalize(value, normalizers) for value in _ORDINARY]
    elif isinstance(primitive, TraceContains):
        fold_case = str if primitive.case_sensitive else str.casefold
        parts, values = {primitive.substring: fold_case(primitive.substring)}, [fold_case(value) for value in _ORDINARY]
    else:
        return
    for part, written in parts.items():
        share = sum(written in value for value in values) / len(values)
        if (len(written) == 1 and written.isascii()) or share >= _NEARLY_EVERY:
            what = f"the substring {part!r} of field {name!r} occurs in nearly every value"
            yield Flaw(
                "warning",
                name,
                what,
                "use a longer substring, or match a whole word with a pattern (RegexMatch)",
                "verify_with",
            )


def _find_two_dates(name: str, rule: FieldRule) -> Iterator[Flaw]:
    """Yield a warning if the ground truth can be read as two dates and there is no format."""
    if not isinstance(rule.primitive, DateMatch | DateTolerance) or getattr(rule.primitive, "format", None) is not None:
        return
    readings = read_dates(rule.truth)
    if len(readings) > 1:
        what = f"the ground truth {_short_repr(rule.truth)} of field {name!r} can be read as two different dates"
        yield Flaw(
            "warning", name, what, f"write it as {readings[0].at.date()}, which is how it is read now", "ground_truth"
        )


def _find_two_units(name: str, rule: FieldRule) -> Iterator[Flaw]:
    """Yield a warning if the unit of a ground truth has several definitions, such as *gallon*."""
    primitive = rule.primitive
    if not isinstance(primitive, NumberWithUnit) and primitive.field_type != "quantity":
        return
    truth = read_quantity(plain_text(text_of(rule.truth) or ""))
    unit = "" if truth is None else known_part(truth.unit or getattr(primitive, "unit", None) or "")
    if meanings := find_meanings(unit):
        what = f"the unit {unit!r} of the ground truth {_short_repr(rule.truth)} of field {name!r} may mean {meanings}"
        cure = "in all ground truths, write the one that is meant, or the amount in a unit such as g, L or kJ"
        yield Flaw("warning", name, what, cure, "ground_truth", f"{meanings} of {name}")


def _failing_truth(name: str, rule: FieldRule) -> Flaw:
    """Return the flaw for a ground truth that does not pass its own rule: an error, or a warning if the primitive
    ignores ground truths.
    """
    kind = type(rule.primitive).__name__
    what = f"the ground truth {_short_repr(rule.truth)} of field {name!r} does not pass the field's own {kind}"
    try:
        rule.primitive.check_expected(None)
    except (ValueError, TypeError):
        return Flaw(
            "error", name, f"{what}, so no answer can pass", "correct the ground truth or the primitive", "ground_truth"
        )
    return Flaw(
        "warning",
        name,
        what,
        "correct the ground truth or the primitive; the ground truth itself is not compared",
        "ground_truth",
    )


def _check_types(bound: BoundTemplate, accepted: Mapping[str, object]) -> Iterator[Flaw]:
    """Yield a flaw for each ground truth in `accepted`, keyed by field, that a judge cannot return because of the
    field's type.
    """
    if not bound.judge_fields and not bound.template.has_code:
        return
    values = {name: value for name, value in accepted.items() if name in bound.judge_fields}
    try:
        bound.bind({**dict.fromkeys(bound.judge_fields), **values})
    except ValidationError as error:
        for problem in error.errors(include_url=False, include_input=False):
            name = str(problem["loc"][0]) if problem["loc"] else None
            what = (
                f"a judge cannot return the ground truth {_short_repr(values.get(name or ''))} of field "
                f"{name!r}: {problem['msg']}"
            )
            yield Flaw("warning", name, what, "correct the type or the ground truth", "ground_truth")
    except Exception:  # the code of a class may need all values
        return


def _check_verify(
    bound: BoundTemplate, accepted: Mapping[str, object], changed: Mapping[str, object]
) -> Iterator[Flaw]:
    """Yield a flaw if the class's own `verify` rejects the correct values in `accepted` (or its `correct`, if a field
    has none there) or accepts the wrong values in `changed`, both by field, and one if this cannot be checked because a
    field has no such value.
    """
    fields = {*bound.judge_fields, *bound.sources}
    truth = {name: value for name, value in accepted.items() if name in fields}
    if truth.keys() < fields:
        correct = bound.expected()
        truth = {name: correct[name] for name in fields} if correct.keys() >= fields else {}
    if not truth:
        yield Flaw(
            "unchecked",
            None,
            "cannot check whether verify() accepts the ground truth because not all fields have a ground truth",
        )
        return
    if _verdict(bound, truth) is False:
        yield Flaw("error", None, "verify() does not accept the ground truth", "correct verify() or the ground truth")
    wrong = {name: value for name, value in changed.items() if name in fields}
    if wrong.keys() < fields:
        yield Flaw(
            "unchecked",
            None,
            "cannot check whether verify() rejects wrong values because not all fields have a wrong value to try",
        )
    elif _verdict(bound, wrong) is True:
        yield Flaw(
            "warning", None, "verify() accepts an answer in which every field is wrong", "make verify() stricter"
        )


def _verdict(bound: BoundTemplate, values: Mapping[str, object]) -> bool | None:
    """Return the verdict of a class's own `verify` for an answer with `values`, including known values. Returns None if
    the verdict is undecided, or if `verify` raises an exception, which is reported elsewhere.
    """
    try:
        known = {source: KnownValue(value=as_json(values[name])) for name, source in bound.sources.items()}
        return Comparison(bound.bind(values, "", known)).passed()
    except Exception:
        return None


def _find_description_flaws(bound: BoundTemplate) -> Iterator[Flaw]:
    """Yield a flaw for each field whose description is missing, says nothing, asks for a verdict, or equals that of
    another field that reads the same turn of a conversation.
    """
    schema = bound.judge_schema()
    seen: dict[tuple[str, str], str] = {}
    options = bound.options()
    for name, part in schema["properties"].items():
        text = str(part.get("description") or "").strip()
        words = re.findall(r"\w+", text.casefold())
        if not text:
            yield Flaw("warning", name, f"the field {name!r} has no description", _SAY_WHAT, "description")
        elif not set(words) - _VAGUE_WORDS:
            what = f"the description of field {name!r} is not informative: {text!r}"
            yield Flaw("warning", name, what, _SAY_WHAT, "description")
        elif _VERDICT.search(text):
            what = (
                f"the description of field {name!r} asks for a verdict, but a judge does not know the ground "
                f"truth: {text[:80]!r}"
            )
            yield Flaw("warning", name, what, "ask for what the response says", "description")
        else:
            turn = str(options.get(name, {}).get("turn"))
            first = seen.setdefault((" ".join(words), turn), name)
            if first != name:
                what = f"the fields {first!r} and {name!r} have the same description"
                yield Flaw("warning", name, what, "say how they differ", "description")


def _find_unshown(bound: BoundTemplate) -> Iterator[Flaw]:
    """Yield a flaw for each constraint that is neither shown nor applied because it could reveal the ground truth."""
    for name, constraints in bound.template.shape.unshown.items():
        for constraint in constraints:
            what = f"the field {name!r} has {constraint}, which is neither shown to the judge nor applied to its value"
            if constraint.startswith("a single"):
                yield Flaw("warning", name, what, "add the other values", "type")
            else:
                how = (
                    "remove it or, if it does not reveal the ground truth, show it with "
                    f"json_schema_extra={{{SHOW!r}: True}}"
                )
                yield Flaw("warning", name, what, how)


_SAY_WHAT: Final = "describe what the judge should extract from the response"


def _find_shown_truths(bound: BoundTemplate, question: str) -> Iterator[Flaw]:
    """Yield a flaw for each string shown to the judge that contains a ground truth, unless the question does, too, or
    the string also contains other choices of the field.
    """
    schema = bound.judge_schema()
    parts = schema["properties"]
    shown = [(name, *pair) for name, part in parts.items() for pair in _shown_texts(name, part, schema, set())]
    shown += [(name, "extraction_hint", text) for name, text in bound.hints().items()]
    for owner, rule in bound.template.key.rules.items():
        if not rule.is_judged:
            continue
        choices = [text for choice in _choices(parts.get(owner, {}), schema) for text in _texts_of(choice)]
        for truth in _texts_of(rule.truth):
            if _contains(question, truth):
                continue
            for name, part, text in shown:
                if part.startswith("name") and not part.startswith(_CLASS) and truth in choices:
                    continue
                contains = _contains_in_name if part.startswith("name") else _contains
                others = [choice for choice in choices if choice != truth and contains(text, choice)]
                if contains(text, truth) and not others:
                    of = "" if owner == name else f" of {owner!r}"
                    what = (
                        f"the {part} of field {name!r} contains the ground truth{of}, {truth!r}, which the judge "
                        "would see"
                    )
                    yield Flaw("warning", name, what, "remove the ground truth", part)


def find_truths(bound: BoundTemplate, text: str, besides: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield the field and the text of each ground truth in `text`, unless one of the texts in `besides` contains it as
    well. Ground truths that are too short or too common to be recognized are skipped, and so are fields that no judge
    fills or that have a list of choices.
    """
    schema = bound.judge_schema()
    others = list(besides)
    for name, rule in bound.template.key.rules.items():
        if rule.is_judged and not _choices(schema["properties"].get(name, {}), schema):
            for truth in _texts_of(rule.truth):
                if _contains(text, truth) and not any(_contains(other, truth) for other in others):
                    yield name, truth


def find_said_truths(bound: BoundTemplate, question: str, said: Mapping[str, str]) -> Iterator[Flaw]:
    """Yield a flaw for each ground truth in the user's later messages, unless the question contains it, too. `said`
    maps a description of each message to its text. Ground truths are recognized in the same way as in `find_truths`.
    """
    for place, text in said.items():
        for owner, truth in find_truths(bound, text, besides=[question]):
            what = f"{place} contains the ground truth of field {owner!r}, {truth!r}, which the model would see"
            yield Flaw("warning", None, what, "remove the ground truth")


def _shown_texts(
    name: str, part: Mapping[str, Any], schema: Mapping[str, Any], seen: set[str]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a kind and a text for what a judge sees of a field: descriptions, names of fields and classes, and
    constraints that are shown. Definitions in `seen` are skipped, and all others are added to it.

    Constraints are those that the author chose to show. Anything that a class's code adds to the schema is included.
    """
    yield "description", str(part.get("description") or "")
    yield "name", name
    for inner in _parts_of(part):
        yield from (("bound", str(inner[key])) for key in _BOUNDS if key in inner and not _is_round(inner[key]))
        yield from ((key, str(inner[key])) for key in ("pattern", "format") if key in inner)
        if "not" in inner:
            yield "exclusion", json.dumps(inner["not"], ensure_ascii=False)
        options = [
            option for key in ("anyOf", "oneOf") for option in inner.get(key, ()) if option.get("type") != "null"
        ]
        literals = [option["const"] for option in options if "const" in option]
        if len(literals) == 1 < len(options):
            yield "literal", str(literals[0])
        for nested, nested_part in inner.get("properties", {}).items():
            for place, text in _shown_texts(nested, nested_part, schema, seen):
                yield f"{place} of {nested!r} in a model", text
        referred = str(inner.get("$ref", "")).rpartition("/")[2]
        if referred and referred not in seen:
            seen.add(referred)
            yield f"{_CLASS} {referred!r}", referred
            yield from list(_shown_texts(referred, schema["$defs"][referred], schema, seen))[2:]


def _parts_of(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield `part` of a schema, and the parts within it that describe the same field."""
    if isinstance(part, Mapping):
        yield part
        for key in ("anyOf", "oneOf", "allOf", "prefixItems", "items", "additionalProperties", "propertyNames"):
            inner = part.get(key, ())
            for nested in inner if isinstance(inner, list) else (inner,):
                yield from _parts_of(nested)


def _is_round(number: object) -> bool:
    """Return whether a bound is a power of ten, such as the 100 in a percentage."""
    return str(number).rstrip("0").rstrip(".") == "1"


def _choices(part: Mapping[str, Any], schema: Mapping[str, Any]) -> list[object]:
    """Return the values that a field's schema allows, without null. The list is empty if the schema does not list
    values or allows several types.
    """
    options = [alternative for alternative in part.get("anyOf", [part]) if alternative.get("type") != "null"]
    if len(options) != 1:
        return []
    (option,) = options
    name = str(option.get("$ref", "")).rpartition("/")[2]
    option = schema.get("$defs", {}).get(name, option) if name else option
    values = [option["const"]] if "const" in option else option.get("enum", [])
    return [value for value in values if value is not None]


def _texts_of(truth: object) -> list[str]:
    """Return the strings, numbers and dates in a ground truth, as texts, that are long and rare enough to be
    recognized.
    """
    truth = plain(truth)
    match truth:
        case bool() | None:
            return []
        case str():
            text = truth.strip()
            return [text] if len(text) >= _MIN_LETTERS and text.casefold() not in _COMMON else []
        case int() | float() | Decimal():
            text = str(truth)
            return [text] if sum(map(str.isdigit, text)) >= _MIN_DIGITS else []
        case date():
            return [truth.isoformat()]
        case list() | tuple() | set() | frozenset():
            return [text for item in truth for text in _texts_of(item)]
        case dict():
            return [text for item in truth.values() for text in _texts_of(item)]
        case _:
            return []


def _contains(text: str, part: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(part)}(?!\w)", text, re.IGNORECASE) is not None


def _contains_in_name(name: str, part: str) -> bool:
    """Return whether `part` is one or several whole words of a name, such as "BCL2" in `is_bcl2` and `Bcl2Gene`. A
    `part` with fewer than three letters or digits never is.
    """
    words = [word.casefold() for word in _WORDS.findall(name)]
    letters = "".join(filter(str.isalnum, part)).casefold()
    if len(letters) < _MIN_LETTERS:
        return False
    return any(
        "".join(words[start:end]) == letters for start in range(len(words)) for end in range(start + 1, len(words) + 1)
    )


def _short_repr(value: object) -> str:
    text = repr(plain(value))
    return text if len(text) <= 80 else f"{text[:77]}..."
