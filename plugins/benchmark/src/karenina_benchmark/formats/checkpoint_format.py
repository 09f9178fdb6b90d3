"""The checkpoint format: JSON-LD with the schema.org vocabulary.

    DataFeed                          the benchmark
      rating: [Rating]                global traits
      additionalProperty              format version, run configuration, custom_... metadata
      dataFeedElement: [DataFeedItem] one per question: id, dates, keywords
        item: Question                text, acceptedAnswer: Answer, hasPart: SoftwareSourceCode (the template),
                                      rating: [Rating], additionalProperty (author, sources, custom_... metadata)

The reference project uses the same format. Unknown content is kept in `unread` and written back. Reading never executes
anything.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_benchmark.content import BenchmarkContent, split_keywords
from karenina_benchmark.errors import BenchmarkFileError, describe_version, explain_error
from karenina_benchmark.formats.checkpoint_traits import (
    REFERENCE_PROPERTY,
    Properties,
    check_unread,
    check_unread_in_traits,
    make_ratings,
    property_value,
    read_traits,
)
from karenina_benchmark.formats.gui_checkpoint import as_checkpoint, plain_ratings
from karenina_benchmark.formats.load_warnings import as_list, describe_scenarios, list_scenarios
from karenina_benchmark.formats.strict_json import parse_object
from karenina_benchmark.saved_attachments import serialize_attachment
from karenina_core.data.question import Question
from karenina_core.data.rubrics import DynamicRubric, Rubric
from karenina_core.namespaces import is_owned
from karenina_core.text import compose
from karenina_template.question_template import template_source_of
from karenina_template.templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from karenina_core.data.rubrics import RubricTrait

FORMAT_VERSION = 1
"""The version of this format. Files with a newer version are rejected."""
FORMAT_PROPERTY = "karenina_format_version"
REFERENCE_MAJOR = 3

CONTEXT: dict[str, Any] = {
    "@version": 1.1,
    "@vocab": "http://schema.org/",
    "karenina": "https://github.com/biocypher/karenina#",
    "dataFeedElement": {"@id": "dataFeedElement", "@container": "@set"},
    "rating": {"@id": "rating", "@container": "@set"},
    "additionalProperty": {"@id": "additionalProperty", "@container": "@set"},
    "keywords": {"@id": "keywords", "@container": "@set"},
}
_TEMPLATE_NAME = "Answer template"
_CUSTOM_PREFIX = "custom_"
_ROOT_PROPERTIES = {"workspace_root", "karenina_run_config"}
_QUESTION_PROPERTIES = {"author", "sources", "attachments", "few_shot_examples", "workspace_path", "plugin_fields"}


def serialize_checkpoint(benchmark: BenchmarkContent, path: Path) -> str:
    """Return the benchmark as the text of a JSON-LD document. Raises `BenchmarkFileError` for `path` if the benchmark
    contains something that a checkpoint cannot represent.
    """
    _check_unread(benchmark, path)
    unread = dict(benchmark.unread)
    properties = _benchmark_properties(benchmark)
    properties.extend(as_list(unread.pop("properties", None)))
    creator = unread.pop("creator", None)
    if not isinstance(creator, dict) or creator.get("name", "") != benchmark.creator:
        creator = benchmark.creator
    data: dict[str, Any] = {
        "@context": unread.pop("@context", CONTEXT),
        "@type": "DataFeed",
        "@id": benchmark.id,
        "name": benchmark.name,
        "description": benchmark.description,
        "version": benchmark.version,
        "creator": creator,
        "dateCreated": benchmark.date_created,
        "dateModified": benchmark.date_modified,
        "rating": _make_all_ratings(benchmark.global_rubric, benchmark.dynamic_rubric, "Global"),
        "dataFeedElement": [_make_item(question, number, path) for number, question in enumerate(benchmark, 1)],
        "additionalProperty": properties,
    }
    data = {key: value for key, value in data.items() if value is not None and (key != "rating" or value)}
    try:
        return json.dumps({**data, **unread}, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise BenchmarkFileError(
            path, "", f"a value cannot be saved as JSON: {error}", "check metadata, run_config and sources"
        ) from error


def _benchmark_properties(benchmark: BenchmarkContent) -> list[Any]:
    """Return the benchmark's properties: format version, workspace root, run configuration and metadata."""
    properties = [property_value(FORMAT_PROPERTY, FORMAT_VERSION)]
    if benchmark.workspace_root is not None:
        properties.append(property_value("workspace_root", str(benchmark.workspace_root)))
    if benchmark.run_config:
        properties.append(property_value("karenina_run_config", benchmark.run_config))
    properties.extend(property_value(_CUSTOM_PREFIX + key, value) for key, value in benchmark.metadata.items())
    return properties


