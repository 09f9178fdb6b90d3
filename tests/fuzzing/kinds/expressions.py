"""Values and ground truths of `MathEqual`: LaTeX and plain mathematics in any order, towers, and deep nesting."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.verdicts import comparing, is_worker, joined, pairs, repeated
from karenina_math.math_equal import MathEqual

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
    joined(_PIECES, 20),
    joined(_PIECES, 20, " "),
    repeated(_PIECES, 100_000),
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


KIND: Final = Kind(
    "expressions",
    pairs(_TEXTS, _TRUTHS),
    comparing(_RULES, ("14/2", "7")),
    valid=[("14/2", "7"), ("\\frac{1}{2}", "0.5")],
    programs=is_worker,
)
