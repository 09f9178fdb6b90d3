"""Loaded templates, on their own or bound to a question."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ValidationError
from pydantic_core import (
    InitErrorDetails,
    PydanticCustomError,
    PydanticSerializationError,
    from_json,
    to_json,
    to_jsonable_python,
)

from karenina_core.artifacts.artifact import ArtifactKey
from karenina_core.data.sections import KnownValue
from karenina_template.templates.base import AnswerKey, BaseAnswer, Binding
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import alternatives
from karenina_template.templates.primitives import DateMatch, Undecided
from karenina_template.templates.primitives.date_parser import read_dates
from karenina_template.templates.shapes.schema import schema_of_part
from karenina_template.templates.shapes.shape import Shape
from karenina_toolkit.known_values import find_offer
from karenina_toolkit.structured.lenient_json import restore_digits
from karenina_toolkit.structured.schema_repair import repair

_DATES: Final = frozenset({date, datetime})
NO_VALUES: Final[Mapping[str, KnownValue]] = {}
_TOLD: Final = ("ge", "gt", "le", "lt", "multiple_of", "pattern")
"""Constraints whose value appears in pydantic's errors. Errors about literals and enums list the values."""


@dataclass(slots=True)
class Template:
    """An answer template, made of a shared `shape` and its own `key` (ground truths and strategy).

    Several templates can share a `shape`. `descriptions` contains the field descriptions, unless the shape does.
    `own_source` is None if the source is unavailable. Use `load_template` or `template_of_class` to create a template.
    """

    shape: Shape
    key: AnswerKey
    template_id: str
    description: str | None = None
    own_source: str | None = None
    descriptions: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of_class(cls, answer: type[BaseAnswer], shape: Shape, source: str | None) -> Self:
        """Return a template for a class with its shape and source. Without a source, the template ID is based on the
        class's name, schema, rules and strategy. Raises `TemplateError` if the class verifies nothing.
        """
        key = answer.answer_key()
        refuse_unverified(answer, shape, key)
        text = source if source is not None else _describe_class(answer, shape, key)
        own_doc = inspect.cleandoc(answer.__doc__) if answer.__doc__ and "__doc__" in answer.__dict__ else None
        return cls(shape, key, template_id(text), own_doc or None, source)

    @property
    def source(self) -> str:
        """Return the source text. Raises `TemplateError` if it is unavailable."""
        if self.own_source is None:
            raise TemplateError(
                f"the source of {self.answer_class.__name__} is not available because the class was not "
                "defined in a file, the file has several classes with this name, or the class uses names "
                "from outside the class; pass the template as source code"
            )
        return self.own_source

    @property
    def answer_class(self) -> type[BaseAnswer]:
        """The class without ground truths, shared by all templates with the same shape. For declared templates, the
        class has no descriptions either; see `judge_schema`.
        """
        return self.shape.answer_class

    @property
    def has_code(self) -> bool:
        """Whether the template comes from a class, which may have methods, and not from declarations alone."""
        return self.answer_class.__base__ is not BaseAnswer

    def judge_schema(self) -> dict[str, Any]:
        """Return a copy of the JSON Schema that a judge fills, with the descriptions of this template's fields.

        See `judge_schema` in `templates.shapes.schema`.
        """
        schema: dict[str, Any] = from_json(self.shape.schema_json)
        parts = schema["properties"]
        for name, text in self.descriptions.items():
            if name in parts:  # fields that read the raw response are not in the schema
                parts[name]["description"] = text
        return schema

    def why_unfit(self, name: str) -> str | None:
        """Return the reason, with a fix, if the type of field `name` accepts no value from its source. Returns None if
        the type may accept a value, if the field has no source, or if no installed plugin offers the source.
        """
        source = self.key.sources().get(name)
        offer = find_offer(source) if source is not None else None
        if offer is None or self.shape.coercer.accepts(name, offer.kind):
            return None
        what = f"the type of field {name!r} does not fit the known value {source!r}"
        return f"{what}, whose type is {offer.kind}; write {offer.kind}, or remove the type"

    def for_question(self, question_id: str) -> BoundTemplate:
        """Return the template bound to a question."""
        return BoundTemplate(question_id, self)


