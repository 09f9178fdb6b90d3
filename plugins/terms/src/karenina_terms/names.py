"""The forms in which names and identifiers are compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from karenina_toolkit.folding import fold
from karenina_toolkit.lazy_patterns import lazy_pattern

_PLAIN: Final = {
    **{code: unicodedata.name(chr(code)).rpartition(" ")[2].lower() for code in range(0x3B1, 0x3CA)},
    0xB5: "mu",
    **{ord(sign): plain for sign, plain in zip("₀₁₂₃₄₅₆₇₈₉⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "01234567890123456789+-", strict=True)},
}
"""The names of the Greek letters from alpha to omega, and digits and signs for those above or below the line."""
_PAIRS: Final = (("***", "***"), ("**", "**"), ("*", "*"), ("__", "__"), ("_", "_"), ("`", "`"), ("$", "$"), ('"', '"'),
                 ("'", "'"), ("(", ")"), ("[", "]"), ("\u201c", "\u201d"), ("\u2018", "\u2019"), ("<", ">"),
                 ("\\textit{", "}"), ("\\text{", "}"), ("\\mathrm{", "}"), ("\\emph{", "}"))  # fmt: skip
_IDENTIFIER: Final = lazy_pattern(
    r"(?P<source>[a-z][a-z0-9.]*)(?:\s*[:_]\s*|\s+)(?P<local>[a-z]*[0-9][\w.-]*)", re.IGNORECASE
)
_URL: Final = lazy_pattern(r"https?://\S*?(?P<last>[^/#?=\s]+)/?", re.IGNORECASE)
_BESIDE: Final = lazy_pattern(r"(?P<before>.+?)\s*[(\[](?P<inner>[^()\[\]]+)[)\]]", re.DOTALL)
_PRIME: Final = lazy_pattern(r"(?<=[0-9])['\u2032\u2019]")
_APART: Final = lazy_pattern(r"(?<=[0-9])[\W_]+(?=[0-9])")
_ALSO: Final = r"(?:(?:also|formerly|previously)\s+(?:known\s+as|called|named)|a\.?k\.?a\.?|i\.e\.,?)\s+"
_BETWEEN: Final = lazy_pattern(rf"\s*/\s*|,?\s+(?={_ALSO})", re.IGNORECASE)
_BEFORE: Final = lazy_pattern(rf"(?:or\s+)?(?:{_ALSO})?", re.IGNORECASE)
_LISTED: Final = lazy_pattern(r"\s*(?:,\s|;|=|\bor\b)\s*", re.IGNORECASE)
_AROUND: Final = lazy_pattern(
    r"(?:the\s+)?(?:wild[ -]?type\s+)?(?:genes?\s+)?(?P<name>.+?)(?:\s+genes?)?", re.IGNORECASE
)
_POSSESSIVE: Final = lazy_pattern(r"(?<=[a-z])['\u2019]s\b")
_DEEPEST: Final = 6
IDENTIFIER, NAME, SYNONYM, RELATED = range(4)
"""How a name refers to a term."""


def clean(text: str) -> str:
    """Return the text without Markdown, quotes, brackets and punctuation around it, and with single spaces."""
    text = " ".join(text.split())
    for _ in range(_DEEPEST):
        before = text
        text = text.strip(" .,;:!?")
        for opening, closing in _PAIRS:
            inner = text[len(opening) : -len(closing)]
            if inner and text.startswith(opening) and text.endswith(closing) and opening not in inner:
                text = inner.strip()
                break
        if text == before:
            break
    return text


def names_in(text: str) -> list[str]:
    """Return the names in a text that gives several, as in *TP53 (p53)* or *ERBB2/HER2*; empty if there is only one."""
    parts: list[str] = []
    for part in [text] if _BESIDE.fullmatch(text) is not None else _BETWEEN.split(text):
        match = _BESIDE.fullmatch(part)
        parts += [part] if match is None else match.groups()
    return [clean(_BEFORE.sub("", part.strip(), count=1)) for part in parts] if len(parts) > 1 else []


def names_in_list(text: str) -> list[str]:
    """Return the names in a list such as *cobalamin, vitamin B12*, which may be several terms."""
    parts = _LISTED.split(text)
    return [clean(part) for part in parts] if len(parts) > 1 else []


def name_alone(text: str) -> str:
    """Return a name without an article, the word *gene* and a possessive: *TP53* for *the TP53 gene*."""
    match = _AROUND.fullmatch(_POSSESSIVE.sub("", text))
    return clean(match["name"]) if match is not None else text


def key_of(name: str) -> str:
    """Return a name without differences of case, spaces and kinds of hyphens and quotes."""
    return " ".join(fold(clean(name)).casefold().split())


def loose_key_of(name: str) -> str:
    """Return a name for loose comparison: without case, accents, spaces and punctuation, except a hyphen between two
    digits, primes, plus signs and a minus at the end. Greek letters are spelled out, and superscripts and subscripts
    become digits.
    """
    text = fold(clean(name)).casefold().translate(_PLAIN)
    text = "".join(one for one in unicodedata.normalize("NFD", text) if unicodedata.category(one) != "Mn")
    end = "-" if text.endswith("-") else ""
    text = _APART.sub("-", _PRIME.sub("\u2032", text))
    return re.sub(r"[^\w+\u2032-]|_|(?<![0-9])-|-(?![0-9])", "", text) + end


def identifier_keys(text: str) -> Sequence[str]:
    """Return the forms in which an identifier is compared: *mesh:d009203* and *d009203* for *MeSH:D009203*. The part
    after the source is only a form of its own if it starts with a letter, because numbers mean something else in each
    source. A URL such as *.../obo/CHEBI_15365* counts as *chebi:15365*.
    """
    text = fold(clean(text))
    url = _URL.fullmatch(text)
    match = _IDENTIFIER.fullmatch(url["last"] if url is not None else text)
    if match is None:
        return [(url["last"] if url is not None else text).casefold()]
    source, local = match["source"].casefold(), match["local"].casefold()
    whole = f"{source}:{local}"
    return [whole, local] if local[0].isalpha() else [whole]
