"""Find the one JSON object that a judge's reply holds."""

from __future__ import annotations

import json
import re
from typing import Any, Final, NoReturn

from karenina_core.wording import whole_values
from karenina_toolkit.structured.numbers import read_float

_FENCE = re.compile(r"```[ \t]*[\w-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```", re.DOTALL)
_OBJECT_START = re.compile(r'\{\s*["}]')
_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""What may stand for half of a surrogate pair in JSON."""
_THOUGHT_END = "</think>"


def read_object(text: str, *, whole: bool = False) -> tuple[dict[str, Any], bool]:
    """The one JSON object in `text`, and whether something around it had to be taken off.

    Taken off are: a code fence, prose before and after, thoughts that end in `</think>`, a list of one object, and a
    string that holds the object. Half of a surrogate pair in a text becomes U+FFFD. With `whole`, for a reply that was
    cut off, nothing may stand around the object.
    Raises `ValueError`, which says what is wrong, for text with no object, with several, with one that is broken or
    cut off, with a key given two different values, and for `NaN` and `Infinity`, which are no JSON.
    """
    stripped = text.strip()
    if not stripped:
        raise ValueError("the reply is empty")
    try:
        value = _loads(stripped)
    except json.JSONDecodeError as error:
        if whole:
            raise ValueError(f"the JSON is not complete ({_where(error)})") from None
        return _inside(stripped), True
    if isinstance(value, dict):
        return value, False
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        return value[0], True
    if isinstance(value, str) and value.lstrip().startswith("{"):
        return read_object(value, whole=True)[0], True
    raise ValueError(f"the reply is {_kind(value)}, not a JSON object")


def is_complete(text: str) -> bool:
    """Whether a judge's reply holds a whole JSON object, as far as can be told without reading it twice.

    One that does may say nonsense, and says it again; one that does not was cut off or never began.
    """
    if text.endswith("}") and text.count("{") == text.count("}"):
        return True
    try:
        read_object(text)
    except (ValueError, RecursionError):
        return False
    return True


def _inside(text: str) -> dict[str, Any]:
    thought, ended, after = text.partition(_THOUGHT_END)
    # The mark may also stand in a value of a broken object; chat templates often swallow the opening mark.
    if ended and (thought.startswith("<think>") or not _OBJECT_START.search(thought)):
        return read_object(after)[0]
    blocks = [block for block in _FENCE.finditer(text) if block[1].lstrip().startswith("{")]
    if len(blocks) == 1:
        block = blocks[0]
        if not _OBJECT_START.search(text[: block.start()] + " " + text[block.end() :]):
            return read_object(block[1], whole=True)[0]
    first, last = text.find("{"), text.rfind("}")
    if first < 0:
        raise ValueError("the reply holds no JSON object")
    if last < first:
        raise ValueError("the JSON object in the reply is not complete")
    # From the first brace to the last, or nothing: an inner object of a broken one must never pass for the whole.
    try:
        value = _loads(text[first : last + 1])
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":
            raise ValueError("the reply holds more than one JSON object") from None
        raise ValueError(f"the JSON object in the reply is broken ({_where(error)})") from None
    if _touches_list(text, first, last):
        raise ValueError("the reply holds a JSON list, not a JSON object")
    assert isinstance(value, dict)
    return value


def _touches_list(text: str, first: int, last: int) -> bool:
    """Whether the object is an entry of a list that did not parse: its neighbours would be lost."""
    before, after = text[:first].rstrip(), text[last + 1 :].lstrip()
    neighbours = before.endswith(("[", ",")) and after.startswith(("]", ","))
    return neighbours and "[" in before and "]" in after


def _loads(text: str) -> Any:
    try:
        value = _DECODER.decode(text)
        return whole_values(value) if _HALF.search(text) else value
    except json.JSONDecodeError:
        raise
    except RecursionError:
        raise ValueError("the JSON in the reply is nested too deeply") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):
            raise ValueError("a whole number in the reply has more than 4300 digits") from None
        raise


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        for key, value in pairs:
            if found[key] != value:
                raise ValueError(f"the key {key!r} is given twice, with different values")
    return found


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON value")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_refuse, parse_float=read_float)


def _where(error: json.JSONDecodeError) -> str:
    return f"{error.msg}, line {error.lineno} column {error.colno}"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "a value")
