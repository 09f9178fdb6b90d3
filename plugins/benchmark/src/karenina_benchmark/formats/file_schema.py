"""The JSON Schema for the YAML benchmark format, for use in editors."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema

from karenina_benchmark import template_declarations
from karenina_benchmark.formats import yaml_format
from karenina_core.catalog import read_catalog
from karenina_core.data.question import FewShotExample, Question
from karenina_core.data.rubrics import Rubric, trait_kinds
from karenina_core.plugins import active_plugins
from karenina_engine.check.plugin_checks import OwnedFields, kinds_with
from karenina_template.templates import SynonymMap, known_primitives, primitives_by_field_type
from karenina_toolkit.known_values import offered_values

Schema = dict[str, Any]

_REF: Final = "#/$defs/{model}"
_TEXT: Final[Schema] = {"type": ["string", "number", "boolean", "null"]}
"""Text, which need not be quoted even if it looks like a number."""
_MAPPING: Final[Schema] = {"type": ["object", "null"]}
_TEMPLATE: Final = "The source of the template, a class Answer(BaseAnswer)."
_ANSWER: Final = "The fields of the template, by name: what the judge extracts, and the ground truth."
_STRATEGY: Final = (
    "How the fields are combined into a verdict: a field, all_of, any_of or at_least. Default: all must be correct."
)
_HEAD_TEXTS: Final = {
    "karenina": "The version of this format: 1.",
    "name": "The name of the benchmark.",
    "id": "Identifies the benchmark; derived from its name by default.",
    "description": "What the benchmark is about.",
    "version": "The version of the benchmark.",
    "creator": "Who created the benchmark.",
    "date_created": "When the benchmark was created, as an ISO 8601 date.",
    "date_modified": "When the benchmark was last changed, as an ISO 8601 date.",
    "workspace_root": "The folder with the questions' workspaces, relative to this file.",
    "config": "Defaults for a run; `karenina config` describes them.",
    "metadata": "Any other information about the benchmark.",
    "rubric": "Traits that are scored for every answer.",
    "dynamic_rubric": "Traits that are scored only for answers in which their concept occurs.",
    "questions": "The questions.",
    "questions_from": "Files whose rows become questions.",
    "unread": "Content from a file of another version, which is preserved.",
}
_FIELD_TEXTS: Final = {
    "type": "The type of the value; by default, the type of the ground truth.",
    "description": "What the judge extracts from the response. The judge sees it, so it must not contain the ground "
    "truth.",
    "from": "The known value that fills the field in place of a judge; `karenina primitives` lists all.",
    "ground_truth": "The correct value, which no model sees. Not needed for a range.",
    "verify_with": "The primitive that compares the value with the ground truth; `karenina primitives` describes all "
    "primitives.",
    "weight": "The weight in granular scores.",
    "extraction_hint": "A hint for the judge, in addition to the description.",
}
_IMPORT_TEXTS: Final = {
    "file": "A table (.csv, .tsv, .xlsx, .jsonl), relative to this file.",
    "sheet": "The sheet of an Excel file.",
    "columns": "The column for each field of a question, such as {question: text, raw_answer: gold}.",
    "separator": "The separator between keywords in a cell.",
    "answer": "The fields of the template; {column: name} is replaced by the row's value.",
    "strategy": _STRATEGY,
    "template": _TEMPLATE,
    "rubric": "Traits for all these questions.",
}


_ATTACHMENT: Final[Schema] = {
    "type": "object",
    "properties": {"file": {"type": "string"}, "pages": {"type": ["string", "integer"]}},
    "required": ["file"],
    "additionalProperties": False,
}


def benchmark_schema(config: Mapping[str, Any]) -> Schema:
    """Return the JSON Schema (draft 2020-12) of the YAML format. `config` is the schema of the configuration. The
    result includes the primitives and trait kinds of installed plugins.
    """
    owned = OwnedFields(active_plugins()).models
    settings = {key: value for key, value in config.items() if key not in ("$schema", "$defs")}
    defs: Schema = {**config.get("$defs", {}), "Config": settings}
    primitives = _models(known_primitives(), defs)
    _add_type(defs, "SynonymMap", SynonymMap)
    names = [*known_primitives(), *(name for name in ("SynonymMap",) if name in defs)]
    parameters = {"type": "object", "not": {"required": ["type"]}}  # of the primitive that the field's type stands for
    defs["Verification"] = {"anyOf": [{"enum": names}, *primitives, parameters]}
    kinds = _models({kind.__name__: kind for kind in trait_kinds().values()}, defs)
    for kind in trait_kinds().values():
        _add_owned_fields(defs, kind, owned["trait_fields"])
    defs["Traits"] = _traits(kinds)
    defs["Strategy"] = _strategy()
    defs["Field"] = _object(_FIELD_TEXTS, {**_field_types(), "verify_with": {"$ref": "#/$defs/Verification"}})
    defs["Field"]["properties"] |= _plugin_fields(owned["template_fields"], defs)
    defs["Field"]["properties"]["from"]["anyOf"] = [{"enum": _known_value_names()}, _TEXT]
    defs["RowField"] = _object(_FIELD_TEXTS, {})
    defs["Example"] = _object(_help_texts(FewShotExample), {"question": _TEXT, "answer": _TEXT}, ["question", "answer"])
    defs["Question"] = _question()
    defs["Question"]["properties"] |= _plugin_fields(owned["question_fields"], defs)
    defs["QuestionsFrom"] = _object(_IMPORT_TEXTS, {**_template_types("RowField"), "rubric": _rubric()}, ["file"])
    top: Schema = {
        "karenina": {"const": yaml_format.FORMAT_VERSION},
        "name": {"type": ["string", "number"]},
        "config": {"anyOf": [{"$ref": "#/$defs/Config"}, {"type": "null"}]},
        "questions": _list_of("Question"),
        "questions_from": _list_of("QuestionsFrom"),
        **dict.fromkeys(("metadata", "unread"), _MAPPING),
        **dict.fromkeys(("rubric", "dynamic_rubric"), _rubric()),
    }
    described = {name: _HEAD_TEXTS[name] for name in (*yaml_format.HEAD_KEYS, "questions", "questions_from")}
    schema = _object(described, top, ["karenina", "name"], default=_TEXT)
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A Karenina benchmark"}
    return {**title, **schema, "$defs": defs}


def _known_value_names() -> list[str]:
    """Return the names of the known values that installed plugins offer, without patterns."""
    return [offer.name for offer in offered_values(active_plugins()) if "*" not in offer.name]


def _question() -> Schema:
    """Return the schema of a question, without the fields of plugins."""
    types: Schema = {
        "question": {"type": ["string", "number", "boolean"]},
        "keywords": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]},
        "attachments": {"anyOf": [_TEXT, _ATTACHMENT, {"type": "array", "items": {"anyOf": [_TEXT, _ATTACHMENT]}}]},
        "few_shot_examples": _list_of("Example"),
        **_template_types("Field"),
        **dict.fromkeys(("rubric", "dynamic_rubric"), _rubric()),
        "author": {},
        "sources": {},
        **dict.fromkeys(("metadata", "unread"), _MAPPING),
    }
    described = {
        **_help_texts(Question),
        "answer": _ANSWER,
        "strategy": _STRATEGY,
        "template": _TEMPLATE,
    }
    texts = {name: described[name] for name in yaml_format.QUESTION_KEYS}
    return _object(texts, types, ["question"], default=_TEXT)


def _template_types(field: str) -> Schema:
    """Return the schemas of the keys that declare a template. `field` is the name of the definition for its fields."""
    fields: Schema = {"type": ["object", "null"], "additionalProperties": {"$ref": f"#/$defs/{field}"}}
    return {"answer": fields, "strategy": {"anyOf": [{"$ref": "#/$defs/Strategy"}, {"type": "null"}]}}


def _field_types() -> Schema:
    """Return the JSON Schema of each key of a field that does not accept every value."""
    literal = {
        "type": "object",
        "properties": {
            "literal": {"type": "array", "items": {"type": ["string", "integer", "boolean"]}, "minItems": 1}
        },
        "required": ["literal"],
        "additionalProperties": False,
    }
    return {
        "type": {"anyOf": [{"enum": [*template_declarations.TYPES, *primitives_by_field_type()]}, literal]},
        "weight": {"type": "number", "minimum": 0},
        "description": _TEXT,
        "extraction_hint": _TEXT,
    }


def _strategy() -> Schema:
    """Return the schema of a strategy, which is a field name or a condition on other strategies."""
    conditions = {"type": "array", "items": {"$ref": "#/$defs/Strategy"}, "minItems": 1}
    counted = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "of": conditions},
        "required": ["n", "of"],
        "additionalProperties": False,
    }
    one_of = {"all_of": conditions, "any_of": conditions, "at_least": counted}
    combined = {"type": "object", "properties": one_of, "additionalProperties": False, "minProperties": 1}
    return {"anyOf": [{"type": "string"}, {**combined, "maxProperties": 1}]}


def _rubric() -> Schema:
    """Return the schema of a rubric that may be omitted."""
    return {"anyOf": [{"$ref": "#/$defs/Traits"}, {"type": "null"}]}


def _traits(kinds: list[Schema]) -> Schema:
    """Return the schema of a rubric, which is a list of traits, or a list for each kind of trait. In the lists for each
    kind, traits need no type.
    """
    by_kind = {name: {"type": "array"} for name in Rubric.model_fields}
    return {
        "anyOf": [
            {"type": "array", "items": {"anyOf": kinds}},
            {"type": "object", "properties": by_kind, "additionalProperties": False},
        ]
    }


def _models(models: Mapping[str, type[BaseModel]], defs: Schema) -> list[Schema]:
    """Add each model's schema to `defs` with its `type`, and return references to the schemas."""
    references: list[Schema] = []
    for name, model in models.items():
        _add_type(defs, name, model)
        references.append({"$ref": f"#/$defs/{name}"})
    return references


