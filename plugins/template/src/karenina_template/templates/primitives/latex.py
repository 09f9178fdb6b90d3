"""Converts the LaTeX in which models write numbers and units to plain text: *5\\,\\text{mg}* to *5 mg*."""

from __future__ import annotations

import re
from typing import Final

from karenina_toolkit.lazy_patterns import lazy_pattern

_SYMBOLS: Final = {
    "times": "\u00d7", "cdot": "·", "pm": "±", "mu": "µ", "upmu": "µ", "Omega": "Ω", "ohm": "Ω", "degree": "°",
    "circ": "°", "celsius": "°C", "degreeCelsius": "°C", "approx": "≈", "simeq": "≈", "sim": "~", "leq": "≤",
    "le": "≤", "geq": "≥", "ge": "≥", "leqslant": "≤", "geqslant": "≥", "leqq": "≤", "geqq": "≥", "lesssim": "≲",
    "gtrsim": "≳", "ll": "≪", "gg": "≫", "neq": "≠", "ne": "≠", "nless": "≮", "ngtr": "≯",
    "lt": "<", "gt": ">", "AA": "Å", "angstrom": "Å", "Delta": "Δ", "micro": "µ",
    "left": "", "right": "", "displaystyle": "", "quad": " ", "qquad": " ", "per": "/", "percent": "%",
}  # fmt: skip
_DEEPEST: Final = 8
_MATH: Final = lazy_pattern(r"(?<![\w\\$])\$\$?((?:[^$\\]|\\.)+)\$\$?(?!\.?\w)")
"""Mathematics between dollars, but not the text between two amounts of money."""
_WRAPPED: Final = lazy_pattern(
    r"\\(?:boxed|fbox|mbox|text[a-z]*|math[a-z]*|operatorname|unit|si|rm|bf|mathop|textnormal)\s*\{([^{}]*)\}"
)
_QUANTITY: Final = lazy_pattern(r"\\(?:SI|qty|num)\s*\{([^{}]*)\}(?:\s*\{([^{}]*)\})?")
_FRACTION: Final = lazy_pattern(r"\\[dtc]?frac\s*(?:\{([^{}]*)\}\s*\{([^{}]*)\}|([0-9])\s*([0-9]))")
_RAISED: Final = lazy_pattern(r"\^\s*\{\s*([^{}]*?)\s*\}")
_COMMAND: Final = lazy_pattern(r"\\([A-Za-z]+)\s?")


def plain_text(text: str) -> str:
    r"""Return `text` with its LaTeX converted to plain text, such as `\frac{1}{2}` to 1/2. Text without LaTeX is nearly
    unchanged: `{,}` becomes a comma, and `^{2}` becomes `^2`.
    """
    text = _MATH.sub(lambda match: match[1] if _is_mathematics(match[1]) else match[0], text)
    if "\\" not in text:
        return _RAISED.sub(r"^\1", text.replace("{,}", ","))
    text = re.sub(r"\\[()\[\]]", " ", text.replace("\\!", ""))
    text = re.sub(r"\\[,;:! ]|(?<=\S)~(?=\S)", " ", text.replace("{,}", ","))
    text = text.replace("\\%", "%").replace("\\$", "$")
    for _ in range(_DEEPEST):
        shorter = _FRACTION.sub(_as_quotient, _QUANTITY.sub(r"\1 \2", _RAISED.sub(r"^\1", _WRAPPED.sub(r" \1 ", text))))
        if shorter == text:
            break
        text = shorter
    text = _COMMAND.sub(lambda match: _SYMBOLS.get(match[1], f" {match[1]} "), text)
    text = re.sub(r"\^\s?°", "°", re.sub(r"[{}]", "", text))
    text = re.sub(r"°\s+(?=[CF]\b)", "°", text)
    return " ".join(re.sub(r"\s*\^\s*", "^", text).split())


def _is_mathematics(inner: str) -> bool:
    """Return whether the text between dollars is mathematics: *42* and *2 \\times 3*, but not * and 5*."""
    return inner == inner.strip() or re.search(r"[\\^{]", inner) is not None


def _as_quotient(match: re.Match[str]) -> str:
    """Return a matched LaTeX fraction with a slash, and with its denominator in brackets if that is a product."""
    above, below = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    below = below.strip()
    is_product = re.search(r"[\s·]|cdot", below) is not None
    return f" {above.strip()}/({below}) " if is_product else f" {above.strip()}/{below} "
