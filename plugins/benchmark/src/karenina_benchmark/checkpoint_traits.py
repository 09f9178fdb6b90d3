"""Rubric traits as schema.org `Rating`s, and the `PropertyValue` lists that hold what schema.org has no word for."""

from __future__ import annotations

import base64
import binascii
import json
from typing import TYPE_CHECKING, Any

from karenina_benchmark.errors import explain
from karenina_benchmark.unknown_content import check_unread
from karenina_core.data.rubrics import RegexRubricTrait, RubricTrait, trait_from_json, trait_kinds, trait_to_json
from karenina_core.data.rubrics.llm import owned_trait_fields
from karenina_core.models.model import ModelConfig
from karenina_toolkit.patterns import check_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

REFERENCE_PROPERTY = "benchmark_format_version"
"""The property by which files of the reference project state the version of their form."""
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
"""What older files hold as JSON in a text."""
_SCALED = ("llm", "agentic", "callable")
_OVERRIDE = "model_override"


class Properties:
    """A list of `PropertyValue`s, taken apart by name; what nobody takes stays in `rest`, as it was.

    Raises `ValueError` for what is no such list.
    """

    def __init__(self, listed: object) -> None:
        if listed is None:
            listed = []
        if isinstance(listed, dict):
            listed = [listed]
        if not isinstance(listed, list):
            raise ValueError("additionalProperty is a list of PropertyValue objects")  # noqa: TRY004
        self.rest: list[Any] = listed.copy()

    def take(self, name: str, default: Any = None) -> Any:
        """The value of the first property of this name, which is then no longer in `rest`."""
        for position, entry in enumerate(self.rest):
            if isinstance(entry, dict) and entry.get("name") == name and set(entry) <= {"@type", "name", "value"}:
                del self.rest[position]
                return entry.get("value")
        return default

    def names(self) -> list[str]:
        """The names in `rest` that `take` would find."""
        return [
            entry["name"]
            for entry in self.rest
            if isinstance(entry, dict)
            and isinstance(entry.get("name"), str)
            and set(entry) <= {"@type", "name", "value"}
        ]


def property_value(name: str, value: object) -> dict[str, Any]:
    """One `PropertyValue`."""
    return {"@type": "PropertyValue", "name": name, "value": value}


def make_ratings(traits: Iterable[RubricTrait], scope: str, *, dynamic: bool = False) -> list[dict[str, Any]]:
    """The traits as `Rating`s; `scope` is "Global" or "QuestionSpecific"."""
    return [_rating_of(trait, scope, dynamic) for trait in traits]


def check_unread_in_traits(traits: Iterable[RubricTrait]) -> None:
    """Raise `ValueError` for what is `unread` in a trait and has no place in a `Rating`."""
    for trait in traits:
        try:
            check_unread(trait.unread, frozenset(), {"rating": _OWN_KEYS}, others=False)
        except ValueError as error:
            raise ValueError(f"trait {trait.name!r}: {error}") from error


def _rating_of(trait: RubricTrait, scope: str, dynamic: bool) -> dict[str, Any]:
    values: dict[str, Any] = trait_to_json(trait)
    for key in ("type", "name", "description"):
        values.pop(key, None)
    values.pop("unscorable", None)  # found out anew when it is read
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
    """Return the static and the dynamic traits of a list of `Rating`s.

    A trait whose values do not fit is among them as an `UnknownTrait` with the reason. Raises `ValueError` for what is
    not a `Rating` with a name.
    """
    static: list[RubricTrait] = []
    dynamic: list[RubricTrait] = []
    for position, rating in enumerate(ratings):
        name = rating.get("name") if isinstance(rating, dict) else None
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"rating {position + 1} is not a Rating with a name")
        trait, is_dynamic = _trait_of(rating)
        (dynamic if is_dynamic else static).append(trait)
    return static, dynamic


