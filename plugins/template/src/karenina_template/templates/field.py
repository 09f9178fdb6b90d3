"""Declares template fields with their ground truth and primitive."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from threading import RLock
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic import Field, JsonValue, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from karenina_core.catalog import read_catalog
from karenina_core.errors import type_and_message
from karenina_core.namespaces import flatten, is_owned
from karenina_core.text import did_you_mean
from karenina_template.templates.errors import InvalidAnswer, TemplateError
from karenina_template.templates.primitives import DateMatch, DateRange, DateTolerance, Primitive, Undecided

CLASS_BUILD_LOCK: Final = RLock()
"""The lock for parsing templates and building pydantic classes.

CPython 3.11 counts the depth of syntax trees for all threads together, so parsing in two threads at once sometimes
fails with "AST constructor recursion depth mismatch". Pydantic may parse annotations while it builds a class.
"""

VERIFICATION: Final = "__verification__"
"""The key in `json_schema_extra` that holds a field's `FieldRule`. It is removed from schemas."""


VERIFIED: Final = ("description", "ground_truth", "verify_with", "weight", "extraction_hint", "source")
"""The parameters that `VerifiedField` handles itself, in order."""

TURN_OPTIONS: Final = ("turn", "missing_turn")
"""The options of fields that read one turn of a conversation."""

FIELD_OPTIONS: Final = tuple(
    name
    for name, parameter in inspect.signature(Field).parameters.items()
    if name != "description" and parameter.kind is not inspect.Parameter.VAR_KEYWORD
)
"""Parameters of pydantic's `Field` that `VerifiedField` passes on."""

_DATES: Final = (DateMatch, DateRange, DateTolerance)


_SAMPLES: Final[Mapping[str, object]] = {
    "str": "text",
    "int": 7,
    "float": 1.5,
    "bool": True,
    "list[str]": ["text"],
    "list[int]": [7],
    "list[float]": [1.5],
}
"""A sample value for each type that known values may have."""
_PLAIN_TYPES: Final = frozenset({str, int, float, bool, list[str], list[int], list[float], list[bool]})