@dataclass(slots=True)
class BoundTemplate:
    """A template bound to a question. If a judge fills only some of the fields, `part` lists them (see `only`).

    Only `judge_schema`, `judge_fields` and `hints` may be shown to models, because they contain no ground truths,
    weights or defaults.
    """

    question_id: str
    template: Template
    part: tuple[str, ...] | None = None

    @property
    def answer_class(self) -> type[BaseAnswer]:
        """The class without ground truths, shared by all templates with the same shape."""
        return self.template.answer_class

    @property
    def template_id(self) -> str:
        """The MD5 hash of the source, in hexadecimal."""
        return self.template.template_id

    @property
    def judge_fields(self) -> tuple[str, ...]:
        """The fields for a judge to fill, in the order of the schema. It is empty if no judge is needed."""
        fields = self.template.shape.judge_fields
        return fields if self.part is None else tuple(name for name in fields if name in self.part)

    @property
    def composition(self) -> str | None:
        """The name of the strategy: "all_of", "any_of" or "at_least_n(2)". It is None if the class has its own `verify`
        or no field is verified.
        """
        return None if self.answer_class.verify is not BaseAnswer.verify else self.template.key.composition

    @property
    def is_graded(self) -> bool:
        """Whether the template has a granular score, from verified fields or from its own `verify_granular`."""
        return bool(self.template.key.rules) or self.answer_class.verify_granular is not BaseAnswer.verify_granular

    @property
    def is_slow(self) -> bool:
        """Whether any field has a slow primitive."""
        return any(rule.primitive.is_slow for rule in self.template.key.rules.values())

    @property
    def description(self) -> str | None:
        """The template's docstring, for the author's own notes. Judges never see it."""
        return self.template.description

    def judge_schema(self) -> dict[str, Any]:
        """Return a copy of the JSON Schema for the judge. See `judge_schema` in `templates.shapes.schema`."""
        schema = self.template.judge_schema()
        return schema if self.part is None else schema_of_part(schema, self.judge_fields)

    def only(self, fields: Collection[str]) -> BoundTemplate:
        """Return the template for a judge that fills only the given fields."""
        return replace(self, part=tuple(fields))

    def hints(self) -> dict[str, str]:
        """Return the extraction hints for the fields that a judge fills, keyed by field."""
        rules = self.template.key.rules
        return {name: hint for name in self.judge_fields if name in rules and (hint := rules[name].hint)}

    @property
    def sources(self) -> Mapping[str, str]:
        """The names of the known values that fill fields, keyed by field. A judge does not fill these fields."""
        return self.template.key.sources()

    def options(self) -> dict[str, Mapping[str, object]]:
        """Return the plugin options, keyed by field."""
        return {name: rule.options for name, rule in self.template.key.rules.items() if rule.options}

    def bind(
        self, values: Mapping[str, object], response: str = "", known: Mapping[str, KnownValue] = NO_VALUES
    ) -> BaseAnswer:
        """Return the answer made of the judge's `values`, the `known` values of fields with a source, and the
        question's ID, ground truths, weights and `response`. Unknown keys are ignored, and values that a field rejects
        are repaired if they have one meaning ("yes" for a boolean). Raises pydantic's `ValidationError` for values that
        are still invalid and for missing fields.

        The values are validated like JSON, with dates and enum members as strings. If a field rejects a value, all
        values are repaired in the same way as a judge's reply (see `repair`), such as "2" for a numeric literal. Dates
        are then also parsed like the date primitives do ("15 January 2024"). An ambiguous date stays a string if the
        field's primitive decides the verdict. None stays None, whatever the annotation. Unknown keys, and fields that a
        judge does not fill, are ignored.

        `known` maps names to known values, which fill the fields that have a source. A known value that does not fit
        the field's type is compared unchanged. A field whose known value is None or missing is undecided, or wrong if
        the value `counts` as wrong.

        Also raises any exception raised by the class's own code.
        """
        key = self.template.key
        sources = key.sources()
        coercer = self.template.shape.coercer
        filled = {
            name: coercer.convert(name, known[source].value) for name, source in sources.items() if source in known
        }
        unfilled: dict[str, Undecided | Literal[False]] = {
            name: False if value.counts == "wrong" else Undecided(value.why or "there is no value")
            for name, source in sources.items()
            if (value := known.get(source)) is not None and value.value is None
        }
        answer = self._validated(values, filled)
        answer.__dict__.update(filled)
        # avoids validation on assignment, which is slower and meant for users' values
        own = answer.__pydantic_private__
        assert own is not None
        own["_binding"] = Binding(key, response, results=unfilled)
        if key.rules and answer.correct is None:
            answer.__dict__["correct"] = key.truths()
        return answer

    def bind_again(self, values: Mapping[str, object], response: str) -> BaseAnswer:
        """Return one answer that combines `values` from several answers, each bound to a part of the fields. Fields
        without a value are None.
        """
        answer = self.bind({name: as_json(values.get(name)) for name in self.judge_fields}, response)
        answer.__dict__.update(values)  # the same values, exact numbers and ambiguous dates included
        return answer

    def expected(self) -> dict[str, Any]:
        """Return the ground truths by field as JSON values. For a class without verified fields, this is the `correct`
        of an answer without values, under the key "correct" if it is not a mapping. The result is empty if there are no
        ground truths, or if this answer cannot be created.
        """
        rules = self.template.key.rules
        if rules:
            return {name: as_json(rule.truth) for name, rule in rules.items()}
        try:
            correct = self.bind(dict.fromkeys(self.judge_fields)).correct
        except Exception:
            return {}
        if correct is None:
            return {}
        truths = as_json(correct)
        return truths if isinstance(truths, dict) else {"correct": truths}

    def extracted(self, answer: BaseAnswer) -> dict[str, Any]:
        """Return the values that the judge extracted, keyed by field, as JSON values."""
        return {name: as_json(getattr(answer, name, None)) for name in self.judge_fields}

    def with_known_values(self, answer: BaseAnswer, known: Mapping[str, KnownValue]) -> BaseAnswer:
        """Return `answer` bound again with the given known values. `answer` must have been bound without known values.
        A template without sources needs none, so its answer is returned unchanged.
        """
        return self.bind(self.extracted(answer), answer._get_binding().response, known) if self.sources else answer

    def _validated(self, values: Mapping[str, object], filled: Mapping[str, object]) -> BaseAnswer:
        """Return the answer with the judge's values, repaired if a field rejects any of them, and with those of the
        known values in `filled` that its class accepts. Raises pydantic's `ValidationError` for missing fields and for
        values that are still invalid.
        """
        cls = self.answer_class
        present = {name: values[name] for name in self.judge_fields if values.get(name) is not None}
        errors = [
            InitErrorDetails(type="missing", loc=(name,), input=dict(values))
            for name in self.judge_fields
            if name not in values
        ]
        for name, value in list(present.items()):
            if _is_timestamp(value) and _DATES.intersection(alternatives(cls.model_fields[name].annotation)):
                readings = read_dates(value)
                present[name] = readings[0].at.isoformat() if readings else None
                if not readings:
                    reason = {"reason": f"{value!r:.60} is not a complete date; write it as 2024-01-15"}
                    problem = PydanticCustomError("date_parsing", "{reason}", reason)
                    errors.append(InitErrorDetails(type=problem, loc=(name,), input=value))
        two_dates: Mapping[str, str] = {}
        try:
            answer = self._read(present, filled)
        except (PydanticSerializationError, UnicodeError) as error:
            problem = PydanticCustomError("not_json", "{reason}", {"reason": str(error)})
            raise ValidationError.from_exception_data(
                cls.__name__, [*errors, InitErrorDetails(type=problem, input=dict(values))]
            ) from error
        except ValidationError as error:
            try:
                present, two_dates = self._reread(present)
                answer = self._read(present, filled)
            except ValueError:
                converted = _convert_errors(error, self.template.shape.schema_json)
                raise ValidationError.from_exception_data(cls.__name__, [*errors, *converted]) from error
        if errors:
            raise ValidationError.from_exception_data(cls.__name__, errors)
        answer.__dict__.update(two_dates)
        for name, value in present.items():
            read = answer.__dict__.get(name)
            exact = restore_digits(value, read)
            if exact is not read:  # avoids validation on assignment: it is the same value
                answer.__dict__[name] = exact
        return answer

    def _read(self, present: Mapping[str, object], filled: Mapping[str, object]) -> BaseAnswer:
        """Return the answer with the values in `present`, and with those in `filled` if its class accepts them. Raises
        pydantic's `ValidationError` if the class rejects the values in `present`.
        """
        values = {**present, **filled, "id": self.question_id}
        try:
            return self.answer_class.model_validate_json(to_json(values), by_alias=False, by_name=True)
        except ValidationError:
            if not filled:
                raise
        return self._read(present, {})

    def _reread(self, present: Mapping[str, object]) -> tuple[dict[str, object], dict[str, str]]:
        """Return the values repaired to fit their fields, without the dates that can be read as two dates, and these as
        strings. Dates are only separated if their field has a primitive, which can return `Undecided`, and the class
        has no `verify` of its own.
        """
        schema = self.judge_schema()
        repaired, _ = repair(present, schema)
        decides = self.answer_class.verify is BaseAnswer.verify
        two_dates: dict[str, str] = {}
        for name, value in repaired.items():
            rule = self.template.key.rules.get(name)
            format = rule.primitive.format if rule is not None and isinstance(rule.primitive, DateMatch) else None
            part = schema["properties"][name]
            if decides and rule is not None and _is_two_dates(value, part, format):
                two_dates[name] = str(value)
            else:
                repaired[name] = _with_dates(value, part, schema, format)
        return {name: value for name, value in repaired.items() if name not in two_dates}, two_dates


