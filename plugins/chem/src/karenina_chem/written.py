"""Finds structures and formulas in what a response wrote: without Markdown, LaTeX, labels and the names beside them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from karenina_toolkit.lazy_patterns import lazy_pattern

_SIGNS: Final = {ord(sign): "-" for sign in "\u2010\u2011\u2012\u2013\u2014\u2212\u207b\ufe63\uff0d"}
_INVISIBLE: Final = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u2060\ufeff"))
_PAIRS: Final = (("**", "**"), ("__", "__"), ("```", "```"), ("`", "`"), ("$$", "$$"), ("$", "$"), ('"', '"'),
                 ("'", "'"), ("\\(", "\\)"), ("\u201c", "\u201d"), ("<", ">"), ("<code>", "</code>"))  # fmt: skip
_COMMAND: Final = lazy_pattern(r"\\(?:ce|mathrm|mathsf|text[a-z]*|boxed|rm|mathbf|operatorname)\s*\{(.*)\}", re.DOTALL)
_KIND: Final = r"(?:(?:canonical|isomeric|the|molecular|chemical)\s+)*(?:SMILES|InChI\s?Key|InChI|structure|formula)"
_LABEL: Final = lazy_pattern(rf"{_KIND}(?:\s+(?:string|code|notation))?\s*(?::|\bis\b|=(?!\s?1S?/))\s*", re.IGNORECASE)
_LABEL_BEHIND: Final = lazy_pattern(rf"\s*[(\[]\s*{_KIND}\s*[)\]]$", re.IGNORECASE)
_BESIDE: Final = lazy_pattern(r"(.+?)\s+\((.+)\)", re.DOTALL)
_NAMED: Final = lazy_pattern(r"(?=[^:=]*[A-Za-z]{3})([^:=]*):\s*(\S+)", re.DOTALL)
_NAMED_BEHIND: Final = lazy_pattern(r"((?=(?:[^A-Z\s]*[A-Z]){2})[^\s,;]{3,})\s+([a-z][a-z0-9,()-]{3,})")
"""A line of a file of SMILES: a structure and its name."""
_JOINED: Final = lazy_pattern(r"\s*(?:[,;]|\bor\b|\band\b|\s/\s)\s*")
_DEEPEST: Final = 6
_NEUTRAL: Final = lazy_pattern(
    "an?|the|of|for|is|answer|final|result|structure|molecule|compound|smiles|inchi|string|code|formula|name"
    "|water|ammonia|gas|solid|liquid|aqueous",
    re.IGNORECASE,
)
"""Words that say nothing about a structure."""
_CONFIGURATION: Final = "cis|trans|meso|rac|ent|epi|syn|anti|exo|endo"
_NAME: Final = lazy_pattern(
    rf"(?:(?:[\d,']+|[nomp]|(?!(?:{_CONFIGURATION})-)[a-z]{{3,}})-)*(?!enol\b|racemic)[a-z]*"
    "(?P<kind>ane|ene|yne|ol|one|ose|ine|in|ic-acid|(?P<ionic>(?<!hydr)(?<!racem)ate|ide|ite|ium|gen|(?<!i)on))"
)
"""A word with the ending of a substance's name, without *D*, *R*, *cis* and the like."""
_METALS: Final = frozenset(("copper", "silver", "gold", "zinc", "lead", "nickel", "cobalt", "mercury", "manganese"))


def clean(text: str) -> str:
    """Return the text without markup, labels such as *SMILES:*, and punctuation at its end."""
    text = text.translate(_SIGNS | _INVISIBLE).replace("\u00a0", " ").strip()
    for _ in range(_DEEPEST):
        before = text
        if not text.endswith(".."):  # what follows may have been left out
            text = text.rstrip(".,;!? \n").strip()
        text = _unwrapped(text)
        label = _LABEL.match(text)
        text = _LABEL_BEHIND.sub("", text[label.end() :] if label is not None else text).strip()
        if text == before:
            break
    return text


def _unwrapped(text: str) -> str:
    """Return the text without the outermost pair of marks or LaTeX command around it, or the text itself."""
    for opening, closing in _PAIRS:
        inner = text[len(opening) : -len(closing)]
        if inner and text.startswith(opening) and text.endswith(closing) and opening not in inner:
            return inner.strip()
    command = _COMMAND.fullmatch(text)
    return command[1].strip() if command is not None and _is_closed(command[1]) else text


def _is_closed(text: str) -> bool:
    """Return whether all braces in a text are balanced, so that braces around the text are a pair."""
    depth = 0
    for sign in text:
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return not depth


def alternatives(text: str, names: Sequence[str]) -> tuple[Sequence[str], bool]:
    """Return the parts of a cleaned text that may be structures, and whether each of them has to be one. That is so for
    a single structure or a list (*CCO or COC*), but not for one beside a name (*ethanol (CCO)*, *ethanol: CCO*), where
    a name in `names` is left out. If the text contains other words, there are no parts.
    """
    if not re.search(r"\s", text):
        return [text], True
    for form in (_BESIDE, _NAMED, _NAMED_BEHIND):
        if (match := form.fullmatch(text)) is not None:
            parts = [clean(part) for part in match.groups()]
            return [part for part in parts if not is_name(part, names)] or parts, False
    parts = [clean(part) for part in _JOINED.split(text)]
    return ([], True) if any(not part or re.search(r"\s", part) for part in parts) else (parts, True)


def is_name(text: str, names: Sequence[str], ionic: bool = False) -> bool:
    """Return whether words beside a structure only name it: they are in `names`, or each looks like a chemical name.
    Names of salts and ions only count with `ionic`, because *acetate* beside the acid is a contradiction.
    """
    if any(names_equal(text, name) for name in names):
        return True
    words = text.replace("ic acid", "ic-acid").split()
    return bool(words) and all(_is_name(word, ionic) for word in words)


def _is_name(word: str, ionic: bool) -> bool:
    """Return whether a word looks like a chemical name or means nothing for a structure. Metals and ions only count if
    `ionic` is set.
    """
    plain = word[:1].lower() + word[1:] if word[1:2].islower() else word
    if _NEUTRAL.fullmatch(plain) is not None or (ionic and plain in _METALS):
        return True
    match = _NAME.fullmatch(plain)
    return match is not None and len(word) > 4 and (ionic or match["ionic"] is None)


def names_equal(one: str, other: str) -> bool:
    """Return whether two names are equal but for case, spaces and the kind of their hyphens."""
    return _name(one) == _name(other)


def _name(text: str) -> str:
    """Return a name in the form in which names are compared."""
    return " ".join(unicodedata.normalize("NFKC", clean(text)).casefold().split())
