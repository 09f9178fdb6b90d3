"""Parsing of tool calls that a model wrote as text, as small models and some servers do.

The rules are strict, because an answer may contain JSON that is not a call:

- A call has the `name` of an available tool and `arguments` (or `parameters`), which are an object or its JSON.
- A call is between tags (`<tool_call>`, `<tools>`) that are not quoted in a sentence, or it is at the end of the
  message. There, it must be in a code fence with nothing else, or start a line. Several calls, in a list or in
  sequence, count if each of them is valid.
- The notations of model families, such as `<function=...>` and `[TOOL_CALLS]`, are read by `find_marked_calls`
  and `find_marked_json`.
- An incomplete call, in tags or as the whole message, becomes a call with unreadable arguments, which the tool loop
  reports to the model. Any complete calls before it count too.

Text before the calls remains the message's text.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import ToolCall
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS, read_arguments

if TYPE_CHECKING:
    from karenina_core.models.ports import Tool


MARKS: Final = (
    *("<function=", "invoke name=", "<arg_key>", "<|tool_call", "<\uff5ctool\u2581call\u2581begin\uff5c>"),
    *("[TOOL_CALLS]", "<|python_", "functools[", "<tool_call>"),
)
"""The markers of the model families' notations. Except for plain Python calls, every call contains one of them."""

_NAME: Final = r"[\w.-]{1,200}"
_BEGIN: Final = re.compile(
    rf"<function=(?P<xml>{_NAME})>"
    rf"|<(?:\uff5cDSML\uff5c)?invoke name=\"(?P<invoke>{_NAME})\">"
    rf"|<tool_call>\s{{0,9}}(?P<glm>{_NAME})(?=\s{{0,9}}(?:<arg_key>|</tool_call>))"
    rf"|<\|tool_call_begin\|>\s{{0,9}}(?:functions\.)?(?P<kimi>[\w-]{{1,200}})(?::\d{{1,9}})?\s{{0,9}}"
    r"<\|tool_call_argument_begin\|>"
    rf"|<\uff5ctool\u2581call\u2581begin\uff5c>(?:function<\uff5ctool\u2581sep\uff5c>(?P<deepseek>{_NAME})\n```json\n"
    rf"|(?P<deepseek31>{_NAME})<\uff5ctool\u2581sep\uff5c>)"
    rf"|\[TOOL_CALLS\](?P<mistral>{_NAME})(?:\[CALL_ID\]\w{{1,99}})?\[ARGS\]"
)
_ENDS: Final = {
    "xml": re.compile(r"</function>"),
    "invoke": re.compile("</(?:\uff5cDSML\uff5c)?invoke>"),
    "glm": re.compile(r"</tool_call>"),
    "kimi": re.compile(r"<\|tool_call_end\|>"),
    "deepseek": re.compile("\n```<\uff5ctool\u2581call\u2581end\uff5c>"),
    "deepseek31": re.compile("<\uff5ctool\u2581call\u2581end\uff5c>"),
    "mistral": re.compile(r"(?=\[TOOL_CALLS\])|(?=</s>)|\Z"),
}
_PARAMETERS: Final = {
    "xml": re.compile(r"\s*<parameter=(?P<name>[^<>\s]+)>\n?(?P<value>.*?)\n?</parameter>\s*", re.DOTALL),
    "invoke": re.compile(
        r"\s*<(?:\uff5cDSML\uff5c)?parameter name=\"(?P<name>[^\"<>]+)\"(?: string=\"(?P<text>true|false)\")?>"
        r"(?P<value>.*?)</(?:\uff5cDSML\uff5c)?parameter>\s*",
        re.DOTALL,
    ),
    "glm": re.compile(r"\s*<arg_key>(?P<name>[^<>]+)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>\s*", re.DOTALL),
}
_AROUND: Final = (
    r"(?:\s|</?(?:seed|minimax):tool_call>|</?tool_calls>|</tool_call>|<tool_call>(?!\s{0,9}[\w.-])|</?(?:\uff5cDSML\uff5c)?(?:function|tool)_calls>|</s>"
    r"|<\|tool_calls_section_(?:begin|end)\|>|<\uff5ctool\u2581calls\u2581(?:begin|end)\uff5c>"
    r"|<\|(?:im_end|eot_id|eom_id|end|eot|end_of_text|python_end|tool_call_end)\|>|<\|/tool_call\|>"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>)"
)
_BETWEEN: Final = re.compile(f"{_AROUND}*")
_LAST: Final = re.compile(rf"{_AROUND}\Z")
_LONGEST_WRAPPER: Final = 40
_JSON: Final = re.compile(
    r"\[TOOL_CALLS\]\s*(?=[\[{])|<\|tool_call\|>\s*(?=[\[{])|<\|python_tag\|>\s*(?=\{)|(?<![^\n])functools(?=\[)"
)
_PYTHON: Final = re.compile(
    r"\A\s*(?:<\|(?:tool_call_start|python_start)\|>)?(?P<code>\[\s*[A-Za-z_]\w*\(.*\)\s*\])"
    r"\s*(?:<\|(?:tool_call_end|python_end|im_end|eot|eot_id|eom_id)\|>\s*)*\Z",
    re.DOTALL,
)
_LONGEST_PYTHON: Final = 100_000
_QUOTED: Final = re.compile("(?<![^\\s(\\[])[\"']\\Z|[\u201c\u2018\u00ab]\\Z")
_WORDS: Final = {"true": True, "false": False, "null": None}


