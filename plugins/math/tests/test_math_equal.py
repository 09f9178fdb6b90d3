"""`MathEqual`: the contract of primitives, and hostile expressions."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from karenina_math.math_equal import MathEqual
from karenina_template.templates import Undecided
from karenina_testing.contracts import PrimitiveContract


@pytest.mark.alone
class TestMathEqual(PrimitiveContract):
    entry_point = "karenina_math:plugin"
    primitive = MathEqual(domain="complex", ordered=False, tolerance=0.001, unreadable="wrong")
    truths = ("3", r"\frac{1}{2}", "x^2-1", r"\{1, 2\}", "[0, 1)", "(1, 2)", "x = 3", "y = 2x + 3", r"\pm 2")
    bad_truths = ("", None, "see above", r"\frac{1}{")
    passes = ((r"\boxed{3}", "3"), ("0.5004", r"\frac{1}{2}"), ("2, 1", "1, 2"), ("(x-1)(x+1)", "x^2-1"))
    fails = (("4", "3"), ("(2,1)", "(1,2)"), ("", "3"))
    undecided = (("1/2x", r"\frac{x}{2}"), ("(10^9)!", "1"))
    unreadable = (("see above", "3"), ("2 3", "5"), ("7 or", "7"))


HOSTILE = [
    "9^{9^{9^{9}}}",
    "(((9^9)^9)^9)^9",
    "10^{10^{10}}!",
    "(" * 50_000 + ")" * 50_000,
    "(" * 900 + "1" + ")" * 900,
    "{" * 1_900,
    "-" * 1_900 + "1",
    "x^" * 900 + "x",
    r"\sqrt" * 300 + "2",
    "to be " * 300,
    r"\sin" * 400 + " x",
    "1e999999999",
    "((1000)!)!",
    "1" * 1_999,
    r"\sin(10^{5000})",
    r"\binom{10^9}{10^8}",
    "!" * 1_999,
    "2" + "!" * 100,
    "|" * 1_999,
    "+".join(f"a_{{{number}}}" for number in range(200)),
    r"\pm" * 600 + "1",
    "(x+1)" * 390,
    "x(" * 900 + "2" + ")" * 90,
    "E[X]" * 400,
    "x(2)" * 400,
    r"\Delta" * 300 + "x",
    r"\delta" * 300 + "x",
    r"\mathbf{A}^{-1}" * 120,
    "A^{-1}B" * 200,
    "C_1x+" * 300 + "C_2",
    r"\begin{pmatrix}" + "&" * 1_900,
    "0." + "1" * 900 + r"\overline{" + "3" * 900 + "}",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_expression_is_not_equal_and_soon_ends(text: str) -> None:
    started = time.monotonic()
    verdict = MathEqual().check(text, "7")
    assert verdict is False or isinstance(verdict, Undecided)
    assert time.monotonic() - started < 30
    assert MathEqual().check("21/3", "7") is True


@given(st.permutations("xyz"), st.lists(st.integers(1, 40), min_size=4, max_size=4), st.integers(-3, 3))
def test_a_linear_equation_equals_its_solution_for_a_symbol(names: list[str], numbers: list[int], change: int) -> None:
    (x, y, z), (a, b, c, d) = names, numbers
    equation, solved = f"{a}{x} + {b}{y} = {c}{z} - {d}", f"{x} = ({c}{z} - ({d + change}) - {b}{y})/{a}"

    assert MathEqual().check(solved, equation) is (not change)


@settings(max_examples=settings().max_examples // 3)  # each takes SymPy a fifth of a second
@given(st.permutations("xyz"), st.integers(2, 5), st.sampled_from(["/", r"\cdot "]))
def test_a_product_equals_its_solution_for_a_factor(names: list[str], power: int, sign: str) -> None:
    x, y, z = names
    verdict = MathEqual(domain="positive").check(f"{x} = \\sqrt[{power}]{{{y} {sign} {z}}}", f"{y} = {x}^{power} {z}")

    assert verdict is (sign == "/")


PEAKS = """
import json, re, sys
from pathlib import Path
from karenina_math.math_equal import MathEqual

for text in json.load(sys.stdin):
    MathEqual().check(text, "7")
children = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
states = [Path(f"/proc/{pid}/status").read_text() for pid in ("self", *children)]
print([int(re.search(r"VmHWM:\\s+(\\d+)", state)[1]) for state in states])
"""
"""A program that prints the most kilobytes that it and its child took."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of processes from /proc")
def test_hostile_expressions_need_little_memory() -> None:
    texts = ["1" * 1_999, "+".join(["x^99"] * 300), "(" * 50_000, r"\sqrt{" * 300, "x" * 100_000, "9^9^9^9", "2000!^2"]
    command = [sys.executable, "-c", PEAKS]
    done = subprocess.run(command, input=json.dumps(texts), stdout=subprocess.PIPE, text=True, check=True)
    own, child = json.loads(done.stdout)

    assert max(own, child) < 300 * 1024


MATRICES = [
    (r"\frac12\begin{pmatrix}2&4\\6&8\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", True),
    (r"\frac12\begin{pmatrix}2&4\\6&9\end{pmatrix}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", False),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\frac{1}{10}\begin{pmatrix}10&20\\30&40\end{pmatrix}", True),
    (r"-\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}-1\\-2\end{pmatrix}", True),
    (r"t\begin{pmatrix}1\\2\end{pmatrix}+(0, 1)^T", r"\begin{pmatrix}t\\2t+1\end{pmatrix}", True),
    (r"\begin{pmatrix}0\\1\end{pmatrix} + (1, 2)", r"\begin{pmatrix}1\\3\end{pmatrix}", "undecided"),
    (r"(1, 2)^T", r"\begin{pmatrix}1\\2\end{pmatrix}", True),
    (r"[1, 2]^T", r"\begin{pmatrix}2\\1\end{pmatrix}", False),
    (r"\frac15(1, 2)", r"(\frac15, \frac25)", True),
    (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}^{-1}", r"\begin{pmatrix}-2&1\\3/2&-1/2\end{pmatrix}", "undecided"),
    ("[[1,2],[3,4]]", "[[1,3],[2,4]]", False),
    ("[[1,2],[3,4]]", "[[1, 2], [6/2, 4]]", True),
    ("[[1,2,3],[3,4,5]]", "[[1,2,3],[3,4,6]]", False),
    (r"(1, 2)^T + s(6, 8)^T", r"(1, 2)^T + t(3, 4)^T", "undecided"),
    ("(4, 6) + s(6, 8)", "(1 + 3t, 2 + 4t)", "undecided"),
    (r"(4, 7)^T + \begin{pmatrix}6s\\8s\end{pmatrix}", "(1 + 3t, 2 + 4t)^T", False),
    ("(1, 2) + t(3, 4)", "(1 + 3t, 2 + 4t)", True),
    ("(1 + t, 2)", "(1, 2 + t)", False),
    (r"I_2", r"\begin{pmatrix}1&0\\0&1\end{pmatrix}", "undecided"),
    (r"I", r"\begin{pmatrix}1&0\\0&2\end{pmatrix}", False),
    (r"\mathbf{0}", r"\begin{pmatrix}0\\0\end{pmatrix}", "undecided"),
    (r"\mathbf{0}", r"\begin{pmatrix}0\\1\end{pmatrix}", False),
]  # fmt: skip
ANSWERS = [
    ("75", r"75\%", "undecided"),
    ("75%", "75", "undecided"),
    ("7.5", r"75\%", False),
    (r"0.75\%", r"75\%", False),
    ("101", "101_2", "undecided"),
    ("102", "101_2", False),
    ("101_3", "101_2", False),
    ("FF", "FF_{16}", "undecided"),
    ("A_2", "A", False),
    ("12th", "12", "undecided"),
    ("12th", "13", False),
    ("1,00,000", "100000", "undecided"),
    ("1.234,5", "1234.5", "undecided"),
    ("10.000", "10000", "undecided"),
    ("10.000", "10", True),
    ("nCk", r"\binom{n}{k}", "undecided"),
    ("x^1/2", r"\sqrt{x}", "undecided"),
    ("]0, 1]", "(0, 1]", True),
    ("[0; 1[", "[0, 1)", True),
    (r"\left]-\infty, 2\right[ \cup ]3, \infty[", r"(-\infty, 2) \cup (3, \infty)", True),
    ("]0, 1]", "[0, 1]", False),
    (r"]0,1[\cup]2,3[", r"(0, 1) \cup (2, 3)", True),
    (r"x\in]0,1[", "(0, 1)", True),
    ("E[X] = 3, E[Y] = 4", "E[X] = 3, E[Y] = 4", True),
    ("E[X] + 1, E[Y]", "1 + E[X], E[Y]", True),
    ("[0, 1], [2, 3]", "[0, 1], [2, 3]", True),
    ("6 cis 120°", r"-3 + 3\sqrt{3}i", True),
    (r"6\operatorname{cis}\frac{2\pi}{3}", "6e^{2\\pi i/3}", True),
    (r"6\text{cis}(60^\circ)", r"6 \operatorname{cis} 120^\circ", False),
    ("(x+1)^2 = x^2+2x+1", "x^2+2x+1", "undecided"),
    ("x^2 + 1 = 5", "x^2 + 1", False),
    ("a_n = 2n + 1", "a_k = 2k + 1", "undecided"),
    ("a_n = 2n + 1", "a_k = 2k + 3", False),
    ("f(t) = t^2", "x^2", "undecided"),
    ("t^2", "x^2", False),
    ("{∅}", r"\emptyset", "undecided"),
    (r"\{\emptyset\}", r"\emptyset", False),
    ("0", "e^{-200}", False),
    ("0", "e^{-1000}", False),
    (r"2\pi \cdot 10^{-50}", r"\pi \cdot 10^{-50}", False),
    ("x + e^{-200}", "x", False),
    (r"\sqrt{10^{100}+1}", "10^{50}", False),
    (r"\sin x/2", r"\sin(x/2)", "undecided"),
    (r"\sin x/2", r"\frac{\sin x}{2}", True),
    (r"\frac{\sin(x)}{2}", r"\sin(x/2)", False),
    ("cos 2x/3", r"\cos\frac{2x}{3}", "undecided"),
    (r"\arctan x/2", r"\arctan(x/2)", "undecided"),
    (r"\sinh x/2", r"\sinh(x/2)", "undecided"),
    (r"\sin^2 x/2", r"\sin^2(x/2)", "undecided"),
    (r"\log_2 x/2", r"\log_2(x/2)", "undecided"),
    (r"\exp x/2", "e^{x/2}", "undecided"),
    (r"\arctan x/2", r"\arctan(x)/3", False),
    (r"\tan \pi/4", "1", "undecided"),
    (r"\tan \pi/4", "2", False),
    ("√2/2", "√(2/2)", False),
    ("x^2 = 4", r"x = \pm 2", "undecided"),
    ("|x| = 2", "x = 2, x = -2", "undecided"),
    ("x^2 - 5x + 6 = 0", "2, 3", "undecided"),
    ("x^2 = 5", r"x = \pm 2", False),
    (r"\frac{1}{x - 2} = 3", r"x = \pm 2", False),
    ("x^2 = 4", "x = 2, y = -2", False),
    ("x = 2", "x^2 = 4", False),
    (r"\sin\pi", "0", True),
    (r"e^{-200}(\sqrt{2}\sqrt{3} - \sqrt{6})", "0", True),
    (r"\frac{e^{-200}}{e^{-100}}", "e^{-100}", True),
    (r"\lceil \log_2 536870912 \rceil", "29", True),
    (r"\lceil \log_2 536870912 \rceil", "30", False),
    (r"\lfloor \sqrt{2}\sqrt{2} \rfloor", "2", True),
    (r"\lceil \sin\pi \rceil", "0", True),
    (r"\lfloor 2." + "9" * 70 + r"\rfloor", "2", True),
]


@pytest.mark.parametrize(("value", "truth", "expected"), [*MATRICES, *ANSWERS])
def test_an_answer_as_people_write_it_has_its_verdict(value: str, truth: str, expected: bool | str) -> None:
    verdict = MathEqual().check(value, truth)

    assert isinstance(verdict, Undecided) if expected == "undecided" else verdict is expected