def _check_unread(benchmark: BenchmarkContent, path: Path) -> None:
    """Raise `BenchmarkFileError` for `unread` content from another format that a checkpoint cannot represent."""
    place = "the benchmark"
    try:
        check_unread(benchmark.unread, _ROOT_KEYS - {"@context", "creator"}, {})
        _check_unread_properties(benchmark.unread, _ROOT_PROPERTIES, _benchmark_properties(benchmark))
        for rubric in (benchmark.global_rubric, benchmark.dynamic_rubric):
            check_unread_in_traits(rubric.traits if rubric is not None else ())
        for number, question in enumerate(benchmark, 1):
            place = _locate(number, question.id)
            check_unread(question.unread, _ITEM_KEYS, {**_PARTS, "question": _QUESTION_KEYS})
            _check_unread_properties(question.unread, _QUESTION_PROPERTIES, _question_properties(question))
            for rubric in (question.rubric, question.dynamic_rubric):
                check_unread_in_traits(rubric.traits if rubric is not None else ())
    except BenchmarkFileError:
        raise
    except ValueError as error:
        raise BenchmarkFileError(path, place, str(error), "") from error


def _check_unread_properties(unread: Mapping[str, Any], known: Set[str], written: list[Any]) -> None:
    """Raise `ValueError` for an unknown property that would be mistaken for a known value when it is read back. `known`
    contains the names of properties that are read as values, and `written` the properties written for them.
    """
    names = {entry["name"] for entry in written}
    for name in Properties(unread.get("properties")).names():
        if (name in known or name.startswith(_CUSTOM_PREFIX)) and name not in names:
            raise ValueError(
                f"`unread.properties` contains {name!r}, which would be read back as a known property; remove it"
            )


def _make_item(question: Question, number: int, path: Path) -> dict[str, Any]:
    """Return a question as a `DataFeedItem`. Raises `BenchmarkFileError` if its template class has no source."""
    try:
        source = template_source_of(question)
    except TemplateError as error:
        raise BenchmarkFileError(
            path, _locate(number, question.id), str(error), "pass the template as source code instead of a class"
        ) from error
    unread: dict[str, Any] = dict(question.unread)
    content: dict[str, Any] = {"@type": "Question", "text": question.question}
    if question.raw_answer is not None or "answer" in unread:
        content["acceptedAnswer"] = {"@type": "Answer", **unread.pop("answer", {})}
        if question.raw_answer is not None:
            content["acceptedAnswer"]["text"] = question.raw_answer
    if source is not None or "code" in unread:
        language = {} if source is None else {"programmingLanguage": "Python"}
        content["hasPart"] = {
            "@type": "SoftwareSourceCode",
            "name": _TEMPLATE_NAME,
            **language,
            **unread.pop("code", {}),
        }
        if source is not None:
            content["hasPart"]["text"] = source
    ratings = _make_all_ratings(question.rubric, question.dynamic_rubric, "QuestionSpecific")
    if ratings:
        content["rating"] = ratings
    properties = _question_properties(question)
    properties.extend(as_list(unread.pop("properties", None)))
    if properties:
        content["additionalProperty"] = properties
    content.update(unread.pop("question", {}))
    item: dict[str, Any] = {"@type": "DataFeedItem", "@id": question.id}
    if question.date_created is not None:
        item["dateCreated"] = question.date_created
    if question.date_modified is not None:
        item["dateModified"] = question.date_modified
    item["item"] = content
    if question.keywords:
        item["keywords"] = list(question.keywords)
    return {**item, **unread}


