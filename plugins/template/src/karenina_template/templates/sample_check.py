"""Tests a template's code before a run, with samples generated from its schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.comparison import Comparison
from karenina_template.templates.errors import InvalidAnswer, TemplateError

if TYPE_CHECKING:
    from karenina_template.templates.bound_template import BoundTemplate

_VERIFY: Final = "verify()"
Json = Mapping[str, Any]
_TEXTS: Final = ("text", "2", "2000-01-02", "BCL2", "")
_NUMBERS: Final = (1, 0, 2000, 37, -1)
_LENGTHS: Final = (1, 2, 3, 0, 1)
_FORMATS: Final = {
    "date": "2000-01-0{n}",
    "date-time": "2000-01-0{n}T00:00:00",
    "time": "00:00:0{n}",
    "duration": "PT{n}H",
    "uuid": "00000000-0000-4000-8000-00000000000{n}",
}
_DEEPEST: Final = 12


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error raised by the template's code for a sample, with the answer if it could be created."""

    step: str
    error: Exception
    answer: BaseAnswer | None

    def likeness(self) -> tuple[str, type[Exception], str]:
        """Return a key made of step, error type and message, which is the same for failures with the same cause."""
        return self.step, type(self.error), str(self.error)


def check_samples(bound: BoundTemplate) -> str | None:
    """Run the template's code on sample answers, and return the error of `verify()` if it raises the same one for every
    sample, or None. Raises `TemplateError` if creating every answer, or `self.regex`, fails for the same reason, or if
    `verify()` never returns a verdict. Errors that may be caused by the samples are ignored.

    Samples have the types that the judge fills in. The ground truth is tried, too, if `self.correct` has a value for
    each field.
    """
    failures: list[_Failure] = []
    truth: dict[str, Any] | None = None
    for values in make_samples(bound.judge_schema()):
        answer, failure = _try_values(bound, values)
        if answer is not None:
            truth = truth or _truth_of(bound, answer)
        if failure is not None:
            failures.append(failure)
        elif answer is not None:
            return None
    if truth is not None:
        answer, failure = _try_values(bound, truth)
        if failure is None:
            return None
        failures.append(failure)
    if len({failure.likeness() for failure in failures}) != 1:
        return None
    failure = failures[-1]
    if not _is_mistake(failure, bound, knows_truth=truth is not None):
        return None
    shown = str(failure.error) if isinstance(failure.error, TemplateError) else _described(failure.error)
    problem = f"{failure.step} fails for every answer{', including the ground truth' * bool(truth)}: {shown}"
    if failure.step != _VERIFY or isinstance(failure.error, InvalidAnswer):
        raise TemplateError(problem)
    return problem


def _try_values(bound: BoundTemplate, values: Mapping[str, Any]) -> tuple[BaseAnswer | None, _Failure | None]:
    """Create an answer with `values`, and verify its patterns and values. Return the answer, or None if it could not be
    created, and the error that the template's code raised, or None. If the values are invalid, both are None.
    """
    try:
        answer = bound.bind(values)
    except ValidationError:
        return None, None
    except Exception as error:
        return None, _Failure("the code that creates an answer", error, None)
    try:
        answer.verify_regex("")
    except Exception as error:
        return answer, _Failure("self.regex", error, answer)
    try:
        Comparison(answer).passed()
    except Exception as error:
        return answer, _Failure(_VERIFY, error, answer)
    return answer, None


def _truth_of(bound: BoundTemplate, answer: BaseAnswer) -> dict[str, Any] | None:
    """Return the values of a correct answer, or None if `correct` lacks a field that the judge fills."""
    correct = answer.correct
    if not isinstance(correct, Mapping) or not correct.keys() >= set(bound.judge_fields):
        return None
    return {name: correct[name] for name in bound.judge_fields}


