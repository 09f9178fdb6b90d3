"""Fences around untrusted text in prompts.

Special tokens in untrusted text are broken before a model reads the text, and restored in the model's reply. Otherwise,
a server's tokenizer would read `<|im_end|>` in an answer as the end of a turn, and the answer could start another turn.
`special_tokens.json` lists the special tokens of public models.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

_BAR: Final = "\u00a6"
_ANY: Final = r"[^\s<>|\[\]\uff5c\u00a6\"']{1,40}"


def fence_mark(text: str) -> str:
    """Return the marker for fencing `text`: the first 16 hexadecimal digits of its SHA-256 digest. Text cannot contain
    its own marker. The same text always gets the same marker, so that replies can be cached.
    """
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def fence(text: str, label: str) -> str:
    """Return `text` between two tags named `label`, with a marker that the text cannot imitate. Special tokens in the
    text are broken, so that the text cannot end its turn either.
    """
    text = break_special_tokens(text)
    mark = fence_mark(text)
    return f"<{label} {mark}>\n{text}\n</{label} {mark}>"


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return a pattern for special tokens, whole or broken, and a pattern for broken tokens only. Both start with a set
    of possible characters, so that `re` quickly skips other text.
    """
    data = json.loads(files(__package__).joinpath("special_tokens.json").read_text("utf-8"))
    names = sorted({name for family in data["families"] for name in family["tokens"]}, key=len, reverse=True)
    whole, broken = [], []
    for first in sorted({name[0] for name in names}):
        after = [name[1:] for name in names if name[0] == first]
        whole.append(f"(?<={re.escape(first)})(?:{_any_of(after)})")
        broken.append(f"(?<={re.escape(first)}){_BAR}+(?:{_any_of(map(_tail, after))})")
    firsts, seconds = ("".join(sorted({name[place] for name in names})) for place in (0, 1))
    start = f"[{re.escape(firsts)}](?=[{re.escape(seconds + _BAR)}])"
    return re.compile(f"{start}(?:{'|'.join(broken + whole)})"), re.compile(f"{start}(?:{'|'.join(broken)})")


def _tail(rest: str) -> str:
    """Return the end of a broken token, after its first bar. `rest` is the whole token from its second character on."""
    return rest[1:].replace("|", _BAR) if rest[0] == "|" else rest


def _any_of(names: Iterable[str]) -> str:
    """Return a regular expression that matches any of the names. `*` in a name matches other characters."""
    return "|".join(re.escape(name).replace(r"\*", _ANY) for name in names)


def break_special_tokens(text: str) -> str:
    """Break the bars of special tokens in `text`, as in `<¦im_end¦>` and `[¦INST]`. A token that is already broken gets
    one more bar, so that `restore_special_tokens` restores `text` exactly.
    """
    return _patterns()[0].sub(lambda match: f"{match[0][0]}{_BAR}{_tail(match[0][1:])}", text)


def restore_special_tokens(value: Any) -> Any:
    """Return a copy of a JSON value with the special tokens in its strings restored, except in the keys of objects."""
    if isinstance(value, str):
        return _patterns()[1].sub(_restore, value) if _BAR in value else value
    if isinstance(value, dict):
        return {key: restore_special_tokens(item) for key, item in value.items()}
    return [restore_special_tokens(item) for item in value] if isinstance(value, list) else value


def _restore(match: re.Match[str]) -> str:
    """Remove one broken bar from the token in `match`. If it was the only one, this restores the token."""
    token = match[0][0] + match[0][2:]
    return token if _patterns()[0].fullmatch(token) else match[0].replace(_BAR, "|")
