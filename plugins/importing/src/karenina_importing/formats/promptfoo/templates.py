"""Fills in promptfoo templates with plain variables.

promptfoo uses Nunjucks. Only `{{ name }}`, `{{ name.key[0] }}` and a few filters are supported. Other expressions,
statements (`{% if %}`) and environment variables are rejected, because nothing in a source is executed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from karenina_importing.field_mapping import MISSING, look_up

_PLACE: Final = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_PART: Final = re.compile(
    r"\{#.*?#\}|\{%-?\s*raw\s*-?%\}(?P<raw>.*?)\{%-?\s*endraw\s*-?%\}|\{\{-?(?P<place>.*?)-?\}\}", re.DOTALL
)
"""A comment, a block of text that is used as it is, or a placeholder."""
_KEY: Final = r"\.\w+|\[\s*[0-9]{1,9}\s*\]|\[\s*(?:'[^']*'|\"[^\"]*\")\s*\]"
_EXPRESSION: Final = re.compile(rf"\s*([A-Za-z_]\w*)((?:{_KEY})*)((?:\s*\|\s*\w+(?:\([^()|]*\))?)*)\s*")
_FILTER: Final = re.compile(r"\|\s*(\w+)(?:\(([^()|]*)\))?")
_DEEPEST: Final = 3
"""The number of levels of variables within variables that are filled in."""
_LONGEST: Final = 1_000_000
"""The maximum length of a filled-in template, and of all variables of a test that refer to others."""


class NotFilled(ValueError):
    """Raised for templates that only promptfoo can fill in. The message contains the reason."""


def fill(template: str, variables: Mapping[str, Any], missing: set[str] | None = None) -> str:
    """Return a template with its variables filled in. Raises `NotFilled` if only promptfoo can do this, or if the
    values have more than 1,000,000 characters. As in promptfoo, a variable without a value becomes an empty string. Its
    name is added to `missing`.
    """
    if "{{" not in template and "{%" not in template and "{#" not in template:
        return template
    parts: list[str] = []
    end = size = 0
    for match in _PART.finditer(template):
        parts.append(_without_statement(template, end, match.start()))
        end = match.end()
        if match["place"] is None:
            parts.append(match["raw"] or "")  # a comment has no text
            continue
        parts.append(_evaluate(match["place"], variables, missing))
        size += len(parts[-1])
        if size > _LONGEST:
            raise NotFilled(f"the filled-in text has more than {_LONGEST:,} characters")
    return "".join([*parts, _without_statement(template, end, len(template))])


def _without_statement(template: str, start: int, end: int) -> str:
    """Return a part of a template outside of its placeholders. Raises `NotFilled` if it contains a statement."""
    at = template.find("{%", start, end)
    if at >= 0:
        raise NotFilled(f"the template contains a statement, which is not supported: {_shorten(template[at:])}")
    return template[start:end]


def fill_all(value: Any, variables: Mapping[str, Any], missing: set[str] | None = None) -> Any:
    """Return a copy of a value in which all strings, except keys, are filled in with `variables`. Variables that do not
    exist are added to `missing`, if given. Raises `NotFilled` if a string cannot be filled in.
    """
    if isinstance(value, str):
        return fill(value, variables, missing)
    if isinstance(value, Mapping):
        return {key: fill_all(item, variables, missing) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_all(item, variables, missing) for item in value]
    return value


def fill_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables with references to other variables filled in, up to three levels deep. References to
    variables without a value, or to the variable itself, become an empty string. Raises `NotFilled` if this fails or
    the variables become too long.
    """
    filled = dict(variables)
    for _ in range(_DEEPEST):
        open_names = [name for name, value in filled.items() if isinstance(value, str) and "{{" in value]
        if not open_names:
            break
        size = sum(len(value) for value in filled.values() if isinstance(value, str))
        for name in open_names:
            template, filled[name] = filled[name], ""  # a variable may refer to itself
            filled[name] = fill(template, filled)
            size += len(filled[name]) - len(template)
            if size > _LONGEST + len(variables):
                raise NotFilled(f"with references filled in, the variables have more than {_LONGEST:,} characters")
    return filled


def names_in(template: Any) -> set[str]:
    """Return the names of the variables in the placeholders of all texts in a value. Placeholders with anything but a
    variable, its parts and filters are ignored.
    """
    if isinstance(template, str):
        expressions = (_EXPRESSION.fullmatch(match[1]) for match in _PLACE.finditer(template))
        return {match[1] for match in expressions if match is not None}
    parts = template.values() if isinstance(template, Mapping) else template if isinstance(template, list) else ()
    return set().union(*map(names_in, parts))


def show(value: Any) -> str:
    """Format a value for a template. A string is returned unchanged, null as "", and anything else as JSON."""
    if value is None or value is MISSING:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _evaluate(expression: str, variables: Mapping[str, Any], missing: set[str] | None) -> str:
    """Evaluate an expression with its filters, and return the result as a string. A missing variable without a default
    is added to `missing`. Raises `NotFilled` for environment variables, unknown filters, and other expressions.
    """
    match = _EXPRESSION.fullmatch(expression)
    if match is None:
        raise NotFilled(
            f"the template contains an expression that is not supported: {_shorten('{{' + expression + '}}')}"
        )
    name, keys, filters = match[1], re.findall(_KEY, match[2]), _FILTER.findall(match[3])
    if name == "env" and name not in variables:
        raise NotFilled(
            f"the template reads an environment variable, which is not supported: {_shorten('{{' + expression + '}}')}"
        )
    value: Any = variables.get(name, MISSING)
    for key in keys:
        value = look_up(value, key.strip(".[] '\"")) if value is not MISSING else value
    defaults = {used_filter for used_filter, _ in filters} & {"default", "d"}
    if missing is not None and value is MISSING and not defaults:
        missing.add(name + match[2])
    for filter_name, argument in filters:
        if filter_name not in _FILTERS:
            raise NotFilled(f"the template uses the filter {filter_name!r:.40}, which is not supported")
        value = _FILTERS[filter_name](value, argument.strip())
    return show(value)


def _shorten(text: str) -> str:
    line = " ".join(text[:200].split())
    return f"{line[:57]}..." if len(line) > 60 else line


def _apply_default(value: Any, argument: str) -> Any:
    """Apply the filter `default('text')`, which replaces a value that is missing or null. `argument` is the source of
    the filter's arguments.
    """
    return argument.partition(",")[0].strip().strip("'\"") if value is MISSING or value is None else value


_FILTERS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "trim": lambda value, _: show(value).strip(),
    "lower": lambda value, _: show(value).lower(),
    "upper": lambda value, _: show(value).upper(),
    "capitalize": lambda value, _: show(value).capitalize(),
    "safe": lambda value, _: value,
    "string": lambda value, _: show(value),
    "join": lambda value, glue: glue.strip("'\"").join(map(show, value)) if isinstance(value, list) else value,
    "dump": lambda value, _: json.dumps(None if value is MISSING else value, ensure_ascii=False),
    "default": _apply_default,
    "d": _apply_default,
}