def _question_properties(question: Question) -> list[Any]:
    """Return a question's properties: fields that have no key in schema.org, and its metadata. Except for the workspace
    path and the metadata, all values are JSON strings.
    """
    properties: list[Any] = []
    for name in ("author", "sources"):
        value = getattr(question, name)
        if value is not None:
            properties.append(property_value(name, json.dumps(value, ensure_ascii=False)))
    if question.few_shot_examples:
        examples = [example.model_dump() for example in question.few_shot_examples]
        properties.append(property_value("few_shot_examples", json.dumps(examples, ensure_ascii=False)))
    if question.attachments:
        files = [serialize_attachment(attachment) for attachment in question.attachments]
        properties.append(property_value("attachments", json.dumps(files, ensure_ascii=False)))
    if question.workspace_path is not None:
        properties.append(property_value("workspace_path", question.workspace_path))
    if question.extra:
        properties.append(property_value("plugin_fields", json.dumps(question.extra, ensure_ascii=False)))
    properties.extend(property_value(_CUSTOM_PREFIX + key, value) for key, value in question.metadata.items())
    return properties


def _make_all_ratings(rubric: Rubric | None, dynamic: DynamicRubric | None, scope: str) -> list[dict[str, Any]]:
    """Return static and dynamic traits as `Rating`s. `scope` is "Global" or "QuestionSpecific"."""
    static = make_ratings(rubric.traits, scope) if rubric is not None else []
    return static + (make_ratings(dynamic.traits, scope, dynamic=True) if dynamic is not None else [])


def read_checkpoint(text: str, path: Path) -> BenchmarkContent:
    """Read a benchmark from JSON-LD, or from JSON written by the reference project's graphical interface. Errors in
    questions and global traits are not raised, but collected in `broken`. Raises `BenchmarkFileError` for `path` if
    nothing can be read.
    """
    try:
        data = as_checkpoint(parse_object(text, path), path)
    except BenchmarkFileError:
        raise
    except ValueError as error:
        raise _make_error(error, path, "", "correct the file; nothing was loaded") from error
    if data.get("@type", "DataFeed") != "DataFeed":
        raise BenchmarkFileError(
            path, "@type", f"the file contains a {data['@type']!r}, not a DataFeed", "pass a benchmark file"
        )
    place = "the benchmark"
    try:
        properties = Properties(data.get("additionalProperty"))
        _check_version(properties, path)
        benchmark = _read_head(data, properties)
        rest = _unknown_keys(data, _ROOT_KEYS)
        if isinstance(data.get("creator"), dict):
            rest["creator"] = data["creator"]
        _read_global_rubric(benchmark, as_list(data.get("rating")) + _take_global_rubric(rest), path)
        if properties.rest:
            rest["properties"] = properties.rest
        if data.get("@context") not in (None, CONTEXT):
            rest["@context"] = data["@context"]
        benchmark.unread = rest
        seen: dict[str, int] = {}
        for number, item in enumerate(as_list(data.get("dataFeedElement")), 1):
            place = _locate(number, item.get("@id") if isinstance(item, dict) else None)
            try:
                question = _read_item(item)
                place = _locate(number, question.id)
                first = seen.setdefault(compose(question.id), number)
                if first != number:
                    raise ValueError(f"question {first} has the same id; give one of the two questions a different @id")
                _add_question(benchmark, question)
            except (ValueError, TypeError) as error:
                benchmark.broken.append(_make_error(error, path, place, "correct the question"))
        scenarios = list_scenarios(benchmark)
        if scenarios and not data.get("dataFeedElement"):
            what = f"the file contains no questions, but {describe_scenarios(scenarios)}"
            cure = "write scenarios as questions with `turns`, or add the question of each node to a benchmark"
            benchmark.broken.append(BenchmarkFileError(path, "hasPart", what, cure))
    except BenchmarkFileError:
        raise
    except (ValueError, TypeError) as error:
        raise _make_error(error, path, place, "correct the file; nothing was loaded") from error
    return benchmark


def _read_global_rubric(benchmark: BenchmarkContent, ratings: Sequence[Any], path: Path) -> None:
    """Set the benchmark's rubrics from `ratings`. Traits with errors are left out, and their errors are not raised, but
    added to `broken`. A rubric without traits is None.
    """
    traits: dict[str, RubricTrait] = {}
    concepts: dict[str, RubricTrait] = {}
    for number, rating in enumerate(ratings, 1):
        place = f"rating {number}"
        try:
            static, dynamic = read_traits([rating])
            place += f" ({rating['name']})"
            DynamicRubric.of(*dynamic)
            for trait, by_name in [*((trait, traits) for trait in static), *((trait, concepts) for trait in dynamic)]:
                if by_name.setdefault(trait.name, trait) is not trait:
                    raise ValueError(
                        f"an earlier trait in the rubric has the same name {trait.name!r}; rename one of them"
                    )
        except (ValueError, TypeError) as error:
            benchmark.broken.append(_make_error(error, path, place, "correct the trait"))
    benchmark.global_rubric = Rubric.of(*traits.values()) or None
    benchmark.dynamic_rubric = DynamicRubric.of(*concepts.values()) or None