def _is_timestamp(value: object) -> bool:
    """Return whether pydantic would read `value` as seconds since 1970. A judge may mean a year, for example."""
    if isinstance(value, str):
        return value.strip().lstrip("+-").replace(".", "", 1).isdigit()
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_two_dates(value: object, part: Mapping[str, Any], format: str | None) -> bool:
    """Return whether `value` can be read as two different dates, and `part`, the schema of its field, allows dates. If
    set, `format` is the only accepted date format.
    """
    kinds = [option.get("format") for option in part.get("anyOf", [part])]
    return isinstance(value, str) and not {"date", "date-time"}.isdisjoint(kinds) and len(read_dates(value, format)) > 1


def _with_dates(value: object, part: Mapping[str, Any], schema: Mapping[str, Any], format: str | None) -> object:
    """Return `value` with unambiguous dates converted to ISO 8601 wherever the schema expects dates. If set, `format`
    is the only accepted date format.
    """
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rpartition("/")[2]]
    for option in part.get("anyOf", [part]):
        if "$ref" in option:
            return _with_dates(value, option, schema, format)
        if isinstance(value, list) and "items" in option:
            return [_with_dates(item, option["items"], schema, format) for item in value]
        if isinstance(value, Mapping) and "properties" in option:
            parts = option["properties"]
            return {key: _with_dates(item, parts.get(key, {}), schema, format) for key, item in value.items()}
        if isinstance(value, str) and option.get("format") in ("date", "date-time"):
            readings = read_dates(value, format)
            if len(readings) == 1:
                at = readings[0].at
                return (at.date() if option["format"] == "date" else at).isoformat()
    return value


