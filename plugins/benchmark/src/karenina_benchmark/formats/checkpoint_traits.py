"""Rubric traits in checkpoints, stored as schema.org `Rating`s with `PropertyValue`s for everything else.

`check_unread` also checks the unknown content of questions and of whole checkpoints before it is saved.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import explain_error
from karenina_core.data.rubrics import (
    RegexRubricTrait,
    RubricTrait,
    UnknownTrait,
    trait_from_json,
    trait_kinds,
    trait_to_json,
)
from karenina_core.models.model import ModelConfig
from karenina_core.namespaces import is_owned
from karenina_toolkit.patterns import check_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

REFERENCE_PROPERTY = "benchmark_format_version"
"""The property for the format version in files written by the reference project."""
_PREFIX = "karenina:"
_SCOPES = ("QuestionSpecific", "Global")
_WORDS = {
    "llm": "RubricTrait",
    "regex": "RegexTrait",
    "callable": "CallableTrait",
    "metric": "MetricRubricTrait",
    "agentic": "AgenticRubricTrait",
}
_KINDS = {word: kind for kind, word in _WORDS.items()} | {
    "LLMRubricTrait": "llm",
    "RegexRubricTrait": "regex",
    "CallableRubricTrait": "callable",
}
_DYNAMIC = "DynamicRubricTrait"
_OWN_KEYS = {"@type", "name", "description", "additionalType", "additionalProperty"}
_RANGE_KEYS = {"bestRating", "worstRating"}
_ENCODED = ("metrics", "tp_instructions", "tn_instructions", "classes")
"""Values that are stored as JSON strings in older files."""
_SCALED = ("llm", "agentic", "callable")
_OVERRIDE = "model_override"


class Properties:
    """A list of `PropertyValue`s to take out by name. All others stay in `rest`.

    None means no properties, and a single object counts as a list of one. Raises `ValueError` for any other value.
    """

    def __init__(self, listed: object) -> None:
        if listed is None:
            listed = []
        if isinstance(listed, dict):
            listed = [listed]
        if not isinstance(listed, list):
            raise ValueError("additionalProperty must be a list of PropertyValue objects")  # noqa: TRY004
        self.rest: list[Any] = listed.copy()

    def take(self, name: str, default: Any = None) -> Any:
        """Remove the first property called `name` from `rest` and return its value, or `default` if there is none.
        Properties with keys other than `@type`, `name` and `value` are not taken, and stay in `rest`.
        """
        for position, entry in enumerate(self.rest):
            if isinstance(entry, dict) and entry.get("name") == name and set(entry) <= {"@type", "name", "value"}:
                del self.rest[position]
                return entry.get("value")
        return default

    def names(self) -> list[str]:
        """Return the names of the properties that `take` would find."""
        return [
            entry["name"]
            for entry in self.rest
            if isinstance(entry, dict)
            and isinstance(entry.get("name"), str)
            and set(entry) <= {"@type", "name", "value"}
        ]


def property_value(name: str, value: object) -> dict[str, Any]:
    """Return a schema.org `PropertyValue` with the given name and value."""
    return {"@type": "PropertyValue", "name": name, "value": value}


def make_ratings(traits: Iterable[RubricTrait], scope: str, *, dynamic: bool = False) -> list[dict[str, Any]]:
    """Return the traits as `Rating`s. `scope` is "Global" or "QuestionSpecific". If `dynamic` is set, they are marked
    as traits of a dynamic rubric.
    """
    return [_make_rating(trait, scope, dynamic) for trait in traits]


def check_unread(
    unread: Mapping[str, Any], taken: Set[str], objects: Mapping[str, Set[str]], *, others: bool = True
) -> None:
    """Raise `ValueError` if `unread` has a key in `taken`, a `properties` that is not a list, or a key of `objects`
    whose value is not an object or contains one of the keys listed there. Unless `others` is set, only `properties` and
    the keys of `objects` are allowed.

    Such content would overwrite other values in a checkpoint or be lost.
    """
    for key, value in unread.items():
        if key in taken or not (others or key in objects or key == "properties"):
            raise ValueError(f"`unread` contains {key!r}, which cannot be saved in a checkpoint; remove it")
        if key == "properties" and not isinstance(value, list):
            raise ValueError("`unread.properties` must be a list")
        if key not in objects:
            continue
        if not isinstance(value, Mapping):
            raise ValueError(f"`unread.{key}` must be an object")  # noqa: TRY004 - a problem of the data
        clashes = sorted(objects[key] & value.keys())
        if clashes:
            raise ValueError(
                f"`unread.{key}` contains {clashes[0]!r}, which cannot be saved in a checkpoint; remove it"
            )


def check_unread_in_traits(traits: Iterable[RubricTrait]) -> None:
    """Raise `ValueError` if a `Rating` cannot represent a trait's `unread` content."""
    for trait in traits:
        try:
            check_unread(trait.unread, frozenset(), {"rating": _OWN_KEYS}, others=False)
        except ValueError as error:
            raise ValueError(f"trait {trait.name!r}: {error}") from error


