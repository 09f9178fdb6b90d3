"""Declares fields for promptfoo assertions that compare text."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from typing import Any, Final

from karenina_importing.formats.promptfoo.javascript_patterns import NotTranslated, translate
from karenina_importing.formats.promptfoo.templates import show
from karenina_toolkit.raising import raises

_JUDGED: Final = "The answer that the response gives, as a name, a number or a few words"
_MEANT: Final = "What the response says in answer to the question, in its own words"
_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_LONGEST_ANSWER: Final = 12
"""Values with more words than this are compared with the whole response, not with what a judge extracts."""
_DISTANCE: Final = 5
_SIMILARITY: Final = 0.75


def declare(base: str, value: Any, assertion: Mapping[str, Any], *, negated: bool) -> dict[str, Any] | None:
    """Return the declared field for an assertion of type `base` (without `not-`) and its `value`, or None if no rule
    expresses it, as for a negated `similar`. The ground truth of a `negated` assertion is False. `assertion` provides
    the threshold if the type needs one.
    """
    if base == "equals":
        return _declare_equality(value, negated=negated)
    if base.partition(":")[0] == "similar":
        if negated or not isinstance(value, str) or not value.strip() or base in ("similar:dot", "similar:euclidean"):
            return None
        least = min(1.0, number(assertion.get("threshold"), _SIMILARITY)) or _SIMILARITY
        rule: dict[str, Any] = {"type": "SemanticMatch", "threshold": least}
        return {"type": "str", "description": _MEANT, "ground_truth": value, "verify_with": rule}
    primitive = _read_trace(base, value, assertion)
    return None if primitive is None else {**({"ground_truth": False} if negated else {}), "verify_with": primitive}


def _declare_equality(value: Any, *, negated: bool) -> dict[str, Any] | None:
    """Declare the field for `equals`. A judge extracts the value if it is a line of at most 12 words and not negated.
    Otherwise, the value is compared with the whole response. Returns None for null, a list, an object or an empty
    string.
    """
    if isinstance(value, bool) or value is None or isinstance(value, Mapping | list):
        value = {True: "true", False: "false"}.get(value) if isinstance(value, bool) else None
    text = show(value).strip()
    if not text:
        return None
    is_short = len(text.split()) <= _LONGEST_ANSWER and "\n" not in text
    if negated or not is_short:
        pattern = rf"\A\s*{re.escape(text)}\s*\Z"
        return {
            **({"ground_truth": False} if negated else {}),
            "verify_with": {"type": "TraceRegex", "pattern": pattern},
        }
    if _NUMBER.fullmatch(text):
        return {"type": "float", "description": _JUDGED, "ground_truth": float(text)}
    return {"type": "str", "description": _JUDGED, "ground_truth": text, "verify_with": "ExactMatch"}


def _read_trace(base: str, value: Any, assertion: Mapping[str, Any]) -> dict[str, Any] | None:
    """Make the rule for an assertion about the response itself, or return None if there is none. `base` is the
    assertion's type without `not-`. `assertion` provides the maximum distance for `levenshtein`.
    """
    texts = texts_of(value)
    plain, any_case = base.removeprefix("i"), base.startswith("icontains")
    flags = {"flags": ["IGNORECASE"]} if any_case else {}
    if base in ("is-json", "contains-json"):
        return {"type": "TraceJSON", **({"anywhere": True} if base == "contains-json" else {})}
    if base in ("word-count", "character-count"):
        return _length(value, "words" if base == "word-count" else "chars")
    if not texts or not all(texts):
        return None
    if plain == "contains":
        if len(texts) != 1:
            return None
        return {"type": "TraceContains", "substring": texts[0], **({"case_sensitive": False} if any_case else {})}
    if plain in ("contains-any", "contains-all"):
        several = [text for text in (_split(texts[0]) if isinstance(value, str) else texts) if text]
        if not several:
            return None
        if plain == "contains-any":
            return {"type": "TraceRegex", "pattern": "|".join(map(re.escape, several)), **flags}
        ahead = "".join(rf"(?=[\s\S]*?{re.escape(text)})" for text in several)
        return {"type": "TraceRegex", "pattern": rf"\A{ahead}", **flags}
    if len(texts) != 1:
        return None
    if base == "starts-with":
        return {"type": "TraceRegex", "pattern": rf"\A{re.escape(texts[0])}"}
    if base == "ends-with":
        return {"type": "TraceRegex", "pattern": rf"{re.escape(texts[0])}\Z"}
    if base == "regex":
        return _regex(texts[0])
    if base == "levenshtein":
        most = int(number(assertion.get("threshold"), _DISTANCE) or _DISTANCE)
        return {"type": "TraceRegex", "pattern": rf"\A(?:{re.escape(texts[0])}){{e<={most}}}\Z"}
    return None


def _length(value: Any, unit: str) -> dict[str, Any] | None:
    """Make the rule for the number of words or characters, or return None if the bounds are invalid. `value` is the
    exact number, or an object with `min` and `max`. `unit` is "words" or "chars".
    """
    bounds = value if isinstance(value, Mapping) else {"min": value, "max": value}
    limits = {key: int(number(bounds.get(key), -1)) for key in ("min", "max") if bounds.get(key) is not None}
    if not limits or min(limits.values()) < 0 or limits.get("min", 0) > limits.get("max", math.inf):
        return None
    return {"type": "TraceLength", **limits, "unit": unit}


def _regex(source: str) -> dict[str, Any] | None:
    """Make the rule for a regular expression in JavaScript, with the same meaning if there is one, or else as it is
    written. Returns None if it cannot be compiled.
    """
    try:
        return {"type": "TraceRegex", "pattern": translate(source, ""), "flags": ["ASCII"]}
    except NotTranslated:
        return {"type": "TraceRegex", "pattern": source} if _compiles(source) else None


def _compiles(pattern: str) -> bool:
    """Return whether a regular expression can be compiled for `regex`."""
    from karenina_toolkit.patterns import check_pattern

    return not raises(ValueError, check_pattern, pattern)


def _split(text: str) -> list[str]:
    """Return the parts of `text` between commas, without spaces around them. Commas within double quotes do not split,
    and the quotes are removed; if quotes are invalid, they are kept and every comma splits.
    """
    try:
        return [part.strip() for part in next(csv.reader([text.replace("\n", " ")], skipinitialspace=True), [])]
    except csv.Error:
        return [part.strip() for part in text.split(",")]


def texts_of(value: Any) -> list[str]:
    """Return the items of a value as strings. Objects are skipped."""
    return [show(item) for item in (value if isinstance(value, list) else [value]) if not isinstance(item, Mapping)]


def number(value: Any, default: float) -> float:
    """Convert a number, or a string that contains one, to a float, or return `default` for anything else. Booleans,
    infinity and NaN are not numbers here.
    """
    try:
        parsed = default if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return default
    return parsed if math.isfinite(parsed) else default
