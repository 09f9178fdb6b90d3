"""Tool calls that a model wrote as text: small models, and servers without a parser for a model's calls.

The rules are strict, because an answer may contain JSON that is not a call:

- A call has the `name` of an available tool, and `arguments` (or `parameters`), an object or the JSON of one.
- It is between tags (`<tool_call>`, `<tools>`) that no sentence quotes, or at the end of the message: in a code fence
  with nothing else, or without a fence from the beginning of a line. Several calls, in a list or in sequence, count if
  each of them is valid.
- The notations of model families, such as `<function=...>` and `[TOOL_CALLS]`, are read by `marked_calls.py`.
- An incomplete call in tags, or in place of the whole message, is a call with unreadable arguments, which the tool loop
  reports to the model. Complete calls before it count too.

Text before the calls remains the message's text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import ToolCall
from karenina_toolkit.agents.marked_calls import find_marked_calls, find_marked_json, is_in_fence, is_quoted
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS

if TYPE_CHECKING:
    from karenina_core.models.ports import Tool

_TAGGED: Final = re.compile(r"<(tool_calls?|tools|function_call)>\s*(?P<body>.*?)\s*(?:</\1>|\Z)", re.DOTALL)
_FENCED: Final = re.compile(r"^[ \t]*```[\w+-]*[ \t]*\n(?P<body>.*?)\n?[ \t]*```\s*\Z", re.DOTALL | re.MULTILINE)
_BARE: Final = re.compile(r"^[ \t]*(?=[{\[])", re.MULTILINE)
_BEGUN: Final = re.compile(r'\{\s*"name"\s*:\s*"(?P<name>[^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*')
_FENCE_MARKS: Final = re.compile(r"\A\s*```[\w+-]*[ \t]*\n|\n?[ \t]*```\s*\Z")
_GOES_ON: Final = ("{", "[", "}", "]")
_AFTER_FENCE: Final = re.compile(r"^[ \t]*```[ \t]*\n\s*\S", re.MULTILINE)
_NEXT: Final = re.compile(r"[\s,;]*(?:\{(?=\{))?(?=\S)")
_ARGUMENTS: Final = ("arguments", "parameters")
_BESIDE: Final = frozenset({"name", "id", "type", *_ARGUMENTS})
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class ParsedText:
    """A parsed message: the text around the calls, and the calls in order, most of them without an id."""

    text: str
    calls: tuple[ToolCall, ...]


def parse_tool_calls(text: str, known: Mapping[str, Tool] | Collection[str]) -> ParsedText:
    """Return the calls of the tools `known` in `text`, and the rest of the text.

    With the tools themselves in `known`, parameters that are not JSON are read by their types.
    """
    marked = find_marked_calls(text, known)
    if marked is not None:
        return ParsedText(*marked)
    announced = find_marked_json(text)
    if announced is not None:
        calls = _parse_calls(announced[1], known) or _parse_incomplete(announced[1], known).calls
        return ParsedText(announced[0], calls) if calls else ParsedText(text, ())
    tagged = list(_TAGGED.finditer(text))
    if tagged and _is_about_tags(text, tagged[0], tagged[-1]):
        return ParsedText(text, ())
    if tagged:
        several = [
            _parse_calls(found["body"], known) or _parse_incomplete(found["body"], known).calls for found in tagged
        ]
        calls = tuple(call for one in several for call in one)
        return ParsedText(_TAGGED.sub("", text).strip(), calls) if all(several) else ParsedText(text, ())
    fenced = _find_last_fence(text)
    if fenced is not None:
        calls = _parse_calls(fenced["body"], known)
        if calls:
            return ParsedText(text[: fenced.start()].strip(), calls)
    for start in _BARE.finditer(text):
        if text[: start.start()].rstrip().endswith(_GOES_ON):
            continue
        calls = _parse_calls(text[start.end() :], known)
        if calls:
            return ParsedText(text[: start.start()].strip(), calls)
    broken = _parse_incomplete(_FENCE_MARKS.sub("", text), known)
    return broken if broken.calls else ParsedText(text, ())


def _is_about_tags(text: str, first: re.Match[str], last: re.Match[str]) -> bool:
    """Return whether a text is about calls in tags: in quotes, inside a line, or in a code fence before other text."""
    if is_quoted(text, first.start()):
        return True
    if is_in_fence(text, first.start()):
        return _AFTER_FENCE.search(text, last.end()) is not None
    before = text[text.rfind("\n", 0, first.start()) + 1 : first.start()]
    return bool(before.strip() and text[last.end() :].partition("\n")[0].strip())


def _find_last_fence(text: str) -> re.Match[str] | None:
    """Return the code fence at the end of `text`, or None. Fences before other text are part of an answer."""
    opened = [place.start() for place in re.finditer(r"^[ \t]*```", text, re.MULTILINE)]
    return _FENCED.match(text, opened[-2]) if len(opened) >= 2 else None


def _parse_calls(text: str, known: Collection[str]) -> tuple[ToolCall, ...]:
    """Return the calls if `text` consists of calls only, else none."""
    found: list[ToolCall] = []
    try:
        for value in _parse_values(text):
            found += [_parse_call(one, known) for one in (value if isinstance(value, list) else [value])]
    except (ValueError, RecursionError):
        return ()
    return tuple(found)


def _parse_values(text: str) -> Iterator[Any]:
    """Yield the JSON values that `text` consists of. Raises `ValueError` for anything else."""
    place = 0
    while match := _NEXT.match(text, place):
        value, place = _DECODER.raw_decode(text, match.end())
        yield value


def _parse_call(value: object, known: Collection[str]) -> ToolCall:
    """Return `value` as a call. Raises `ValueError` if it is not a call."""
    if not isinstance(value, Mapping):
        raise ValueError("no object")  # noqa: TRY004 - it is data from outside
    inner = value.get("function")
    if isinstance(inner, Mapping) and set(value) <= {"type", "id", "function"}:
        return _parse_call(inner, known)
    given = [value[key] for key in _ARGUMENTS if key in value]
    name = value.get("name")
    if len(given) != 1 or not isinstance(name, str) or name not in known or not set(value) <= _BESIDE:
        raise ValueError("no call")
    arguments = json.loads(given[0]) if isinstance(given[0], str) else given[0]
    if not isinstance(arguments, Mapping):
        raise ValueError("no arguments")  # noqa: TRY004 - it is data from outside
    id = value.get("id")
    return ToolCall(id if isinstance(id, str) else "", name, dict(arguments))


def _parse_incomplete(text: str, known: Collection[str]) -> ParsedText:
    """Return the calls at the start of a truncated `text`, and the rest; no calls if it is not truncated."""
    found: list[ToolCall] = []
    place = 0
    while match := _NEXT.match(text, place):
        place = match.end()
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        try:
            found.append(_parse_call(value, known))
        except (ValueError, RecursionError):
            return ParsedText(text, ())
    rest = text[place:].strip()
    begun = _BEGUN.match(rest)
    if begun is not None and begun["name"] in known:
        return ParsedText("", (*found, ToolCall("", begun["name"], {UNREADABLE_ARGUMENTS: rest[begun.end() :]})))
    return ParsedText(rest, tuple(found)) if rest.startswith("{") else ParsedText(text, ())
