"""Values and ground truths of `Quantity`: numbers, units, LaTeX, and hostile texts such as huge exponents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.engine import Kind
from karenina_template.templates import Undecided
from karenina_units.quantity import Quantity

Pair: TypeAlias = tuple[str, str]
"""A value and a ground truth."""

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
    st.lists(st.sampled_from(_PIECES), max_size=25).map("".join),
    st.lists(st.sampled_from(_PIECES), max_size=25).map(" ".join),
    st.tuples(st.sampled_from(_PIECES), st.integers(1, 100_000)).map(lambda part: part[0] * part[1]),
    st.text(max_size=200),
)
_TRUTHS: Final = ("5 mg", "37 °C", "1e300 m/s", "5", "2 mmol/L", "1 yr", "5 ± 1 kg", "20 %", "4.5 x10^9/L")
_RULES: Final = (
    Quantity(unreadable="wrong"),
    Quantity(tolerance=1, molar_mass=180.156),
    Quantity(unit="mg", decimal=","),
)


@contextmanager
def _opened(_folder: Path) -> Iterator[Callable[[Pair], bool]]:
    Quantity().check("1 h", "60 min")  # reads the registry of pint

    def check(pair: Pair) -> bool:
        value, truth = pair
        accepted = False
        for rule in _RULES:
            try:
                rule.check_expected(truth)
            except ValueError:
                continue
            verdict = rule.check_extracted(value, truth, value)
            assert isinstance(verdict, bool | Undecided), verdict
            accepted = True
        return accepted

    yield check


KIND: Final = Kind(
    "quantities",
    st.tuples(_TEXTS, st.one_of(st.sampled_from(_TRUTHS), _TEXTS)),
    _opened,
    valid=[("5 mg", "5 mg"), ("0.3 m", "1 ft")],
)
