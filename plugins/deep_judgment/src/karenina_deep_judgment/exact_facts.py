"""The numbers and negations of a text, which a similar quotation must not change."""

from __future__ import annotations

import re
from typing import Final

_DIGITS: Final = r"[\d\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089]"
_NEGATIONS: Final = (
    *("not", "no", "never", "none", "nor", "neither", "without", "nothing", "nobody", "nowhere"),
    *("nicht", "kein", "keine", "keinen", "keinem", "keiner", "keines", "nie", "niemals", "ohne", "weder"),
    *(
        "pas",
        "jamais",
        "sans",
        "aucun",
        "aucune",
        "nunca",
        "sin",
        "ning\u00fan",
        "ninguna",
        "non",
        "mai",
        "senza",
    ),
    *("n\u00e3o", "sem", "nenhum", "nenhuma", "niet", "geen", "nooit", "zonder"),
    *("\u043d\u0435", "\u043d\u0435\u0442", "\u0431\u0435\u0437", "\u043d\u0438\u043a\u043e\u0433\u0434\u0430"),
)
_FACT: Final = re.compile(
    rf"(?P<number>(?:(?<![\w.])[-\u2212])?{_DIGITS}+(?:[.,:/]{_DIGITS}+)*)"
    r"|(?P<short>\b(?:\w+n['\u2019]t|cannot)\b)"
    rf"|(?P<negation>\b(?:{'|'.join(_NEGATIONS)})\b|[\u4e0d\u6ca1\u6c92\u7121\u65e0\u672a\u975e])"
)


def extract_facts(text: str) -> list[str]:
    """Return the numbers, with signs, and the negations of a text in order; "doesn't" counts as "not"."""
    return ["not" if found["short"] else found[0].replace("\u2212", "-") for found in _FACT.finditer(text.casefold())]