def _make_error(error: ValueError | TypeError, path: Path, place: str, cure: str) -> BenchmarkFileError:
    """Return the error for an exception at `place`. A validation error may describe several problems."""
    what = explain_error(error) if isinstance(error, ValueError) else str(error)
    return BenchmarkFileError(path, place, what, cure, cause=error)


def _add_question(benchmark: BenchmarkContent, question: Question) -> None:
    """Add a question without changing the modification date."""
    modified = benchmark.date_modified
    benchmark.add_questions([question])
    benchmark.date_modified = modified


_ROOT_KEYS = {
    "@context",
    "@type",
    "@id",
    "name",
    "description",
    "version",
    "creator",
    "dateCreated",
    "dateModified",
    "rating",
    "dataFeedElement",
    "additionalProperty",
}
_ITEM_KEYS = {"@type", "@id", "dateCreated", "dateModified", "item", "keywords"}
_PARTS = {"answer": {"@type", "text"}, "code": {"@type", "text"}}
"""The known keys of a question's parts. All other keys are kept in `unread`."""
_QUESTION_KEYS = {"@type", "text", "acceptedAnswer", "hasPart", "rating", "additionalProperty", "keywords"}


def _check_version(properties: Properties, path: Path) -> None:
    """Remove Karenina's format version from `properties`. Raises `BenchmarkFileError` if the version is not supported,
    or if there is none and that of the reference project is not supported. A file without either is accepted.
    """
    version = properties.take(FORMAT_PROPERTY)
    reference_version = next(
        (e.get("value") for e in properties.rest if isinstance(e, dict) and e.get("name") == REFERENCE_PROPERTY), None
    )
    where = f"additionalProperty {FORMAT_PROPERTY if version is not None else REFERENCE_PROPERTY}"
    if version is not None and (isinstance(version, bool) or version not in range(1, FORMAT_VERSION + 1)):
        raise BenchmarkFileError(path, where, *describe_version(version, FORMAT_VERSION))
    if version is None and reference_version is not None:
        major = str(reference_version).split(".", maxsplit=1)[0]
        if not major.isdecimal() or int(major) > REFERENCE_MAJOR:
            raise BenchmarkFileError(path, where, *describe_version(reference_version, REFERENCE_MAJOR))


def _read_head(data: Mapping[str, Any], properties: Properties) -> BenchmarkContent:
    """Read the benchmark without its questions and traits, removing the values that were read from `properties`. Raises
    `ValueError` if a value is invalid.
    """
    benchmark = BenchmarkContent(_read_text(data, "name"), id=_read_text(data, "@id", "") or None)
    benchmark.description = _read_text(data, "description", "")
    benchmark.version = _read_text(data, "version", "")
    creator = data.get("creator")
    benchmark.creator = _read_text(creator if isinstance(creator, dict) else data, _creator_key(creator), "")
    benchmark.date_created = _read_text(data, "dateCreated", None)
    benchmark.date_modified = _read_text(data, "dateModified", None)
    root = properties.take("workspace_root")
    benchmark.workspace_root = None if root is None else Path(root)
    run_config = properties.take("karenina_run_config", {})
    if not isinstance(run_config, dict):
        raise ValueError("karenina_run_config must be an object")  # noqa: TRY004
    benchmark.run_config = run_config
    benchmark.metadata = _take_custom(properties)
    return benchmark