def _add_type(defs: Schema, name: str, model: type[BaseModel]) -> None:
    """Add a model's schema to `defs`, with the `type` that it has in a file: `name`, unless the model has its own field
    `type`. If pydantic cannot create the schema, it only contains `type`.
    """
    try:
        schema = model.model_json_schema(ref_template=_REF)
    except PydanticInvalidForJsonSchema:  # a plugin's model may have any type
        schema = {"type": "object", "properties": {}}
    for inner, part in schema.pop("$defs", {}).items():
        defs.setdefault(inner, part)
    properties = schema.setdefault("properties", {})
    if "type" not in properties or name == "SynonymMap":
        properties["type"] = {"const": name}
    schema["required"] = ["type", *(key for key in schema.get("required", ()) if key != "type")]
    schema["description"] = inspect.getdoc(model) or ""
    defs[name] = schema


def _add_owned_fields(defs: Schema, kind: type[BaseModel], owned: Mapping[str, type[BaseModel]]) -> None:
    """Add plugin fields to the schema of a trait kind in `defs`, without changing its own properties. `owned` contains
    the fields of installed plugins. Fields of plugins that are not installed accept any value.
    """
    type_name = kind.model_fields["type"].default
    own = _plugin_fields({name: model for name, model in owned.items() if type_name in kinds_with(model)}, defs)
    others: Schema = {name: {} for name in sorted(read_catalog()["trait_fields"]) if name not in owned}
    defs[kind.__name__]["properties"] = {**others, **own, **defs[kind.__name__]["properties"]}