def _is_mistake(failure: _Failure, bound: BoundTemplate, *, knows_truth: bool) -> bool:
    """Return whether the failure is certainly a mistake in the template and not caused by the samples. `knows_truth`
    states whether the ground truth was tried, too.
    """
    error, answer = failure.error, failure.answer
    if _is_of_none(error):
        return answer is not None and answer.correct is None and "correct" in set(_names_used(type(answer)))
    if knows_truth or failure.step == "self.regex":
        return True
    if is_open(bound.judge_schema()):
        return False
    if isinstance(error, KeyError):
        correct = {} if answer is None else answer.correct
        return isinstance(correct, Mapping) and not any(key in correct for key in error.args)
    if isinstance(error, NameError):
        return not isinstance(error, UnboundLocalError)
    return isinstance(error, AttributeError | TypeError | ImportError | NotImplementedError | TemplateError)


def _is_of_none(error: Exception) -> bool:
    """Return whether the error is caused by a None value, such as a failed search or a missing ground truth."""
    if isinstance(error, AttributeError):
        return error.obj is None
    return isinstance(error, TypeError) and "NoneType" in str(error)


def _names_used(answer: type[BaseAnswer]) -> Iterator[str]:
    """Yield the global names and attributes that the class's own methods use."""
    for cls in answer.__mro__:
        if cls is BaseAnswer:
            return
        for value in vars(cls).values():
            yield from getattr(getattr(value, "__code__", None), "co_names", ())


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def make_samples(schema: Json) -> Iterator[dict[str, Any]]:
    """Yield sample values for all fields of a judge's schema. They may violate its constraints."""
    for turn in range(len(_TEXTS)):
        yield {name: _value(part, schema, turn, 0) for name, part in schema["properties"].items()}


def is_open(schema: Json) -> bool:
    """Return whether `schema` allows arbitrary keys or values, which the samples do not cover."""
    parts = [*schema["properties"].values(), *schema.get("$defs", {}).values()]
    return any(_is_open(part, schema) for part in parts)


def _is_open(part: Json, root: Json) -> bool:
    """Return whether part of a schema allows arbitrary keys or values, so that samples for it may be unlike any
    answer. Schemas to which its alternatives or items refer are not followed: `is_open` checks each definition itself.
    """
    part = _resolved(part, root)
    if "enum" in part or "const" in part:
        return False
    inner = [*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ()), *part.get("prefixItems", ())]
    if not inner and "type" not in part and "$ref" not in part:
        return True
    if part.get("type") == "object" and part.get("additionalProperties", True) is not False:
        return True
    return any(_is_open(option, root) for option in [*inner, *_items(part)] if "$ref" not in option)


def _items(part: Json) -> list[Json]:
    """Return a list with the schema of an array's items, or an empty list if it has none."""
    items = part.get("items")
    return [items] if isinstance(items, Mapping) else []


def _value(part: Json, root: Json, turn: int, depth: int) -> Any:
    """Return a sample value for part of a schema, depending on `turn`. Returns None if the part is nested too deeply,
    or has no known type.
    """
    part = _resolved(part, root)
    if depth > _DEEPEST:
        return None
    if "const" in part:
        return part["const"]
    if "enum" in part:
        return part["enum"][turn % len(part["enum"])]
    for key in ("anyOf", "oneOf", "allOf"):
        options = [option for option in part.get(key, ()) if option.get("type") != "null"]
        if options:
            return _value(options[turn % len(options)], root, turn, depth + 1)
    match part.get("type"):
        case "object":
            return {name: _value(inner, root, turn, depth + 1) for name, inner in part.get("properties", {}).items()}
        case "array":
            length = max(part.get("minItems", 0), _LENGTHS[turn])
            kinds = part.get("prefixItems") or [part.get("items", {})] * length
            return [_value(kind, root, turn + place, depth + 1) for place, kind in enumerate(kinds)]
        case "boolean":
            return turn % 2 == 0
        case "integer" | "number":
            return min(max(_NUMBERS[turn % len(_NUMBERS)], part.get("minimum", -1)), part.get("maximum", 2000))
        case "string":
            form = _FORMATS.get(part.get("format", ""))
            return form.format(n=turn % 9 + 1) if form else _TEXTS[turn % len(_TEXTS)]
        case _:
            return None


def _resolved(part: Json, root: Json) -> Json:
    """Return the definition that part of a schema refers to, or the part itself."""
    name = str(part.get("$ref", "")).rpartition("/")[2]
    return root.get("$defs", {}).get(name, {}) if name else part