def _make_rating(trait: RubricTrait, scope: str, dynamic: bool) -> dict[str, Any]:
    """Return a trait as a `Rating`, whose type starts with `scope` ("Global" or "QuestionSpecific") and ends with the
    kind of trait, or is that of dynamic traits if `dynamic` is set. Values that have no key in schema.org become
    properties.
    """
    values: dict[str, Any] = trait_to_json(trait)
    for key in ("type", "name", "description"):
        values.pop(key, None)
    why = values.pop("unscorable", None)  # reading finds the same reason again, so only another one is saved
    if why is not None and why != _find_problem(trait, needs_concept=dynamic):
        values["unscorable"] = why
    unread: dict[str, Any] = values.pop("unread", {})
    rating: dict[str, Any] = {"@type": "Rating", "name": trait.name}
    if trait.description is not None:
        rating["description"] = trait.description
    if trait.type in _WORDS:
        low, high = values.get("min_score"), values.get("max_score")
        rating["bestRating"] = 1 if high is None else high
        rating["worstRating"] = 0 if low is None else low
        if hasattr(trait, "kind"):
            schema = values.pop("template_schema", None)
            values["kind"] = trait.kind if schema is None else {"type": "template", "schema": schema}
        if "pickled" in values:
            values["callable_code"] = values.pop("pickled")
        values.setdefault("higher_is_better", trait.higher_is_better)
    word = _DYNAMIC if dynamic else _WORDS.get(trait.type, trait.type)
    rating["additionalType"] = f"{_PREFIX}{scope}{word}"
    unread_properties = Properties(unread.get("properties"))
    if isinstance(values.get(_OVERRIDE), dict) and isinstance(more := unread_properties.take(_OVERRIDE, {}), dict):
        values[_OVERRIDE] |= more
    properties = [property_value(name, value) for name, value in values.items()]
    if dynamic:
        properties.append(property_value("dynamic_trait_type", trait.type))
    properties.extend(unread_properties.rest)
    if properties:
        rating["additionalProperty"] = properties
    rating.update(unread.get("rating", {}))
    return rating


def read_traits(ratings: Sequence[Mapping[str, Any]]) -> tuple[list[RubricTrait], list[RubricTrait]]:
    """Return the static and dynamic traits in a list of `Rating`s. A trait with invalid values is not an error, but
    becomes an `UnknownTrait` with the reason. Raises `ValueError` for a value that is not a `Rating` with a name.
    """
    static: list[RubricTrait] = []
    dynamic: list[RubricTrait] = []
    for rating in ratings:
        name = rating.get("name") if isinstance(rating, dict) else None
        if not isinstance(name, str) or not name.strip():
            raise ValueError("a rating must be a Rating object with a name")
        trait, is_dynamic = _read_trait(rating)
        (dynamic if is_dynamic else static).append(trait)
    return static, dynamic


def _read_trait(rating: Mapping[str, Any]) -> tuple[RubricTrait, bool]:
    """Read a `Rating`, and return the trait and whether it is dynamic. An invalid trait becomes an `UnknownTrait`."""
    properties = Properties(rating.get("additionalProperty"))
    word = str(rating.get("additionalType") or "RubricTrait").removeprefix(_PREFIX)
    for scope in _SCOPES:
        if word.startswith(scope):
            word = word.removeprefix(scope)
            break
    is_dynamic = word == _DYNAMIC
    kind = str(properties.take("dynamic_trait_type", "llm")) if is_dynamic else _KINDS.get(word, word)
    data: dict[str, Any] = {"type": kind, "name": rating["name"], "description": rating.get("description")}
    trait_class = trait_kinds().get(kind)
    fields = trait_class.model_fields if trait_class is not None else {}
    stated = properties.take("unscorable") if trait_class is not None else None
    for name in properties.names():
        if name in ("type", "name", "description", "unread") or name in data:
            continue
        owned = is_owned(name, "trait_fields")
        if trait_class is None or name in fields or owned or (kind == "callable" and name == "callable_code"):
            data[name] = properties.take(name)
    own = _OWN_KEYS | (_RANGE_KEYS if kind in _WORDS else set())
    unread: dict[str, Any] = {}
    others = {key: value for key, value in rating.items() if key not in own}
    if others:
        unread["rating"] = others
    problem: str | None = None
    if kind in _WORDS:
        try:
            _normalize_values(kind, data, rating)
        except (ValueError, RecursionError) as error:
            problem = f"a list or mapping in the trait cannot be read: {error}"
        properties.rest += [property_value(name, data.pop(name)) for name in _find_unused(kind, data)]
        if isinstance(data.get(_OVERRIDE), dict):
            unknown = _split_override(data)
            properties.rest += [property_value(_OVERRIDE, unknown)] if unknown else []
    if properties.rest:
        unread["properties"] = properties.rest
    if unread:
        data["unread"] = unread
    trait = _make_trait(data, problem, needs_concept=is_dynamic)
    if isinstance(trait, UnknownTrait) and isinstance(stated, str) and stated:
        trait = trait.model_copy(update={"unscorable": stated})
    return trait, is_dynamic


