"""The JSON Schema for a judge, without constraints that would give a ground truth away."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

from karenina_template.templates.errors import TemplateError
from karenina_template.templates.field import VERIFICATION
from karenina_template.templates.shapes.open_fields import SHOW, is_one_option, leaves_one_value

REASONING_NAMES: Final = ("reasoning", "reason", "rationale", "explanation", "thinking", "evidence")
"""Names, or last words of names, of fields that come first. Judges decide better if they reason first."""

_DECIMAL: Final = "^(?!^[-+.]*$)"
"""The start of the pattern that pydantic adds for Decimal. All other patterns were written by the author."""

_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_KINDS: Final = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_OTHER_TYPES: Final = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
_ALONE: Final = "a single possible value"
_BESIDE: Final = "a literal combined with other types"

_PLAIN: Final = frozenset(
    {"$ref", "type", "required", "enum", "const", "description", "format", "pattern", "minimum", "maximum"}
    | {"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems"}
    | {"uniqueItems", "minProperties", "maxProperties"}
)
_ONE: Final = frozenset({"items", "additionalProperties", "propertyNames", "not"})
_MANY: Final = frozenset({"allOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "$defs", "patternProperties"})

Json = dict[str, Any]
Unshown = Mapping[str, tuple[str, ...]]
"""The constraints that are not shown to a judge, as descriptions keyed by field."""


class _NoWarnings(GenerateJsonSchema):
    """A schema generator that emits no warnings."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default", "skipped-discriminator"}


def judge_schema(cls: type[BaseModel], without: Collection[str]) -> tuple[Json, Unshown]:
    """Return the schema of `cls` for a judge, without the fields in `without` and without constraints that can give a
    ground truth away, and descriptions of these constraints by field. Raises `TemplateError` for an annotation that
    JSON Schema does not support, and for a `VerifiedField` in a nested model, which would not be verified.

    The schema contains keywords that constrain values, and the descriptions of fields. It has no titles, defaults,
    examples or docstrings. All properties are required and may be null, and no others are allowed. Fields for reasoning
    come first. Unused definitions are dropped. If a Python class sets these keywords or descriptions with
    `json_schema_extra`, `model_config` or `WithJsonSchema`, they are kept.

    Constraints that can give a ground truth away are omitted, unless the field's `json_schema_extra` contains `SHOW`.
    These are patterns and `multiple_of`, bounds, literals and enums that allow only a single value, and a literal in a
    union with other types. Names of fields and classes are kept, but `self_check` warns if they contain a ground truth.

    Also raises `TemplateError` for a `VerifiedField` in a nested model, because it would not be verified.
    """
    try:
        raw = BaseModel.model_json_schema.__func__(cls, by_alias=False, schema_generator=_NoWarnings)  # type: ignore[attr-defined]  # not the override, which removes the verification data that is needed here
    except PydanticInvalidForJsonSchema as error:
        raise TemplateError(
            f"an annotation in {cls.__name__} cannot be expressed in JSON Schema: {error.message}"
        ) from error
    definitions: Json = raw.get("$defs", {})
    root: Json = definitions[raw["$ref"].rpartition("/")[2]] if "$ref" in raw else raw
    _refuse_nested_rules(definitions, cls)
    cleaning = _Cleaning(definitions, frozenset(_tags(raw, definitions)))
    properties = {
        name: _nullable(cleaning.clean(part, name))
        for name, part in root.get("properties", {}).items()
        if name not in without
    }
    schema = judge_object(properties)
    cleaned = {name: cleaning.definition(name, part) for name, part in definitions.items()}
    unshown = {
        name: tuple(
            constraint for place in _places(name, part, cleaned) for constraint in cleaning.unshown.get(place, ())
        )
        for name, part in schema["properties"].items()
    }
    used = _reachable(schema["properties"], cleaned)
    left_out = {name: constraints for name, constraints in unshown.items() if constraints}
    return ({**schema, "$defs": used} if used else schema), left_out


def judge_object(properties: Mapping[str, Json]) -> Json:
    """Return the judge's schema for an object with the given properties, all required. Reasoning comes first."""
    ordered = dict(sorted(properties.items(), key=lambda item: not is_reasoning(item[0])))
    return {
        "type": "object",
        "properties": ordered,
        "required": list(ordered),
        "additionalProperties": False,
    }


def schema_of_part(schema: Json, fields: Collection[str]) -> Json:
    """Return a judge's schema reduced to the properties in `fields` and the definitions they use."""
    part = judge_object({name: schema["properties"][name] for name in schema["properties"] if name in fields})
    used = _reachable(part["properties"], schema.get("$defs", {}))
    return {**part, "$defs": used} if used else part