def find_marked_calls(
    text: str, known: Mapping[str, Tool] | Collection[str]
) -> tuple[str, tuple[ToolCall, ...]] | None:
    """Find calls in the notation of a model family, such as `<function=...>`, or else in Python's (`[f(x=1)]`). Return
    the text before them and the calls, or None if there are none or any is malformed, names a tool that is not `known`,
    is quoted or fenced, or is followed by text.

    `known` contains the names of the tools. If it maps them to tools, parameters that are not JSON are converted to the
    types in the tools' schemas. A call that was cut off has unreadable arguments.
    """
    calls: list[ToolCall] = []
    begin = first = _BEGIN.search(text)
    while begin is not None:
        form = str(begin.lastgroup)
        end = _ENDS[form].search(text, begin.end())
        name = begin[form]
        if name not in known:
            return None
        body = text[begin.end() : end.start() if end else len(text)]
        if form == "mistral":
            body = body.strip()
            if not _is_one_object(body):
                return None
        elif end is None and not _may_be_cut_off(text, begin, body):
            return None
        arguments = _read_arguments(form, body, _types_of(known, name)) if end else None
        if end is not None and arguments is None:
            return None
        calls.append(ToolCall("", name, {UNREADABLE_ARGUMENTS: body} if arguments is None else arguments))
        between = _BETWEEN.match(text, end.end() if end else len(text))
        place = between.end() if between else len(text)
        begin = _BEGIN.match(text, place)
        if begin is None and place < len(text):
            return None
    if first is None:
        return _python_calls(text, known)
    if is_in_fence(text, first.start()) or is_quoted(text, first.start()):
        return None
    return _without_wrappers(text[: first.start()]), tuple(calls)


def find_marked_json(text: str) -> tuple[str, str] | None:
    """Find calls in JSON that follow a token announcing them, such as `[TOOL_CALLS]`. Return the text before the token,
    and the JSON, which is not parsed. Returns None if there is no such token, or if it is quoted or fenced.
    """
    match = _JSON.search(text)
    if match is None or is_in_fence(text, match.start()) or is_quoted(text, match.start()):
        return None
    return text[: match.start()].strip(), _without_wrappers(text[match.end() :])


def _read_arguments(form: str, body: str, types: Mapping[str, Any]) -> dict[str, Any] | None:
    """Parse the arguments in the body of a call, or return None if they are invalid. `form` is the name of the notation
    in `_BEGIN`. `types` contains the schemas of the tool's parameters.
    """
    if form not in _PARAMETERS or (form == "xml" and body.lstrip().startswith("{")):
        return read_arguments(body.strip())
    arguments: dict[str, Any] = {}
    place = 0
    while (match := _PARAMETERS[form].match(body, place)) is not None:
        name, value = match["name"].strip(), match["value"]
        if name in arguments:
            return None
        is_text = match.groupdict().get("text")
        arguments[name] = _typed(value, {"type": "string"} if is_text == "true" else types.get(name, {}), is_text)
        place = match.end()
    return None if body[place:].strip() else arguments


