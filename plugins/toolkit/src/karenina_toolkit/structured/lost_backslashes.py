"""Backslashes that a judge did not double in JSON: `\\frac` is read as a form feed and `rac`.

A form feed or a backspace before a letter, and a tab, a line break or a carriage return before the rest of a command of
LaTeX (`\\times`), stand for the backslash and letter that were written. A backslash that begins no escape of JSON is
kept by `LenientReader`.
"""

from __future__ import annotations

import re
from typing import Any, Final

_LETTERS: Final = {"\f": "f", "\b": "b", "\t": "t", "\n": "n", "\r": "r"}
_COMMANDS: Final = {
    "\t": "tan tanh tau tbinom text textbf textit textrm texttt textsf "
    "textup tfrac therefore theta thinspace tilde times to top triangle triangledown triangleleft triangleq "
    "triangleright",
    "\n": "nabla natural ncong ne nearrow neg neq nexists ngeq ngtr ni nleftarrow nleq nless "
    "nmid nolimits nonumber not notin nparallel nprec nrightarrow nsim nsubseteq nsucc nsupseteq nu nwarrow",
    "\r": "raisebox rangle rbrace rbrack rceil rfloor rgroup rho rho right rightarrow rightharpoonup rightleftharpoons "
    "risingdotseq rm root rtimes rvert",
}
"""Commands of LaTeX and amsmath that begin with `t`, `n` and `r`; their rests are no words, apart from `_AMBIGUOUS`."""
_AMBIGUOUS: Final = frozenset({"an", "o", "op", "u", "e", "i", "m", "ot", "ight", "oot", "eg", "ear"})
"""Rests that are a letter, a word or the beginning of one: mathematics must follow, or the text must end."""
_RESTS: Final = {mark: frozenset(name[1:] for name in names.split()) for mark, names in _COMMANDS.items()}
_LOST: Final = re.compile(r"[\f\b](?=[A-Za-z])|[\t\n\r](?=(?P<rest>[a-z]+))")
_MATHEMATICS: Final = re.compile(r"[ ]?(?:[\\({\[^_$=<>|)}\d]|[A-Za-z](?![A-Za-z]))|[ ][\f\b\t\n\r]")


def restore_backslashes(value: Any) -> Any:
    """Return a JSON value with the lost backslashes of its texts; the same object if there are none."""
    if isinstance(value, str):
        return _LOST.sub(_restore, value) if _LOST.search(value) else value
    if isinstance(value, dict):
        return {key: restore_backslashes(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [restore_backslashes(inner) for inner in value]
    return value


def _restore(found: re.Match[str]) -> str:
    mark, rest = found[0], found["rest"]
    if rest is not None and not _is_command(mark, rest, found):
        return mark
    return "\\" + _LETTERS[mark]


def _is_command(mark: str, rest: str, found: re.Match[str]) -> bool:
    if rest not in _RESTS[mark]:
        return False
    if rest not in _AMBIGUOUS:
        return True
    text, end = found.string, found.end() + len(rest)
    alone = end == len(text) and not text[: found.start()].strip()
    return alone or _MATHEMATICS.match(text, end) is not None