def judge_part(adapter: TypeAdapter[Any]) -> tuple[Json, tuple[str, ...]]:
    """Return the part of `judge_schema` for a field of the adapter's type, and the omitted constraints. The type must
    not contain models or enums. Raises `PydanticInvalidForJsonSchema` if JSON Schema does not support it.
    """
    cleaning = _Cleaning()
    part = _nullable(cleaning.clean(adapter.json_schema(by_alias=False, schema_generator=_NoWarnings), ""))
    return part, tuple(cleaning.unshown.get(("", ""), ()))


def is_reasoning(name: str) -> bool:
    """Return whether a field called `name` is for reasoning, judging by the last word of the name."""
    return name.lower().rpartition("_")[2] in REASONING_NAMES


def with_description(part: Json, text: str) -> Json:
    """Return a copy of `part` with a description, at the position where pydantic would put it among the sorted keys."""
    before = {key: value for key, value in part.items() if key < "description"}
    after = {key: value for key, value in part.items() if key > "description"}
    return {**before, "description": text, **after}


class _Cleaning:
    """Cleans a schema. `unshown` collects the omitted constraints, by definition and root field.

    `tags` contains the definition and property of each discriminator. Discriminators are kept, because their values
    distinguish the options of a union.
    """

    def __init__(self, definitions: Json | None = None, tags: frozenset[tuple[str, str]] = frozenset()) -> None:
        self.unshown: dict[tuple[str, str], list[str]] = {}
        self._definitions = definitions or {}
        self._tags = tags

    def definition(self, name: str, part: Json) -> Json:
        """Return a cleaned definition without its description, which is a docstring for the author's own notes."""
        cleaned: Json = self._clean(part, (name, ""), shown=False)
        cleaned.pop("description", None)
        return cleaned

    def clean(self, part: Json, name: str) -> Json:
        """Return the cleaned part for the root field `name`."""
        cleaned: Json = self._clean(part, ("", name), shown=False)
        return cleaned

    def _clean(self, part: Any, place: tuple[str, str], *, shown: bool, single: str | None = _ALONE) -> Any:
        """Return a part of a schema without what a judge does not see, and describe omitted constraints in `unshown`,
        with the description `single` for a single option, which is kept if that is None. With `shown`, none are
        omitted. `place` consists of the part's definition ("" for the root) and its property.
        """
        if not isinstance(part, dict):
            return part
        shown = shown or part.get(SHOW) is True
        result: Json = {}
        for key, value in part.items():
            if key in _PLAIN:
                result[key] = value
            elif key in _ONE:
                # the constraints inside an exclusion do not say what is allowed, so they give no truth away
                result[key] = self._clean(value, place, shown=shown or key == "not")
            elif key in ("anyOf", "oneOf"):
                inside = single
                if single is not None and sum(option.get("type") != "null" for option in value) > 1:
                    inside = _BESIDE if is_one_option(self._options({key: value})) else None
                cleaned = [self._clean(item, place, shown=shown, single=inside) for item in value]
                result[key] = [item for at, item in enumerate(cleaned) if item not in cleaned[:at]]
            elif key in _MANY:
                result[key] = [self._clean(item, place, shown=shown) for item in value]
            elif key in _NAMED:
                result[key] = {
                    inner: self._clean(
                        item, (place[0], inner), shown=shown, single=None if (place[0], inner) in self._tags else _ALONE
                    )
                    for inner, item in value.items()
                }
        if "properties" in result:
            result["required"] = list(result["properties"])
            result["additionalProperties"] = False
        return result if shown else self._hide(result, place, single)

    def _options(self, part: Any) -> Iterator[object]:
        """Yield the values listed in a part of a schema: its constant or enum, and those of its alternatives and of
        enumerations that these refer to, unless such an enumeration has only one option.
        """
        options = [part["const"]] if "const" in part else part.get("enum", [])
        yield from options
        for option in (*part.get("anyOf", ()), *part.get("oneOf", ())):
            listed = self._options(option)
            if "$ref" in option:
                enumeration = self._definitions.get(option["$ref"].rpartition("/")[2], {}).get("enum", [])
                listed = iter(() if is_one_option(enumeration) else enumeration)
            yield from listed

    def _hide(self, part: Json, place: tuple[str, str], single: str | None) -> Json:
        """Return `part` without constraints that can give a ground truth away, and describe them in `unshown`. `place`
        is the part's definition, or "", and its property. A single option is kept if `single`, its description, is
        None. `part` may be changed, too.
        """
        hidden = list[str]()
        if "pattern" in part and not part["pattern"].startswith(_DECIMAL):
            hidden.append("a pattern")
            del part["pattern"]
        if "patternProperties" in part:
            hidden.append("a pattern for keys")
            (part["additionalProperties"], *_) = part.pop("patternProperties").values()
        step = part.get("multipleOf", 1 if part.get("type") == "integer" else None)
        if leaves_one_value(map(part.get, _BOUNDS), step):
            hidden.append("bounds that leave a single value")
            part = {key: value for key, value in part.items() if key not in (*_BOUNDS, "multipleOf")}
        if "multipleOf" in part:
            hidden.append("a multiple_of constraint")
            del part["multipleOf"]
        options = [part["const"]] if "const" in part else part.get("enum", [])
        if single is not None and is_one_option(options):
            hidden.append(single)
            part = _of_kind(options, {key: value for key, value in part.items() if key not in ("const", "enum")})
        definition, name = place
        where = f" of {name!r} in {definition}" if definition and name else f" of {definition}" if definition else ""
        key = (definition, "" if definition else name)
        self.unshown.setdefault(key, []).extend(f"{constraint}{where}" for constraint in hidden)
        return part