def _read_item(item: object) -> Question:
    """Return the question in a `DataFeedItem`. Raises `ValueError` or `TypeError` if the question is invalid."""
    if not isinstance(item, dict):
        raise ValueError("an element of dataFeedElement must be a DataFeedItem object")  # noqa: TRY004
    content = item.get("item")
    if not isinstance(content, dict):
        raise ValueError("the `item` key must contain a Question object")  # noqa: TRY004
    properties = Properties(content.get("additionalProperty"))
    answer, code = _read_part(content, "acceptedAnswer"), _read_part(content, "hasPart")
    traits, dynamic = read_traits(as_list(content.get("rating")))
    values: dict[str, Any] = {
        "id": _read_text(item, "@id", ""),
        "question": _read_text(content, "text"),
        "raw_answer": answer.pop("text", None),
        "answer_template": code.pop("text", None),
        "keywords": [*_read_keywords(item), *_read_keywords(content)],
        "rubric": Rubric.of(*traits),
        "dynamic_rubric": DynamicRubric.of(*dynamic),
        "author": _decode_json(properties.take("author")),
        "sources": _decode_json(properties.take("sources")),
        "few_shot_examples": _decode_json(properties.take("few_shot_examples")) or [],
        "attachments": _decode_json(properties.take("attachments")) or [],
        "workspace_path": properties.take("workspace_path"),
        "extra": _read_extra(_decode_json(properties.take("plugin_fields"))),
        "metadata": _take_custom(properties),
        "date_created": _read_text(item, "dateCreated", None),
        "date_modified": _read_text(item, "dateModified", None),
    }
    code = {key: value for key, value in code.items() if (key, value) not in _CODE_DEFAULTS}
    unread = _unknown_keys(item, _ITEM_KEYS)
    others = {
        "answer": answer,
        "code": code,
        "question": _unknown_keys(content, _QUESTION_KEYS),
        "properties": properties.rest,
    }
    unread.update({key: value for key, value in others.items() if value})
    return Question.model_validate({**values, "unread": unread})


def _read_extra(value: object) -> dict[str, Any]:
    """Return plugin fields unchanged, or an empty dict for None. Raises `ValueError` for a field that no plugin can
    own, because it could replace one of the question's own fields.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("plugin_fields must be an object")  # noqa: TRY004
    for name in value:
        if not is_owned(name, "question_fields"):
            raise ValueError(
                f"plugin_fields contains {name!r}, but plugin field names must start with the plugin's package name"
            )
    return value


_CODE_DEFAULTS = [("name", _TEMPLATE_NAME), ("programmingLanguage", "Python")]


def _take_global_rubric(rest: dict[str, Any]) -> list[Any]:
    """Remove `globalRubric` from `rest`, and return its traits as `Rating`s. Any other content of `globalRubric` stays
    in `rest`.
    """
    plain = rest.get("globalRubric")
    if not isinstance(plain, dict):
        return []
    ratings, others = plain_ratings(plain, "Global")
    rest.pop("globalRubric")
    if others:
        rest["globalRubric"] = others
    return ratings


def _locate(number: int, question_id: object) -> str:
    """Return a question's number, with its id if it has one, for messages."""
    return f"question {number} ({question_id})" if question_id else f"question {number}"


def _unknown_keys(data: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in known}


def _read_keywords(part: Mapping[str, Any]) -> list[Any]:
    """Return an object's keywords, from a list or from a comma-separated string as in schema.org."""
    value = part.get("keywords")
    return [*split_keywords([value])] if isinstance(value, str) else as_list(value)


def _read_part(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key without its `@type`, or an empty dict if it is missing. Raises `ValueError` if
    there are several objects or another kind of value.
    """
    parts = as_list(content.get(key))
    if len(parts) > 1 or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{key} must be a single object")
    return {name: value for part in parts for name, value in part.items() if name != "@type"}


def _creator_key(creator: object) -> str:
    """Return the key for the creator's name. A creator is a string or, as schema.org prefers, an object."""
    return "name" if isinstance(creator, dict) else "creator"


_REQUIRED = object()


def _read_text(data: Mapping[str, Any], key: str, default: Any = _REQUIRED) -> Any:
    """Return the string under a key, or `default` if it is missing or null. A numeric `version` becomes a string.
    Raises `ValueError` for any other value, or if there is neither a string nor a default.
    """
    value = data.get(key)
    if value is None:
        if default is _REQUIRED:
            raise ValueError(f"{key!r} is missing")
        return default
    if isinstance(value, int | float) and not isinstance(value, bool) and key == "version":
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{key!r} must be a string, not {value!r:.80}")  # noqa: TRY004
    return value


def _decode_json(value: Any) -> Any:
    """Decode a JSON string. A string that is not JSON, or any other value, is returned unchanged."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _take_custom(properties: Properties) -> dict[str, Any]:
    """Remove the custom properties, and return them by name without the prefix `custom_`."""
    names = [name for name in properties.names() if name.startswith(_CUSTOM_PREFIX)]
    return {name.removeprefix(_CUSTOM_PREFIX): properties.take(name) for name in dict.fromkeys(names)}
