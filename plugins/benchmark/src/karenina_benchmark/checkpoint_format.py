"""The JSON-LD checkpoint: a benchmark in schema.org's words.

    DataFeed                          the benchmark
      rating: [Rating]                global traits
      additionalProperty              format version, run configuration, custom_... metadata
      dataFeedElement: [DataFeedItem] one for each question: id, dates, keywords
        item: Question                text, acceptedAnswer: Answer, hasPart: SoftwareSourceCode (the template),
                                      rating: [Rating], additionalProperty (author, sources, custom_... metadata)

Files of the reference project have this form too and are read as they are. What a file says beyond it is kept in
`unread` and written back. Reading never executes anything.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_benchmark.checkpoint_traits import (
    REFERENCE_PROPERTY,
    Properties,
    check_unread_in_traits,
    make_ratings,
    property_value,
    read_traits,
    set_callable_code,
)
from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.errors import CheckpointError, explain
from karenina_benchmark.keywords import split_keywords
from karenina_benchmark.strict_json import parse_object
from karenina_benchmark.unknown_content import check_unread
from karenina_core.data.question import Question
from karenina_core.data.rubrics import DynamicRubric, Rubric
from karenina_template.question_template import template_source_of
from karenina_template.templates.errors import TemplateError

if TYPE_CHECKING:
    from collections.abc import Mapping, Set

FORMAT_VERSION = 1
"""The version of our form; a newer one is refused."""
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
_CUSTOM = "custom_"
_ROOT_PROPERTIES = {"workspace_root", "karenina_run_config"}
_QUESTION_PROPERTIES = {"author", "sources", "few_shot_examples", "workspace_path"}
_RUBRIC_LISTS = ("llm_traits", "regex_traits", "callable_traits", "metric_traits", "agentic_traits")


def serialize_checkpoint(benchmark: BenchmarkContent, path: Path) -> str:
    """The benchmark as the text of a checkpoint. Raises `CheckpointError`; `path` is only named in it."""
    _check_unread(benchmark, path)
    unread = dict(benchmark.unread)
    properties = _own_properties(benchmark)
    properties.extend(_list(unread.pop("properties", None)))
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
        "rating": _ratings(benchmark.global_rubric, benchmark.dynamic_rubric, "Global"),
        "dataFeedElement": [_item(question, place, path) for place, question in enumerate(benchmark, 1)],
        "additionalProperty": properties,
    }
    data = {key: value for key, value in data.items() if value is not None and (key != "rating" or value)}
    try:
        return json.dumps({**data, **unread}, ensure_ascii=False, indent=2, allow_nan=False) + "\n"
    except (TypeError, ValueError) as error:
        raise CheckpointError(
            path, "", f"the benchmark holds what JSON cannot: {error}", "look at metadata, run_config and sources"
        ) from error


def _own_properties(benchmark: BenchmarkContent) -> list[Any]:
    found = [property_value(FORMAT_PROPERTY, FORMAT_VERSION)]
    if benchmark.workspace_root is not None:
        found.append(property_value("workspace_root", str(benchmark.workspace_root)))
    if benchmark.run_config:
        found.append(property_value("karenina_run_config", benchmark.run_config))
    found.extend(property_value(_CUSTOM + key, value) for key, value in benchmark.metadata.items())
    return found


def _check_unread(benchmark: BenchmarkContent, path: Path) -> None:
    """Raise `CheckpointError` for what is `unread` by another form's word, and has no place in a checkpoint."""
    place = "the benchmark"
    try:
        check_unread(benchmark.unread, _ROOT_KEYS - {"@context", "creator"}, {})
        _check_unread_properties(benchmark.unread, _ROOT_PROPERTIES, _own_properties(benchmark))
        for rubric in (benchmark.global_rubric, benchmark.dynamic_rubric):
            check_unread_in_traits(rubric.traits if rubric is not None else ())
        for number, question in enumerate(benchmark, 1):
            place = _where(number, question.id)
            check_unread(question.unread, _ITEM_KEYS, {**_PARTS, "question": _QUESTION_KEYS})
            _check_unread_properties(question.unread, _QUESTION_PROPERTIES, _question_properties(question))
            for rubric in (question.rubric, question.dynamic_rubric):
                check_unread_in_traits(rubric.traits if rubric is not None else ())
    except CheckpointError:
        raise
    except ValueError as error:
        raise CheckpointError(path, place, str(error), "") from error


def _check_unread_properties(unread: Mapping[str, Any], known: Set[str], written: list[Any]) -> None:
    """Raise `ValueError` for a property that would be read as a value that the benchmark or question does not have.

    `known` are the names that are read, `written` the properties of such values.
    """
    names = {one["name"] for one in written}
    for name in Properties(unread.get("properties")).names():
        if (name in known or name.startswith(_CUSTOM)) and name not in names:
            raise ValueError(f"`unread.properties` holds {name!r}, which would be read as a value; remove it")


