"""Tool calls in the notation of a model family, in a text that the server passed on without reading them.

The forms are those of the tool parsers of vLLM and of the chat templates: Qwen3-Coder, Nemotron and Seed-OSS
(`<function=...>`), MiniMax and DeepSeek from version 3.2 on (`<invoke name=...>`), GLM (`<arg_key>`), Kimi and DeepSeek
(a name and JSON between tokens), Mistral (`[TOOL_CALLS]`), Granite, Phi and Llama (JSON after a token), and calls in
Python (Llama 3.2 and 4, LFM).

The calls must be at the end of the message, outside of code fences and quotes, and all of them must be calls of known
tools.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import ToolCall
from karenina_toolkit.traces.formats.openai_chat import UNREADABLE_ARGUMENTS, read_arguments

if TYPE_CHECKING:
    from karenina_core.models.ports import Tool

MARKS: Final = (
    *("<function=", "invoke name=", "<arg_key>", "<|tool_call", "<\uff5ctool\u2581call\u2581begin\uff5c>"),
    *("[TOOL_CALLS]", "<|python_", "functools[", "<tool_call>"),
)
"""Every call in one of these forms but those in Python alone contains one of these."""

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
_DECODER: Final = json.JSONDecoder()
_WORDS: Final = {"true": True, "false": False, "null": None}


def find_marked_calls(
    text: str, known: Mapping[str, Tool] | Collection[str]
) -> tuple[str, tuple[ToolCall, ...]] | None:
    """Return the text before the calls, and the calls; None if there are none.

    With the tools themselves in `known`, parameters without JSON are values of the types that their schemas give.
    A call that the end of the text cuts off has unreadable arguments.
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
    """Return the text before a token that announces calls as JSON, and the JSON after it; None without such a token."""
    found = _JSON.search(text)
    if found is None or is_in_fence(text, found.start()) or is_quoted(text, found.start()):
        return None
    return text[: found.start()].strip(), _without_wrappers(text[found.end() :])


def _read_arguments(form: str, body: str, types: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments in the text of a call; None if it cannot be read."""
    if form not in _PARAMETERS or (form == "xml" and body.lstrip().startswith("{")):
        return read_arguments(body.strip())
    arguments: dict[str, Any] = {}
    place = 0
    while (found := _PARAMETERS[form].match(body, place)) is not None:
        name, value = found["name"].strip(), found["value"]
        if name in arguments:
            return None
        is_text = found.groupdict().get("text")
        arguments[name] = _typed(value, {"type": "string"} if is_text == "true" else types.get(name, {}), is_text)
        place = found.end()
    return None if body[place:].strip() else arguments


def _typed(value: str, schema: Mapping[str, Any], is_text: str | None) -> Any:
    """Return a parameter as a value of its type: as it is written if that may be a text, otherwise read as JSON."""
    declared = schema.get("type", [inner.get("type") for inner in schema.get("anyOf", ())])
    if is_text != "false" and (not declared or "string" in declared):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _types_of(known: Mapping[str, Tool] | Collection[str], name: str) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = known[name].schema if isinstance(known, Mapping) else {}
    properties = schema.get("properties")
    return properties if isinstance(properties, Mapping) else {}


def is_in_fence(text: str, place: int) -> bool:
    """Return whether a place is in a code fence."""
    return len(re.findall(r"^[ \t]*```", text[:place], re.MULTILINE)) % 2 == 1


def is_quoted(text: str, place: int) -> bool:
    """Return whether a place is in code inside a line, or follows an opening quotation mark."""
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line.replace("```", "").count("`") % 2 == 1 or _QUOTED.search(line) is not None


def _is_one_object(body: str) -> bool:
    """Return whether a text is the JSON of an object, or its beginning, and nothing follows."""
    if not body.startswith("{"):
        return not body
    try:
        return _DECODER.raw_decode(body)[1] == len(body)
    except (ValueError, RecursionError):
        return True


def _may_be_cut_off(text: str, begin: re.Match[str], body: str) -> bool:
    """Return whether a call without its end goes on as calls do; if nothing follows, it must begin its line."""
    if body.strip():
        return body.lstrip()[0] in "<{"
    return not _without_wrappers(text[text.rfind("\n", 0, begin.start()) + 1 : begin.start()])


def _without_wrappers(text: str) -> str:
    """Return a text without the wrappers of calls at its end."""
    end = len(text)
    while (found := _LAST.search(text, max(end - _LONGEST_WRAPPER, 0), end)) is not None:
        end = found.start()
    return text[:end].strip()


def _python_calls(text: str, known: Collection[str]) -> tuple[str, tuple[ToolCall, ...]] | None:
    """Return the calls of a text that is a list of calls in Python with literal arguments, such as `[f(x=1)]`."""
    found = _PYTHON.match(text[: _LONGEST_PYTHON + 1]) if len(text) <= _LONGEST_PYTHON else None
    if found is None:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(found["code"], mode="eval").body
        parts = tree.elts if isinstance(tree, ast.List) else []
        calls = tuple(_python_call(part, known) for part in parts)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return ("", calls) if calls else None


def _python_call(node: ast.expr, known: Collection[str]) -> ToolCall:
    """Return a node as a call. Raises `ValueError` if it is not one with literal arguments."""
    if (
        not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Name)
        or node.func.id not in known
        or node.args
        or any(one.arg is None for one in node.keywords)
    ):
        raise ValueError("no call")
    return ToolCall("", node.func.id, {str(one.arg): _literal(one.value) for one in node.keywords})


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Name) and node.id in _WORDS:
        return _WORDS[node.id]
    if isinstance(node, ast.List):
        return [_literal(one) for one in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {str(ast.literal_eval(key)): _literal(value) for key, value in pairs if key is not None}
    value = ast.literal_eval(node)
    if value is not None and not isinstance(value, bool | int | float | str):
        raise ValueError("no value of JSON")
    return value
