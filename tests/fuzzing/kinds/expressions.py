"""Values and ground truths of `MathEqual`: LaTeX and plain mathematics in any order, towers, and deep nesting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.engine import Kind
from karenina_math.math_equal import MathEqual
from karenina_template.templates import Undecided

Pair: TypeAlias = tuple[str, str]
"""A value and a ground truth."""

_PIECES: Final = (
    *("1", "2", "0", "3.5", "0.", "12,000", "1e9", "9" * 200, "½", "x", "y", "n", "AB", "e", "i", "a_1", "f(x)", "x'"),
    *("+", "-", "*", "/", "^", "=", "<", ">=", "!=", "±", "!", "%", "°", ",", ";", ":", "_", "&", " ", "\n", "\x00"),
    *("(", ")", "[", "]", "{", "}", "|", "\\{", "\\}", "\\left(", "\\right)", "^{", "_{", "\\\\", "\\", "$", "\\("),
    *("\\frac{", "}{", "\\sqrt", "\\sqrt[3]{", "\\pm", "\\pi", "\\infty", "\\in", "\\cup", "\\log", "sin ", "\\binom"),
    *("\\boxed{", "\\text{", "\\begin{pmatrix}", "\\end{pmatrix}", "0.\\overline{", "^\\circ", "\\lfloor", "\\rfloor"),
    *(
        "\\sum_{k=1}^{n}",
        "\\prod_{i=0}^3",
        "a_{n+1}",
        "a_k",
        "0x2d",
        "5BC0",
        "FF_{16}",
        "4 1/2",
        "\\cos",
        "<",
        "ma",
        "C",
    ),
    *("and", "or", "no solution", "\\emptyset", "\\mathbb{R}", "floor(", "percent", "__import__('os')", "x^x^"),
)
_TEXTS: Final = st.one_of(
    st.lists(st.sampled_from(_PIECES), max_size=20).map("".join),
    st.lists(st.sampled_from(_PIECES), max_size=20).map(" ".join),
    st.tuples(st.sampled_from(_PIECES), st.integers(1, 100_000)).map(lambda part: part[0] * part[1]),
    st.text(max_size=100),
)
_TRUTHS: Final = (
    "7",
    "x^2-1",
    "\\{1, 2\\}",
    "(1, 2)",
    "[0, 1)",
    "x = 1, y = 2",
    "3:2",
    "\\pm 2",
    "x < 1",
    "204_5",
    "F = ma",
    "x^3 < 8",
    "\\sum_{k=1}^{n} k",
    "\\cos",
    "a_{n+1} = 2a_n",
    "x^2 + y^2 < 4",
    "x^2 + C",
)
_RULES: Final = (
    MathEqual(unreadable="wrong"),
    MathEqual(domain="complex", ordered=False, tolerance=0.01),
)


@contextmanager
def _opened(_folder: Path) -> Iterator[Callable[[Pair], bool]]:
    MathEqual().check("14/2", "7")  # starts the process

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
            assert not isinstance(verdict, Undecided) or "failed" not in verdict.why, verdict
            accepted = True
        return accepted

    yield check


def _is_worker(arguments: Any) -> bool:
    """Return whether the started program is a process for comparisons, which replaces one that reached a limit."""
    return "limits/worker.py" in str(arguments)


KIND: Final = Kind(
    "expressions",
    st.tuples(_TEXTS, st.one_of(st.sampled_from(_TRUTHS), _TEXTS)),
    _opened,
    valid=[("14/2", "7"), ("\\frac{1}{2}", "0.5")],
    programs=_is_worker,
)