def _of_kind(options: Iterable[object], keywords: Json) -> Json:
    """Return a part of a schema that accepts all values of the same types as `options`, with the given `keywords`."""
    kinds = list(dict.fromkeys(_KINDS.get(type(option), "string") for option in options))
    if len(kinds) > 1:
        rest = {key: value for key, value in keywords.items() if key != "type"}
        return {"anyOf": [{"type": kind} for kind in kinds], **rest}
    return keywords if not _OTHER_TYPES.isdisjoint(keywords) else {"type": kinds[0], **keywords}


def _places(name: str, part: Json, definitions: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Yield the places of a field and of the definitions it uses, as pairs of definition and property. One element of
    each pair is an empty string.
    """
    yield "", name
    yield from ((definition, "") for definition in _reachable(part, definitions))


def _tags(raw: Any, definitions: Json) -> Iterator[tuple[str, str]]:
    """Yield the definition and property of each discriminator, whose values distinguish the options of a union."""
    if isinstance(raw, list):
        for item in raw:
            yield from _tags(item, definitions)
    if not isinstance(raw, dict):
        return
    for key, value in raw.items():
        yield from _tags(value, definitions)
        if key not in ("anyOf", "oneOf") or not isinstance(value, list):
            continue
        names = [str(option.get("$ref", "")).rpartition("/")[2] for option in value if isinstance(option, dict)]
        single: dict[str, dict[str, object]] = {}
        for name in names:
            for inner, part in definitions.get(name, {}).get("properties", {}).items():
                if "const" in part:
                    single.setdefault(inner, {})[name] = part["const"]
        for inner, values in single.items():
            if len({repr(const) for const in values.values()}) > 1:
                yield from ((name, inner) for name in values)


def _nullable(part: Json) -> Json:
    """Return a part of a schema with null as an additional option, or unchanged if it already allows null."""
    if _allows_null(part):
        return part
    description = {"description": part["description"]} if "description" in part else {}
    inner = {key: value for key, value in part.items() if key != "description"}
    return {"anyOf": [inner, {"type": "null"}], **description}


def _allows_null(part: Json) -> bool:
    """Return whether a part of a schema allows null. A part without constraints does."""
    kind = part.get("type")
    if not (part.keys() - {"description"}) or kind == "null" or (isinstance(kind, list) and "null" in kind):
        return True
    return any(_allows_null(option) for key in ("anyOf", "oneOf") for option in part.get(key, ()))


def _references(part: Any) -> Iterator[str]:
    """Yield the names of the definitions that a part of a schema refers to, possibly several times."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value.rpartition("/")[2]
            elif key not in ("enum", "const"):
                yield from _references(value)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


def _reachable(part: Json, definitions: Mapping[str, Json]) -> Json:
    """Return the definitions that a part of a schema uses, directly or indirectly."""
    used: Json = {}
    waiting = list(_references(part))
    while waiting:
        name = waiting.pop(0)
        if name in definitions and name not in used:
            used[name] = definitions[name]
            waiting.extend(_references(used[name]))
    return used


def _refuse_nested_rules(definitions: Json, cls: type[BaseModel]) -> None:
    """Raise `TemplateError` if a nested model has a `VerifiedField`, because it would not be verified."""
    for model, definition in definitions.items():
        if model == cls.__name__:
            continue
        for name, part in definition.get("properties", {}).items():
            if VERIFICATION in part:
                raise TemplateError(
                    f"field {name!r} of the nested model {model} is a VerifiedField, but only fields of the "
                    "template itself can be VerifiedFields. Use Field(description=...) in the nested model, and "
                    f"verify the template field that contains the {model}"
                )