class _Unset:
    """The type of `UNSET`, which stands for arguments that were not passed."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()


NO_OPTIONS: Final[Mapping[str, object]] = {}


@dataclass(slots=True)
class FieldRule:
    """The rule for verifying a field.

    It consists of the `primitive`, the ground `truth`, the `weight` in granular scores, and a `hint` for judges.
    `options` contains the plugin options (`Stage.field_settings`), keyed by their full names. `source` is the name of
    the known value that fills the field, or None.
    """

    primitive: Primitive
    truth: object
    weight: float = 1.0
    hint: str | None = None
    options: Mapping[str, object] = field(default_factory=dict)
    source: str | None = None

    @property
    def is_judged(self) -> bool:
        """Whether a judge fills the field, which is not the case if it reads the raw response or has a source."""
        return self.source is None and not self.reads_trace

    @property
    def reads_trace(self) -> bool:
        """Whether the field is verified from the raw response, without a judge."""
        return self.primitive.reads_trace

    @property
    def grades(self) -> bool:
        """Whether the primitive gives partial credit."""
        return not self.reads_trace and type(self.primitive).score is not Primitive.score

    def passes(self, value: object, response: str) -> bool | Undecided:
        """Return whether `value` passes or, if the field reads the raw response, `response`; a ground truth of False
        then reverses the result. Raises `InvalidAnswer` if the primitive raises an exception, or returns anything but
        True, False or `Undecided`.
        """
        primitive, kind = self.primitive, type(self.primitive)
        try:
            answer: object = (
                primitive.check_trace(response)
                if self.reads_trace
                else primitive.check_extracted(value, self.truth, response)
            )
        except Exception as error:
            problem = f"the primitive {kind.__name__} in {kind.__module__} failed: {type_and_message(error)}"
            raise InvalidAnswer(problem) from error
        if isinstance(answer, Undecided):
            return answer
        if not isinstance(answer, bool):
            raise InvalidAnswer(
                f"the primitive {kind.__name__} in {kind.__module__} returned {answer!r:.200} "
                f"({type(answer).__name__}); {'check_trace' if self.reads_trace else 'check'} must return True, "
                "False or Undecided(why)"
            )
        return answer == bool(self.truth) if self.reads_trace else answer

    def credit(self, result: bool | Undecided | None, value: object) -> float | None:
        """Return the credit for `value` from 0 to 1, or None if its `result` is undecided. If the primitive does not
        give partial credit, this is 1 for a pass and 0 for a failure.
        """
        if result is None or isinstance(result, Undecided):
            return None
        return self.primitive.score(value, self.truth) if self.grades else float(result)

    def with_coerced_truth(self, coercer: TruthCoercer, name: str) -> FieldRule:
        """Return the rule with its ground truth converted to the field's type. Rules without a ground truth, or for the
        raw response, are returned unchanged. Raises `TemplateError` if the ground truth cannot be converted.
        """
        if self.reads_trace or self.truth is None:
            return self
        truth = coercer.coerce(name, self.truth, self.primitive)
        return self if truth is self.truth else replace(self, truth=truth)


def is_option(name: str) -> bool:
    """Return whether a parameter of `VerifiedField` is a plugin option or a mapping of plugin options."""
    return name not in FIELD_OPTIONS and is_owned(name, "template_fields")


def make_rule(
    ground_truth: object,
    verify_with: object,
    weight: object = 1.0,
    extraction_hint: object = None,
    options: Mapping[str, object] = NO_OPTIONS,
    source: object = None,
) -> FieldRule:
    """Return the rule for a field. `ground_truth` and `verify_with` are `UNSET` if they were not given; if the
    primitive reads the raw response, the ground truth defaults to True. `source` names the known value that fills the
    field. Raises `TemplateError` if an argument is invalid.
    """
    if not isinstance(verify_with, Primitive):
        shown = "but is missing" if verify_with is UNSET else f"not {verify_with!r:.200}"
        raise TemplateError(f"verify_with must be a primitive, such as ExactMatch(), {shown}")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not (math.isfinite(weight) and weight >= 0):
        raise TemplateError(f"weight must be a finite number of at least 0, not {weight!r}")
    if extraction_hint is not None and not isinstance(extraction_hint, str):
        raise TemplateError(f"extraction_hint must be a string, not {extraction_hint!r:.200}")
    if source is not None and (not isinstance(source, str) or not source.strip()):
        raise TemplateError(f"source must be the name of a known value, such as 'trace.steps', not {source!r:.200}")
    if source is not None and verify_with.reads_trace:
        kind = type(verify_with).__name__
        raise TemplateError(
            f"{kind} reads the response, so the field cannot have a source; use another primitive, or remove source"
        )
    if source is not None and extraction_hint:
        raise TemplateError(
            "extraction_hint has no effect on a field with a source, because the judge does not fill it; remove "
            "extraction_hint"
        )
    if source is not None and (of_turn := [name for name in TURN_OPTIONS if name in options]):
        raise TemplateError(
            f"{of_turn[0]} has no effect on a field that {source} fills, because a known value describes all turns of "
            f"an answer; remove {of_turn[0]}, or replace the source with a description for the judge"
        )
    truth = None if ground_truth is UNSET else ground_truth
    try:
        verify_with.check_expected(truth)
    except (ValueError, TypeError) as error:
        missing = "; ground_truth is missing" if ground_truth is UNSET else ""
        raise TemplateError(f"ground_truth is invalid: {error}{missing}") from error
    if verify_with.reads_trace and truth is None:
        truth = True
    return FieldRule(verify_with, truth, float(weight), extraction_hint or None, _read_options(options), source)


def _read_options(options: Mapping[str, object]) -> Mapping[str, object]:
    """Return the plugin options, keyed by full name such as `my_package.words`. Raises `TemplateError` if a value is
    not JSON.
    """
    if not options:
        return NO_OPTIONS
    try:
        return TypeAdapter(dict[str, JsonValue]).validate_python(flatten(options, (*VERIFIED, *FIELD_OPTIONS)))
    except ValueError as error:
        raise TemplateError(f"plugin options must be JSON values: {error}") from error


def VerifiedField(  # noqa: N802 - used like pydantic's Field
    description: str = "",
    ground_truth: object = UNSET,
    verify_with: Primitive | _Unset = UNSET,
    weight: float = 1.0,
    extraction_hint: str | None = None,
    source: str | None = None,
    **options: Any,
) -> Any:
    """Declare a field of a `BaseAnswer` that is compared with a ground truth. Raises `TemplateError` if an argument is
    unknown or invalid, or the ground truth is invalid for the primitive; whether it fits the annotation is checked when
    the class is built.

    - `description`, `extraction_hint`: shown to the judge, in addition to the field's name and annotation.
    - `ground_truth`: the ground truth. It can be omitted if the primitive does not need one (a range, a pattern). It
      defaults to True if the primitive reads the raw response, in which case a judge does not fill the field.
    - `verify_with`: the primitive that compares the field with the ground truth.
    - `weight`: a finite number of at least 0, which is only used in granular scores.
    - `source`: the name of the known value that fills the field, such as `trace.steps`. A judge does not fill such a
      field, so it needs no description.
    - `options`: parameters of pydantic's `Field`, such as `default`, `alias` and `min_length`, and plugin options, as a
      mapping under the plugin's package: `my_package={"words": 3}`. Constraints that can reveal the ground truth, such
      as a pattern, are neither shown to a judge nor applied to its value, unless `json_schema_extra` contains
      `{"show_constraints": True}`. A default only applies to answers that you create yourself. If a judge omits a
      field, it is None.
    """
    owned = {name: options.pop(name) for name in list(options) if is_option(name)}
    for name in options:
        if name not in FIELD_OPTIONS:
            raise TemplateError(f"VerifiedField has no parameter {name!r}{describe_parameter(name)}")
    rule = make_rule(ground_truth, verify_with, weight, extraction_hint, owned, source)
    stored = {
        "ground_truth": rule.truth,
        "verify_with": rule.primitive,
        "weight": rule.weight,
        "extraction_hint": rule.hint,
        "options": dict(rule.options),
        "source": rule.source,
    }
    extra = options.pop("json_schema_extra", None) or {}
    if not isinstance(extra, Mapping):
        raise TemplateError("json_schema_extra of a VerifiedField must be a mapping, not a function")
    if not rule.is_judged and "default_factory" not in options:
        options.setdefault("default", None)
    return Field(description=description or None, json_schema_extra={**extra, VERIFICATION: stored}, **options)


def describe_parameter(name: str) -> str:
    """Return a hint for an error message about `name`, an unknown parameter of `VerifiedField`."""
    near = did_you_mean(name, (*VERIFIED, *FIELD_OPTIONS, *read_catalog()["template_fields"]), "")
    return near or "; if it is the package name of a plugin, install that plugin"


def is_verified(info: FieldInfo) -> bool:
    """Return whether the field was declared with `VerifiedField`."""
    return isinstance(info.json_schema_extra, Mapping) and VERIFICATION in info.json_schema_extra


def rule_of(info: FieldInfo) -> FieldRule | None:
    """Return the rule of a field declared with `VerifiedField`, or None for other fields. Raises `TemplateError` if the
    rule is invalid.
    """
    extra: object = info.json_schema_extra
    stored = extra.get(VERIFICATION) if isinstance(extra, Mapping) else None
    if not isinstance(stored, Mapping):
        return None
    return make_rule(
        stored["ground_truth"],
        stored["verify_with"],
        stored["weight"],
        stored["extraction_hint"],
        stored["options"],
        stored["source"],
    )


class TruthCoercer:
    """Converts ground truths to the type of their field, and rejects those that no answer could match.

    One instance serves all templates with the same shape. `adapters` maps fields to type adapters. Missing adapters are
    built on first use.
    """

    def __init__(self, fields: Mapping[str, FieldInfo], adapters: Mapping[str, TypeAdapter[Any]] | None = None) -> None:
        self._fields = dict(fields)
        self._adapters: dict[str, TypeAdapter[Any] | None] = dict(adapters or {})
        self._kinds = {name: alternatives(info.annotation) for name, info in fields.items()}

    def coerce(self, name: str, truth: object, primitive: Primitive) -> object:
        """Return `truth` converted to the type of the field `name`, such as an enum's value to its member. Numbers for
        numeric fields, sets for list fields, and what the primitive reads from text, such as dates, are returned
        unchanged. Raises `TemplateError` if no answer could match the truth.
        """
        info = self._fields[name]
        kinds = self._kinds[name]
        if not info.metadata and type(truth) in kinds and type(truth) in (str, int, float, bool):
            return truth
        if isinstance(truth, int | float | Decimal) and not isinstance(truth, bool) and kinds & {int, float, Decimal}:
            return truth
        if isinstance(truth, str) and isinstance(primitive, _DATES):
            return truth  # the primitive knows the format, the annotation does not
        adapter = self._adapter(name, info)
        if adapter is None:
            return truth
        try:
            value: object = adapter.validate_python(truth)
        except ValidationError as error:
            if str in kinds and isinstance(truth, date | int | float | Decimal) and _reads(primitive, truth):
                return truth
            first = error.errors(include_url=False, include_input=False)[0]
            raise TemplateError(
                f"the ground truth {truth!r:.200} of field {name!r} does not match the field annotation: {first['msg']}"
            ) from error
        if isinstance(truth, bool) and not isinstance(value, bool) and value == truth and type(value) in (int, float):
            raise TemplateError(
                f"the ground truth {truth!r} of field {name!r} is a boolean, but the field is annotated as a number"
            )
        # a set that is converted to a list has a different order in every process
        return truth if isinstance(truth, set | frozenset) and isinstance(value, list | tuple) else value

    def convert(self, name: str, value: object) -> object:
        """Convert a known value to the type of the field `name`, or return it unchanged if it does not fit. A boolean
        is never converted to a number, and neither is a text in a list.
        """
        adapter = self._adapter(name, self._fields[name])
        if adapter is None or isinstance(value, bool):
            return value
        try:
            converted = adapter.validate_python(value)
        except ValidationError:
            return value
        if not isinstance(value, list) or not isinstance(converted, list):
            return converted
        pairs = zip(value, converted, strict=True)
        kept = (
            type(item) is type(new) or not (isinstance(item, str | bool) and isinstance(new, int | float))
            for item, new in pairs
        )
        return converted if all(kept) else value

    def accepts(self, name: str, kind: str) -> bool:
        """Return whether the field `name` may accept values of type `kind`, such as `float` or `list[str]`. This is
        only known for plain types without constraints, and for lists of them. All other fields may accept any value.
        """
        info, adapter = self._fields[name], self._adapter(name, self._fields[name])
        if kind not in _SAMPLES or info.metadata or adapter is None or not self._kinds[name] <= _PLAIN_TYPES:
            return True
        try:
            adapter.validate_python(_SAMPLES[kind])
        except ValidationError:
            return False
        return True

    def _adapter(self, name: str, info: FieldInfo) -> TypeAdapter[Any] | None:
        """Return the type adapter for a field, or None if only the class can validate the field."""
        with CLASS_BUILD_LOCK:
            if name not in self._adapters:
                annotation: Any = info.annotation
                for item in info.metadata:
                    annotation = Annotated[annotation, item]
                try:
                    self._adapters[name] = TypeAdapter(annotation)
                except PydanticUserError:  # a type that only the configuration of the class allows
                    self._adapters[name] = None
            return self._adapters[name]


def alternatives(annotation: object) -> set[object]:
    """Return the types in a union without None, or a set with just `annotation` if it is not a union."""
    if get_origin(annotation) in (Union, UnionType):
        return {part for part in get_args(annotation) if part is not NoneType}
    return {annotation}


def _reads(primitive: Primitive, truth: object) -> bool:
    """Return whether the primitive accepts the ground truth itself, written as a string. An exception counts as no."""
    try:
        return primitive.check(truth.isoformat() if isinstance(truth, date) else str(truth), truth) is True
    except (ValueError, TypeError):
        return False