def template_id(source: str) -> str:
    """Return the MD5 hash of `source` in hexadecimal. It is an identifier, not protection against tampering."""
    return hashlib.md5(source.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def refuse_unverified(answer: type[BaseAnswer], shape: Shape, key: AnswerKey) -> None:
    """Raise `TemplateError` if the class verifies nothing: it has no rule, `verify`, pattern or `correct`. A class that
    cannot be created without values is accepted.
    """
    if key.rules or answer.verify is not BaseAnswer.verify:
        return
    try:
        empty = shape.answer_class()
    except Exception:
        return
    if empty.regex is None and empty.correct is None:
        raise TemplateError(f"{answer.__name__} verifies nothing; add a VerifiedField, a verify() method or self.regex")


def as_json(value: object) -> Any:
    """Convert `value` to JSON values. Sets become sorted lists, and unsupported values become strings."""
    if isinstance(value, str):
        return to_jsonable_python(value, fallback=str, serialize_unknown=True)
    if isinstance(value, BaseModel):
        value = value.model_dump(warnings=False)
    if isinstance(value, set | frozenset):
        return sorted((as_json(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    if isinstance(value, Mapping):
        return {str(to_jsonable_python(key, fallback=str)): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return to_jsonable_python(value, fallback=str, serialize_unknown=True)


def _convert_errors(error: ValidationError, shown: str) -> Iterable[InitErrorDetails]:
    """Yield the validation errors with types that decide whether the judge sees their messages. Those of literals and
    enums, and those with constraints that the schema `shown` lacks, such as the bounds of a date, could reveal the
    ground truth, and get the type "constraint".
    """
    for item in error.errors(include_url=False):
        context = item.get("ctx", {})
        mentioned = [json.dumps(str(context[name]))[1:-1] for name in _TOLD if context.get(name) is not None]
        is_known = item["type"] not in ("literal_error", "enum") and all(text in shown for text in mentioned)
        kind = item["type"] if is_known else "constraint"
        yield InitErrorDetails(
            type=PydanticCustomError(kind, "{reason}", {"reason": item["msg"]}), loc=item["loc"], input=item["input"]
        )


def _describe_class(answer: type[BaseAnswer], shape: Shape, key: AnswerKey) -> str:
    """Return a string that identifies a class without a source by its name, schema, rules and strategy."""
    rules = {
        name: [
            as_json(rule.truth),
            rule.primitive.to_json(),
            rule.weight,
            rule.hint,
            *([dict(rule.options)] if rule.options else []),
            *([rule.source] if rule.source is not None else []),
        ]
        for name, rule in key.rules.items()
    }
    return json.dumps([answer.__qualname__, shape.schema_json, rules, repr(key.strategy)], sort_keys=True)


ANSWER_CLASS: Final = ArtifactKey("answer_class", BoundTemplate)
PARSED_ANSWER: Final = ArtifactKey("parsed_answer", BaseAnswer)
"""The standard keys ANSWER_CLASS and PARSED_ANSWER with their actual types."""