def _typed(value: str, schema: Mapping[str, Any], is_text: str | None) -> Any:
    """Return a parameter's value: the text itself if the schema allows strings or has no type, and `is_text`, the
    call's attribute `string`, is not *false*, otherwise the text parsed as JSON, or unchanged if it is not valid JSON.
    """
    declared = schema.get("type", [inner.get("type") for inner in schema.get("anyOf", ())])
    if is_text != "false" and (not declared or "string" in declared):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _types_of(known: Mapping[str, Tool] | Collection[str], name: str) -> Mapping[str, Any]:
    """Return the schemas of a tool's parameters, keyed by name. If they are not known, the result is empty."""
    schema: Mapping[str, Any] = known[name].schema if isinstance(known, Mapping) else {}
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def is_in_fence(text: str, place: int) -> bool:
    """Return whether the index `place` in `text` is inside a code fence."""
    return len(re.findall(r"^[ \t]*```", text[:place], re.MULTILINE)) % 2 == 1


def is_quoted(text: str, place: int) -> bool:
    """Return whether the index `place` in `text` is in inline code or follows an opening quotation mark."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line.replace("```", "").count("`") % 2 == 1 or _QUOTED.search(line) is not None


def _is_one_object(body: str) -> bool:
    """Return whether `body` is a single JSON object, or the beginning of one. Empty text, and any invalid JSON that
    starts with `{`, count as a beginning.
    """
    if not body.startswith("{"):
        return not body
    try:
        return _DECODER.raw_decode(body)[1] == len(body)
    except (ValueError, RecursionError):
        return True


def _may_be_cut_off(text: str, begin: re.Match[str], body: str) -> bool:
    """Return whether a call that has no end was cut off, rather than only mentioned: `body`, the text after its
    beginning, looks like the rest of a call, or it is empty and the call starts its line.

    `begin` is the match of the call's beginning.
    """
    if body.strip():
        return body.lstrip()[0] in "<{"
    return not _without_wrappers(text[text.rfind("\n", 0, begin.start()) + 1 : begin.start()])


def _without_wrappers(text: str) -> str:
    """Return the text without call wrappers at its end, and without whitespace around it."""
    end = len(text)
    while (match := _LAST.search(text, max(end - _LONGEST_WRAPPER, 0), end)) is not None:
        end = match.start()
    return text[:end].strip()


def _python_calls(text: str, known: Collection[str]) -> tuple[str, tuple[ToolCall, ...]] | None:
    """Parse a list of Python calls of tools in `known` with literal keyword arguments, such as `[f(x=1)]`. Returns None
    if the text is anything else or too long. Otherwise, the first item of the result, the text before the calls, is
    always empty.
    """
    match = _PYTHON.match(text[: _LONGEST_PYTHON + 1]) if len(text) <= _LONGEST_PYTHON else None
    if match is None:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(match["code"], mode="eval").body
        parts = tree.elts if isinstance(tree, ast.List) else []
        calls = tuple(_python_call(part, known) for part in parts)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ("", calls) if calls else None


def _python_call(node: ast.expr, known: Collection[str]) -> ToolCall:
    """Convert a syntax node to a call. Raises `ValueError` if it is not a call of a known tool."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Name)
        or node.func.id not in known
        or node.args
        or any(keyword.arg is None for keyword in node.keywords)
    ):
        raise ValueError("no call")
    return ToolCall("", node.func.id, {str(keyword.arg): _literal(keyword.value) for keyword in node.keywords})


def _literal(node: ast.expr) -> Any:
    """Return the value of a Python literal that JSON can represent, or of `true`, `false` or `null`. Raises
    `ValueError` for anything else.
    """
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(elt) for elt in node.elts]
    if isinstance(node, ast.Dict):
        if None in node.keys:
            raise ValueError("an unpacked mapping is not a literal")
        pairs = zip(node.keys, node.values, strict=True)
        return {str(ast.literal_eval(key)): _literal(value) for key, value in pairs if key is not None}
    value = ast.literal_eval(node)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError("the literal has no equivalent in JSON")
    return value


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
    """The remaining text of a message, and the calls found in it. Most calls have no id."""

    text: str
    calls: tuple[ToolCall, ...]