def _split_override(data: dict[str, Any]) -> dict[str, Any]:
    """Reduce the model in `data` of an agentic trait to its known fields, and return the unknown ones. Null fields are
    dropped, because the reference project writes all fields of its models, including fields that Karenina does not
    have.
    """
    override = {name: value for name, value in data[_OVERRIDE].items() if value is not None}
    data[_OVERRIDE] = {name: value for name, value in override.items() if name in ModelConfig.model_fields}
    return {name: value for name, value in override.items() if name not in ModelConfig.model_fields}


def _make_trait(data: Mapping[str, Any], problem: str | None, *, needs_concept: bool) -> RubricTrait:
    """Create a trait, which needs a summary or a description of its concept if `needs_concept` is set. If there is a
    `problem` or a value is missing or invalid, nothing is raised, and the trait is marked as unscorable.
    """
    if problem is None:
        try:
            trait = trait_from_json(data)
            if isinstance(trait, RegexRubricTrait):
                _check_trait_pattern(trait)
            if needs_concept and not (trait.summary or trait.description):
                raise ValueError(
                    "the trait has no summary or description, so its concept cannot be searched for in answers"
                )
        except ValueError as error:
            problem = explain_error(error)
        else:
            return trait
    try:
        return trait_from_json({**data, "unscorable": problem})
    except ValueError:  # even the fields common to all traits are invalid
        bare = {"type": data["type"], "name": data["name"], "unscorable": problem}
        rest = [property_value(name, value) for name, value in data.items() if name not in (*bare, "unread")]
        unread: dict[str, Any] = data.get("unread", {})
        return trait_from_json({**bare, "unread": {**unread, "properties": [*unread.get("properties", ()), *rest]}})


def _find_problem(trait: RubricTrait, *, needs_concept: bool) -> str | None:
    """Return why the trait could not be scored after saving it and reading it back, or None if it could. For
    `needs_concept`, see `_make_trait`.
    """
    values = {name: value for name, value in trait_to_json(trait).items() if name != "unscorable"}
    again = _make_trait(values, None, needs_concept=needs_concept)
    return again.unscorable if isinstance(again, UnknownTrait) else None


def _check_trait_pattern(trait: RegexRubricTrait) -> None:
    """Raise `ValueError` if the trait's pattern does not compile."""
    try:
        check_pattern(trait.pattern)
    except ValueError as error:
        raise ValueError(f"pattern: {error}") from error


def _find_unused(kind: str, data: Mapping[str, Any]) -> list[str]:
    """Return the names of the values in `data` that a trait of the given kind does not use: `tn_instructions` in
    `tp_only` mode, and score bounds of a trait without a scale, unless they count its classes.
    """
    if kind == "metric":
        full = data.get("evaluation_mode") == "full_matrix"
        return [] if full or not data.get("tn_instructions") else ["tn_instructions"]
    bounds = [name for name in ("min_score", "max_score") if data.get(name) is not None]
    if kind not in _SCALED or data.get("kind") == "score":
        return []
    classes = data.get("classes")
    if isinstance(classes, dict) and [data.get(name) for name in bounds] == [0, len(classes) - 1][: len(bounds)]:
        return []
    return bounds


def _normalize_values(kind: str, data: dict[str, Any], rating: Mapping[str, Any]) -> None:
    """Convert values from older files to the current format, changing `data`. Raises `ValueError` or `RecursionError`
    for a value that should be JSON but is not.
    """
    for name in _ENCODED:
        if isinstance(data.get(name), str):
            data[name] = json.loads(data[name])
    if "callable_code" in data:
        set_callable_code(data)
    if kind not in _SCALED:
        return
    best, worst = rating.get("bestRating"), rating.get("worstRating")
    if "kind" not in data:
        data["kind"] = "boolean" if (best, worst) in ((1, 0), (None, None)) else "score"
    if data["kind"] == "score":
        data.setdefault("min_score", worst)
        data.setdefault("max_score", best)


def set_callable_code(data: dict[str, Any]) -> None:
    """Rename `callable_code` in `data` to `pickled` if it is base64 (a pickle, which is never loaded), and otherwise to
    `source`. An empty value is removed.
    """
    code = data.pop("callable_code")
    if not code:
        return
    try:
        base64.b64decode(str(code), validate=True)
    except binascii.Error:
        data["source"] = code
    else:
        data["pickled"] = code