def _item(question: Question, place: int, path: Path) -> dict[str, Any]:
    try:
        source = template_source_of(question)
    except TemplateError as error:
        raise CheckpointError(
            path, _where(place, question.id), str(error), "give the template as source text instead of a class"
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
    ratings = _ratings(question.rubric, question.dynamic_rubric, "QuestionSpecific")
    if ratings:
        content["rating"] = ratings
    properties = _question_properties(question)
    properties.extend(_list(unread.pop("properties", None)))
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
    found: list[Any] = []
    for name in ("author", "sources"):
        value = getattr(question, name)
        if value is not None:
            found.append(property_value(name, json.dumps(value, ensure_ascii=False)))
    if question.few_shot_examples:
        examples = [example.model_dump() for example in question.few_shot_examples]
        found.append(property_value("few_shot_examples", json.dumps(examples, ensure_ascii=False)))
    if question.workspace_path is not None:
        found.append(property_value("workspace_path", question.workspace_path))
    found.extend(property_value(_CUSTOM + key, value) for key, value in question.metadata.items())
    return found


def _ratings(rubric: Rubric | None, dynamic: DynamicRubric | None, scope: str) -> list[dict[str, Any]]:
    static = make_ratings(rubric.traits, scope) if rubric is not None else []
    return static + (make_ratings(dynamic.traits, scope, dynamic=True) if dynamic is not None else [])


def read_checkpoint(text: str, path: Path) -> BenchmarkContent:
    """The benchmark that a checkpoint's text holds. Raises `CheckpointError`; `path` is only named in it."""
    data = parse_object(text, path)
    if data.get("@type", "DataFeed") != "DataFeed":
        raise CheckpointError(
            path, "@type", f"this is a {data['@type']!r}, not a DataFeed", "give the file of a benchmark"
        )
    place = "the benchmark"
    try:
        properties = Properties(data.get("additionalProperty"))
        _check_version(properties, path)
        benchmark = _read_head(data, properties)
        rest = _rest(data, _ROOT_KEYS)
        if isinstance(data.get("creator"), dict):
            rest["creator"] = data["creator"]
        traits, dynamic = read_traits(_list(data.get("rating")) + _global_rubric(rest))
        benchmark.global_rubric = Rubric.of(*traits) or None
        benchmark.dynamic_rubric = DynamicRubric.of(*dynamic) or None
        if properties.rest:
            rest["properties"] = properties.rest
        if data.get("@context") not in (None, CONTEXT):
            rest["@context"] = data["@context"]
        benchmark.unread = rest
        seen: dict[str, int] = {}
        for number, item in enumerate(_list(data.get("dataFeedElement")), 1):
            place = _where(number, item.get("@id") if isinstance(item, dict) else None)
            try:
                question = _read_item(item)
                place = _where(number, question.id)
                if question.id in seen:
                    raise ValueError(f"question {seen[question.id]} has the same id; give one of the two another @id")
                seen[question.id] = number
                _keep(benchmark, question)
            except (ValueError, TypeError) as error:
                benchmark.broken.append(_error(error, path, place, "correct it there"))
    except CheckpointError:
        raise
    except (ValueError, TypeError) as error:
        raise _error(error, path, place, "correct it there; nothing was loaded") from error
    return benchmark


def _error(error: ValueError | TypeError, path: Path, place: str, cure: str) -> CheckpointError:
    what = explain(error) if isinstance(error, ValueError) else str(error)
    found = CheckpointError(path, place, what, cure)
    found.__cause__ = error
    return found


def _keep(benchmark: BenchmarkContent, question: Question) -> None:
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
"""The parts of a question whose keys are kept in `unread`, and those of their keys that are known."""
_QUESTION_KEYS = {"@type", "text", "acceptedAnswer", "hasPart", "rating", "additionalProperty", "keywords"}


def _check_version(properties: Properties, path: Path) -> None:
    version = properties.take(FORMAT_PROPERTY)
    theirs = next(
        (e.get("value") for e in properties.rest if isinstance(e, dict) and e.get("name") == REFERENCE_PROPERTY), None
    )
    where = f"additionalProperty {FORMAT_PROPERTY if version is not None else REFERENCE_PROPERTY}"
    cure = "update karenina-core, or save the file with the version that is installed here"
    if version is not None and (isinstance(version, bool) or version not in range(1, FORMAT_VERSION + 1)):
        raise CheckpointError(
            path, where, f"the file has format version {version!r}; versions up to {FORMAT_VERSION} can be read", cure
        )
    if version is None and theirs is not None:
        major = str(theirs).split(".", maxsplit=1)[0]
        if not major.isdecimal() or int(major) > REFERENCE_MAJOR:
            raise CheckpointError(
                path,
                where,
                f"the file has format version {theirs!r}; versions up to {REFERENCE_MAJOR} can be read",
                cure,
            )


def _read_head(data: Mapping[str, Any], properties: Properties) -> BenchmarkContent:
    benchmark = BenchmarkContent(_text(data, "name"), id=_text(data, "@id", "") or None)
    benchmark.description = _text(data, "description", "")
    benchmark.version = _text(data, "version", "")
    creator = data.get("creator")
    benchmark.creator = _text(creator if isinstance(creator, dict) else data, _creator_key(creator), "")
    benchmark.date_created = _text(data, "dateCreated", None)
    benchmark.date_modified = _text(data, "dateModified", None)
    root = properties.take("workspace_root")
    benchmark.workspace_root = None if root is None else Path(root)
    run_config = properties.take("karenina_run_config", {})
    if not isinstance(run_config, dict):
        raise ValueError("karenina_run_config is an object")  # noqa: TRY004
    benchmark.run_config = run_config
    benchmark.metadata = _custom(properties)
    return benchmark


def _read_item(item: object) -> Question:
    if not isinstance(item, dict):
        raise ValueError("an element of dataFeedElement is a DataFeedItem object")  # noqa: TRY004
    content = item.get("item")
    if not isinstance(content, dict):
        raise ValueError("it has no `item`, the Question object")  # noqa: TRY004
    properties = Properties(content.get("additionalProperty"))
    answer, code = _part(content, "acceptedAnswer"), _part(content, "hasPart")
    traits, dynamic = read_traits(_list(content.get("rating")))
    values: dict[str, Any] = {
        "id": _text(item, "@id", ""),
        "question": _text(content, "text"),
        "raw_answer": answer.pop("text", None),
        "answer_template": code.pop("text", None),
        "keywords": [*_keywords(item), *_keywords(content)],
        "rubric": Rubric.of(*traits),
        "dynamic_rubric": DynamicRubric.of(*dynamic),
        "author": _decoded(properties.take("author")),
        "sources": _decoded(properties.take("sources")),
        "few_shot_examples": _decoded(properties.take("few_shot_examples")) or [],
        "workspace_path": properties.take("workspace_path"),
        "metadata": _custom(properties),
        "date_created": _text(item, "dateCreated", None),
        "date_modified": _text(item, "dateModified", None),
    }
    code = {key: value for key, value in code.items() if (key, value) not in _CODE_DEFAULTS}
    unread = _rest(item, _ITEM_KEYS)
    others = {"answer": answer, "code": code, "question": _rest(content, _QUESTION_KEYS), "properties": properties.rest}
    unread.update({key: value for key, value in others.items() if value})
    return Question.model_validate({**values, "unread": unread})


_CODE_DEFAULTS = [("name", _TEMPLATE_NAME), ("programmingLanguage", "Python")]


def _global_rubric(rest: dict[str, Any]) -> list[Any]:
    """Traits that stand as plain objects under `globalRubric`, as `Rating`s; what else stands there stays in `rest`."""
    plain = rest.get("globalRubric")
    if not isinstance(plain, dict):
        return []
    found: list[Any] = []
    for name in _RUBRIC_LISTS:
        for trait in _list(plain.get(name)):
            if not isinstance(trait, dict):
                raise ValueError(f"globalRubric.{name} holds what is no trait: {trait!r:.80}")  # noqa: TRY004
            values = {key: value for key, value in trait.items() if key not in ("name", "description")}
            if "callable_code" in values:
                set_callable_code(values)
            found.append(
                {
                    "name": trait.get("name"),
                    "description": trait.get("description"),
                    "additionalType": f"Global{_WORD_OF_LIST[name]}",
                    "additionalProperty": [property_value(key, value) for key, value in values.items()],
                }
            )
    others = {key: value for key, value in plain.items() if key not in _RUBRIC_LISTS}
    rest.pop("globalRubric")
    if others:
        rest["globalRubric"] = others
    return found


_WORD_OF_LIST = dict(
    zip(
        _RUBRIC_LISTS,
        ("RubricTrait", "RegexTrait", "CallableTrait", "MetricRubricTrait", "AgenticRubricTrait"),
        strict=True,
    )
)


def _where(number: int, question_id: object) -> str:
    return f"question {number} ({question_id})" if question_id else f"question {number}"


def _rest(data: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {key: value for key, value in data.items() if key not in known}


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _keywords(part: Mapping[str, Any]) -> list[Any]:
    """Return the keywords of an object: a list, or the text that schema.org divides by commas."""
    value = part.get("keywords")
    return [*split_keywords([value])] if isinstance(value, str) else _list(value)


def _part(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    parts = _list(content.get(key))
    if len(parts) > 1 or not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{key} is one object")
    return {name: value for part in parts for name, value in part.items() if name != "@type"}


def _creator_key(creator: object) -> str:
    """A creator is a text or, as schema.org prefers, an object with a name."""
    return "name" if isinstance(creator, dict) else "creator"


_REQUIRED = object()


def _text(data: Mapping[str, Any], key: str, default: Any = _REQUIRED) -> Any:
    value = data.get(key)
    if value is None:
        if default is _REQUIRED:
            raise ValueError(f"{key!r} is missing")
        return default
    if isinstance(value, int | float) and not isinstance(value, bool) and key == "version":
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is a text, not {value!r:.80}")  # noqa: TRY004
    return value


def _decoded(value: Any) -> Any:
    """A value that is written as JSON inside a text; a text that is no JSON is itself."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _custom(properties: Properties) -> dict[str, Any]:
    names = [name for name in properties.names() if name.startswith(_CUSTOM)]
    return {name.removeprefix(_CUSTOM): properties.take(name) for name in dict.fromkeys(names)}