def parse_tool_calls(text: str, known: Mapping[str, Tool] | Collection[str]) -> ParsedText:
    """Find calls of the `known` tools in `text`. Return the calls and the rest of the text. If any call is invalid or
    names an unknown tool, all of the text and no calls are returned; an incomplete one at the end is a call with
    unreadable arguments.

    If `known` maps names to tools, parameters that are not JSON are converted to the types in the tools' schemas.
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
            _parse_calls(match["body"], known) or _parse_incomplete(match["body"], known).calls for match in tagged
        ]
        calls = tuple(call for group in several for call in group)
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
    """Return whether the text only mentions calls in tags. This is the case if the tags are quoted, in the middle of a
    line, or in a fence that is followed by other text.
    """
    if is_quoted(text, first.start()):
        return True
    if is_in_fence(text, first.start()):
        return _AFTER_FENCE.search(text, last.end()) is not None
    before = text[text.rfind("\n", 0, first.start()) + 1 : first.start()]
    return bool(before.strip() and text[last.end() :].partition("\n")[0].strip())


def _find_last_fence(text: str) -> re.Match[str] | None:
    """Return the code fence at the end of `text`, or None. A fence followed by other text belongs to an answer."""
    opened = [place.start() for place in re.finditer(r"^[ \t]*```", text, re.MULTILINE)]
    return _FENCED.match(text, opened[-2]) if len(opened) >= 2 else None


def _parse_calls(text: str, known: Collection[str]) -> tuple[ToolCall, ...]:
    """Parse text that consists only of calls of `known` tools in JSON. Return an empty tuple if it contains anything
    else.
    """
    calls: list[ToolCall] = []
    try:
        for value in _parse_values(text):
            calls += [_parse_call(item, known) for item in (value if isinstance(value, list) else [value])]
    except (ValueError, RecursionError):
        return ()
    return tuple(calls)


def _parse_values(text: str) -> Iterator[Any]:
    """Yield the JSON values in `text`. Raises `ValueError` if the text contains anything else."""
    place = 0
    while match := _NEXT.match(text, place):
        value, place = _DECODER.raw_decode(text, match.end())
        yield value


def _parse_call(value: object, known: Collection[str]) -> ToolCall:
    """Convert a JSON value to a call. Raises `ValueError` if it is not a call of a known tool."""
    if not isinstance(value, Mapping):
        raise ValueError("no object")  # noqa: TRY004 - it is data from outside
    inner = value.get("function")
    if isinstance(inner, Mapping) and set(value) <= {"type", "id", "function"}:
        return _parse_call(inner, known)
    written = [value[key] for key in _ARGUMENTS if key in value]
    name = value.get("name")
    if len(written) != 1 or not isinstance(name, str) or name not in known or not set(value) <= _BESIDE:
        raise ValueError("no call")
    arguments = json.loads(written[0]) if isinstance(written[0], str) else written[0]
    if not isinstance(arguments, Mapping):
        raise ValueError("no arguments")  # noqa: TRY004 - it is data from outside
    id = value.get("id")
    return ToolCall(id if isinstance(id, str) else "", name, dict(arguments))


def _parse_incomplete(text: str, known: Collection[str]) -> ParsedText:
    """Find calls in JSON that was cut off inside an object, and return them with the rest of the text. If the object
    begins with the name of a known tool, it is a call with unreadable arguments. If the text was not cut off, or
    contains anything but calls, none are returned.
    """
    calls: list[ToolCall] = []
    place = 0
    while match := _NEXT.match(text, place):
        place = match.end()
        try:
            value, place = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        try:
            calls.append(_parse_call(value, known))
        except (ValueError, RecursionError):
            return ParsedText(text, ())
    rest = text[place:].strip()
    begun = _BEGUN.match(rest)
    if begun is not None and begun["name"] in known:
        return ParsedText("", (*calls, ToolCall("", begun["name"], {UNREADABLE_ARGUMENTS: rest[begun.end() :]})))
    return ParsedText(rest, tuple(calls)) if rest.startswith("{") else ParsedText(text, ())
