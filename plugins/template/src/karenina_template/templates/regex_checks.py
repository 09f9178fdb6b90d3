"""Searches the raw response for a template's patterns (`self.regex`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_core.text import did_you_mean
from karenina_template.templates.errors import TemplateError
from karenina_toolkit.patterns import BadPattern, find_all

if TYPE_CHECKING:
    import regex

MATCH_TYPES = ("exact", "contains", "count", "all")
_KEYS = ("pattern", "expected", "match_type")


@dataclass(slots=True)
class RegexReport:
    """The results of searching for a template's patterns.

    `performed` is true if there were any patterns. If there were none, `overall_success` is None. The other fields are
    keyed by the names in `self.regex`: `results` (whether the pattern passed), `details` (pattern, expected,
    match_type, matches, success), and `extraction_results` (all matches).
    """

    performed: bool = False
    results: dict[str, bool] = field(default_factory=dict)
    details: dict[str, dict[str, Any]] = field(default_factory=dict)
    overall_success: bool | None = None
    extraction_results: dict[str, list[Any]] = field(default_factory=dict)


def verify_patterns(patterns: object, text: str) -> RegexReport:
    """Search `text` for all `patterns`, and return the matches and whether each pattern, and all of them, passed, or an
    empty report if there are none. Raises `TemplateError` if a pattern is declared incorrectly, and `PatternTimeout` if
    a search takes too long.

    `patterns` has the form `{name: {"pattern": ..., "expected": ..., "match_type": ...}}`, or `{name: pattern}` for a
    pattern that only has to be found. The match types are:

    - `exact` (default): there is exactly one match, and it equals `expected`;
    - `contains`: `expected` is one of the matches;
    - `count`: the number of matches is `expected`;
    - `all`: every value in the list `expected` is one of the matches.

    If the pattern has one group, a match is the text of this group. If it has several, a match is a tuple. Otherwise,
    it is the whole match.
    """
    if patterns is None or patterns == {}:
        return RegexReport()
    if not isinstance(patterns, Mapping):
        raise TemplateError(f"self.regex must be a mapping from names to patterns, not a {type(patterns).__name__}")
    details = {str(name): _verify(str(name), declared, text) for name, declared in patterns.items()}
    results = {name: bool(detail["success"]) for name, detail in details.items()}
    matches = {name: list(detail["matches"]) for name, detail in details.items()}
    return RegexReport(True, results, details, all(results.values()), matches)


def _verify(name: str, declared: object, text: str) -> dict[str, Any]:
    """Search for the pattern called `name`, declared as a string, which only has to be found, or as a mapping, and
    return its declaration with the matches and `success`. Raises `TemplateError` if the declaration is invalid, and
    `PatternTimeout` if the search takes too long.
    """
    if isinstance(declared, str):
        matches = _matches(name, declared, text)
        return {"pattern": declared, "match_type": "found", "matches": matches, "success": bool(matches)}
    if not isinstance(declared, Mapping):
        raise TemplateError(f"self.regex[{name!r}] must be a pattern or a mapping, not a {type(declared).__name__}")
    for key in declared:
        if key not in _KEYS:
            raise TemplateError(f"self.regex[{name!r}] has an unknown key {key!r}{did_you_mean(str(key), _KEYS)}")
    for key in ("pattern", "expected"):
        if key not in declared:
            raise TemplateError(f"self.regex[{name!r}] has no {key!r}")
    pattern, expected, match_type = declared["pattern"], declared["expected"], declared.get("match_type", "exact")
    if not isinstance(pattern, str):
        raise TemplateError(f"the pattern of self.regex[{name!r}] must be a string, not a {type(pattern).__name__}")
    if match_type not in MATCH_TYPES:
        raise TemplateError(
            f"self.regex[{name!r}] has an unknown match_type {match_type!r}{did_you_mean(str(match_type), MATCH_TYPES)}"
        )
    if match_type == "all" and not isinstance(expected, list | tuple | set | frozenset):
        raise TemplateError(f"self.regex[{name!r}]: match_type 'all' requires `expected` to be a list")
    if match_type == "count" and (isinstance(expected, bool) or not isinstance(expected, int)):
        raise TemplateError(f"self.regex[{name!r}]: match_type 'count' requires `expected` to be an integer")
    matches = _matches(name, pattern, text)
    return {
        "pattern": pattern,
        "expected": sorted(expected, key=repr) if isinstance(expected, set | frozenset) else expected,
        "match_type": match_type,
        "matches": matches,
        "success": _passes(match_type, matches, expected),
    }


def _passes(match_type: str, matches: list[Any], expected: Any) -> bool:
    """Return whether the matches are only `expected` ("exact"), contain it ("contains"), are that many ("count"), or
    contain all of its items (any other match type).
    """
    if match_type == "exact":
        return len(matches) == 1 and bool(matches[0] == expected)
    if match_type == "contains":
        return expected in matches
    if match_type == "count":
        return len(matches) == int(expected)
    return all(value in matches for value in expected)


def _matches(name: str, pattern: str, text: str) -> list[Any]:
    """Return the values of all matches. Raises `TemplateError` if the pattern is invalid."""
    try:
        return [_value(match) for match in find_all(pattern, text)]
    except BadPattern as error:
        raise TemplateError(f"self.regex[{name!r}]: {error}") from error


def _value(match: regex.Match[str]) -> str | tuple[str, ...]:
    """Return the text of the match's only group, a tuple of all groups, or the whole match if it has no groups. A group
    that took no part in the match becomes an empty string.
    """
    groups = tuple(group or "" for group in match.groups())
    if not groups:
        return match[0]
    return groups[0] if len(groups) == 1 else groups
