"""Values and ground truths of `Quantity`: numbers, units, LaTeX, and hostile texts such as huge exponents."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.verdicts import comparing, joined, pairs, repeated
from karenina_units.quantity import Quantity

_PIECES: Final = (
    *(
        "5",
        "1.5",
        "1,234",
        "1e9999",
        "10^9999",
        "9" * 300,
        "1/3",
        "½",
        "-",
        "\u2212",
        "±",
        "(",
        ")",
        "to",
        "x 10^",
        "e",
        ".",
    ),
    *("mg", "/", "kg", "°C", "m", "s", "^", "-2", "^99", "·", " ", "per", "cells", "/L", "mmol", "Da", "yr", "%", "in"),
    *(
        "\\frac{",
        "}{",
        "}",
        "\\times",
        "$",
        "\\text{",
        "^{",
        "\\",
        "and",
        "ft",
        '"',
        "'",
        "half",
        "[",
        "]",
        "=",
        "~",
        "\x00",
    ),
)
_TEXTS: Final = st.one_of(
    joined(_PIECES, 25),
    joined(_PIECES, 25, " "),
    repeated(_PIECES, 100_000),
    st.text(max_size=200),
)
_TRUTHS: Final = ("5 mg", "37 °C", "1e300 m/s", "5", "2 mmol/L", "1 yr", "5 ± 1 kg", "20 %", "4.5 x10^9/L")
_RULES: Final = (
    Quantity(unreadable="wrong"),
    Quantity(tolerance=1, molar_mass=180.156),
    Quantity(unit="mg", decimal=","),
)


KIND: Final = Kind(
    "quantities",
    pairs(_TEXTS, _TRUTHS),
    comparing(_RULES, ("1 h", "60 min")),
    valid=[("5 mg", "5 mg"), ("0.3 m", "1 ft")],
)
