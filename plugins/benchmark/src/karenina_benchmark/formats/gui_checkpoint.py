"""JSON files from the reference project's graphical interface, read as JSON-LD checkpoints.

Checkpoints from before JSON-LD have the form `{"version": "2.0", "global_rubric": ..., "dataset_metadata": ...,
"checkpoint": {id: question}}`, and files of extracted questions have the form `{id: question}`. Unknown content is kept
in the same places as in a JSON-LD checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.formats.checkpoint_traits import property_value, set_callable_code

_WORDS: Final = {
    "llm_traits": "RubricTrait",
    "traits": "RubricTrait",
    "regex_traits": "RegexTrait",
    "callable_traits": "CallableTrait",
    "metric_traits": "MetricRubricTrait",
    "agentic_traits": "AgenticRubricTrait",
}
"""The kind of the traits in each list of a rubric. Early files have a single list, `traits`."""
_QUESTION: Final = {"question", "raw_answer", "answer_template"}
_DATES: Final = {"date_created": "dateCreated", "last_modified": "dateModified"}
_KNOWN: Final = {*_QUESTION, *_DATES, "finished", "question_rubric", "keywords", "custom_metadata", "metadata"}
_ENCODED: Final = ("author", "sources", "few_shot_examples")
_FEED: Final = {"@context", "@type", "name", "dataFeedElement"}
"""Keys that occur in JSON-LD checkpoints."""


def as_checkpoint(data: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
    """Convert a file from the graphical interface to a JSON-LD checkpoint. Other files are returned unchanged. If the
    benchmark has no name, it is named after `path`. Raises `ValueError` for an invalid rubric.
    """
    questions = data.get("checkpoint")
    if _FEED & data.keys():
        return data
    if isinstance(questions, Mapping):
        rest = {
            key: value for key, value in data.items() if key not in ("checkpoint", "global_rubric", "dataset_metadata")
        }
        rubric, about = data.get("global_rubric"), data.get("dataset_metadata")
    elif data and all(isinstance(entry, Mapping) and entry.keys() >= _QUESTION for entry in data.values()):
        questions, rest, rubric, about = data, {}, None, None
    else:
        return data
    rest.pop("version", None)
    named = dict(about) if isinstance(about, Mapping) else {}
    custom = named.pop("custom_properties", None)
    rest |= named
    rest["name"] = str(rest.get("name") or path.stem)
    if isinstance(custom, Mapping) and custom:
        rest["additionalProperty"] = [property_value(f"custom_{key}", value) for key, value in custom.items()]
    ratings, others = plain_ratings(rubric, "Global") if isinstance(rubric, Mapping) else ([], {})
    return {
        **rest,
        **({"rating": ratings} if ratings else {}),
        **({"globalRubric": others} if others else {}),
        "dataFeedElement": [_as_item(str(id), question) for id, question in questions.items()],
    }


def plain_ratings(plain: Mapping[str, Any], scope: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the traits of a rubric, which are plain objects here, as `Rating`s, and the remaining content of the
    rubric. `scope` is "Global" or "QuestionSpecific". Raises `ValueError` for a value that is not a trait.
    """
    ratings: list[dict[str, Any]] = []
    for name, word in _WORDS.items():
        traits = plain.get(name)
        for trait in traits if isinstance(traits, list) else [] if traits is None else [traits]:
            if not isinstance(trait, Mapping):
                raise ValueError(f"{name} in the rubric contains a value that is not a trait: {trait!r:.80}")  # noqa: TRY004
            values = {key: value for key, value in trait.items() if key not in ("name", "description")}
            if "callable_code" in values:
                set_callable_code(values)
            ratings.append(
                {
                    "name": trait.get("name"),
                    "description": trait.get("description"),
                    "additionalType": f"{scope}{word}",
                    "additionalProperty": [property_value(key, value) for key, value in values.items()],
                }
            )
    return ratings, {key: value for key, value in plain.items() if key not in _WORDS}


def _as_item(id: str, data: Any) -> Any:
    """Convert a question from the graphical interface to a `DataFeedItem`. A value that is not a mapping is returned
    unchanged.
    """
    if not isinstance(data, Mapping):
        return data
    content: dict[str, Any] = {"text": data.get("question")}
    if data.get("raw_answer") is not None:
        content["acceptedAnswer"] = {"text": data["raw_answer"]}
    if data.get("answer_template"):
        content["hasPart"] = {"text": data["answer_template"]}
    rubric = data.get("question_rubric")
    others: dict[str, Any] = {}
    if isinstance(rubric, Mapping):
        content["rating"], others = plain_ratings(rubric, "QuestionSpecific")
    properties = [property_value(name, value) for name, value in _properties(data)]
    if properties:
        content["additionalProperty"] = properties
    content |= {key: value for key, value in data.items() if _is_unknown(key, value, data)}
    content |= {"question_rubric": others} if others else {}
    about = data.get("metadata")
    keywords = data.get("keywords") or (about.get("keywords") if isinstance(about, Mapping) else None)
    dates = {new: data[old] for old, new in _DATES.items() if data.get(old) is not None}
    return {"@type": "DataFeedItem", "@id": id, **dates, "keywords": keywords or [], "item": content}


def _is_unknown(key: str, value: Any, data: Mapping[str, Any]) -> bool:
    """Return whether an entry in a question is unknown and has to be kept. A question's original template is only kept
    if it differs from the current one.
    """
    if key == "original_answer_template":  # kept if the template has been changed since it was drafted
        return bool(value) and value != data.get("answer_template")
    return value is not None and key not in _KNOWN and key not in _ENCODED


def _properties(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a question's properties. These are `finished`, author, sources and few-shot
    examples if present, and custom metadata with the prefix `custom_`.
    """
    if "finished" in data:
        yield "finished", data["finished"]
    for name in _ENCODED:
        if data.get(name):
            yield name, data[name]
    for key in ("custom_metadata", "metadata"):
        values = data.get(key)
        for name, value in values.items() if isinstance(values, Mapping) else ():
            if key == "metadata" and name == "author" and value:
                yield "author", value
            elif name != "keywords" or key != "metadata":
                yield f"custom_{name}", value