def _trait_of(rating: Mapping[str, Any]) -> tuple[RubricTrait, bool]:
    properties = Properties(rating.get("additionalProperty"))
    word = str(rating.get("additionalType") or "RubricTrait").removeprefix(_PREFIX)
    for scope in _SCOPES:
        if word.startswith(scope):
            word = word.removeprefix(scope)
            break
    is_dynamic = word == _DYNAMIC
    kind = str(properties.take("dynamic_trait_type", "llm")) if is_dynamic else _KINDS.get(word, word)
    data: dict[str, Any] = {"type": kind, "name": rating["name"], "description": rating.get("description")}
    known = trait_kinds().get(kind)
    fields = {*(known.model_fields if known is not None else ()), *(owned_trait_fields() if kind == "llm" else ())}
    for name in properties.names():
        if name in ("type", "name", "description", "unread") or name in data:
            continue
        if known is None or name in fields or (kind == "callable" and name == "callable_code"):
            data[name] = properties.take(name)
    own = _OWN_KEYS | (_RANGE_KEYS if kind in _WORDS else set())
    unread: dict[str, Any] = {}
    others = {key: value for key, value in rating.items() if key not in own}
    if others:
        unread["rating"] = others
    wrong: str | None = None
    if kind in _WORDS:
        try:
            _as_ours(kind, data, rating)
        except (ValueError, RecursionError) as error:
            wrong = f"a list or mapping in it cannot be read: {error}"
        properties.rest += [property_value(name, data.pop(name)) for name in _without_effect(kind, data)]
        if isinstance(data.get(_OVERRIDE), dict):
            not_ours = _split_override(data)
            properties.rest += [property_value(_OVERRIDE, not_ours)] if not_ours else []
    if properties.rest:
        unread["properties"] = properties.rest
    if unread:
        data["unread"] = unread
    return _scorable(data, wrong, needs_concept=is_dynamic), is_dynamic


def _split_override(data: dict[str, Any]) -> dict[str, Any]:
    """Take null entries, and those that no model of ours has, out of the model of an agentic trait; return the latter.

    The reference project writes all its fields.
    """
    given = {name: value for name, value in data[_OVERRIDE].items() if value is not None}
    data[_OVERRIDE] = {name: value for name, value in given.items() if name in ModelConfig.model_fields}
    return {name: value for name, value in given.items() if name not in ModelConfig.model_fields}


def _scorable(data: Mapping[str, Any], wrong: str | None, *, needs_concept: bool) -> RubricTrait:
    """Return the trait of these values, or one that cannot be scored, with the reason: what is `wrong`, or misfits."""
    if wrong is None:
        try:
            trait = trait_from_json(data)
            if isinstance(trait, RegexRubricTrait):
                _check(trait)
            if needs_concept and not (trait.summary or trait.description):
                raise ValueError("it has neither summary nor description, so no one can say whether an answer has it")
        except ValueError as error:
            wrong = explain(error)
        else:
            return trait
    try:
        return trait_from_json({**data, "unscorable": wrong})
    except ValueError:  # not even what all traits have fits
        bare = {"type": data["type"], "name": data["name"], "unscorable": wrong}
        rest = [property_value(name, value) for name, value in data.items() if name not in (*bare, "unread")]
        unread: dict[str, Any] = data.get("unread", {})
        return trait_from_json({**bare, "unread": {**unread, "properties": [*unread.get("properties", ()), *rest]}})


def _check(trait: RegexRubricTrait) -> None:
    """Raise `ValueError` if the trait's pattern does not compile."""
    try:
        check_pattern(trait.pattern)
    except ValueError as error:
        raise ValueError(f"pattern: {error}") from error


def _without_effect(kind: str, data: Mapping[str, Any]) -> list[str]:
    """Return the values that have no meaning for the trait: bounds without a scale, unwanted things in `tp_only`."""
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


def _as_ours(kind: str, data: dict[str, Any], rating: Mapping[str, Any]) -> None:
    """Bring the values of a built-in kind, as older files have them, into our form."""
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
    """Say in our words what `callable_code` holds: base64 is a pickle, which is kept and never loaded; else source."""
    code = data.pop("callable_code")
    if not code:
        return
    try:
        base64.b64decode(str(code), validate=True)
    except binascii.Error:
        data["source"] = code
    else:
        data["pickled"] = code