def _plugin_fields(models: Mapping[str, type[BaseModel]], defs: Schema) -> Schema:
    """Return the schemas of the fields of plugins, by full name and as tables for their packages. Definitions that they
    refer to are added to `defs`.

    Fields of a model for which pydantic cannot make a schema may have any value.
    """
    found: Schema = {}
    for name, model in models.items():
        plain = name.rpartition(".")[2]
        try:
            schema = model.model_json_schema(ref_template=_REF)
        except PydanticInvalidForJsonSchema:
            schema = {"properties": {plain: {}}}
        for inner, part in schema.get("$defs", {}).items():
            defs.setdefault(inner, part)
        described = {"description": model.model_fields[plain].description or ""}
        found[name] = {**schema["properties"].get(plain, {}), **described}
    return with_tables(found)


def with_tables(properties: Mapping[str, Any]) -> Schema:
    """Return the properties with `my_package: {words: ...}` as an alternative to `my_package.words`. The original
    mapping is not changed.
    """
    extended: Schema = dict(properties)
    for name, schema in properties.items():
        package, _, field = name.rpartition(".")
        if package:
            table = extended.setdefault(package, {"type": "object", "properties": {}, "additionalProperties": False})
            table["properties"][field] = schema
    return extended


def _list_of(name: str) -> Schema:
    """Return the schema of a list of values defined as `name`. A single value or null is accepted as well."""
    reference = {"$ref": f"#/$defs/{name}"}
    return {"anyOf": [{"type": "array", "items": reference}, reference, {"type": "null"}]}


def _help_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the descriptions of a model's fields by name. Descriptions may be empty."""
    return {name: info.description or "" for name, info in model.model_fields.items()}


def _object(
    texts: Mapping[str, str], types: Mapping[str, Schema], required: Iterable[str] = (), default: Schema | None = None
) -> Schema:
    """Return the schema of a mapping that has the keys and descriptions in `texts` and no other keys. `types` contains
    the schemas of some keys, and `default` is the schema of all others.
    """
    properties = {name: {**types.get(name, default or {}), "description": text} for name, text in texts.items()}
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }
