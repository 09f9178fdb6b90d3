"""Comparisons of other programs. `primitives.py --peers` runs this file in an environment of its own for each.

Reads rows as JSON lines from standard input, and prints for each row the verdict (true, false or null) and the seconds.
Null means that the program raises an error, or finds nothing to compare.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import signal
import sys
import time
import types
from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

Compare = Callable[[dict[str, Any]], bool | None]
SECONDS = 20


def in_math(text: str) -> str:
    """Return a text between dollar signs, unless it says itself where its mathematics is."""
    return text if any(sign in text for sign in ("$", "\\(", "\\[", "\\boxed")) else f"${text}$"


def math_verify(part: str) -> Compare:
    """Return the comparison of math-verify with the value or the response of a row."""
    from math_verify import parse, verify

    def compare(row: dict[str, Any]) -> bool | None:
        text = row[part] if part == "response" else in_math(row[part])
        return bool(verify(parse(in_math(row["truth"])), parse(text)))

    return compare


def latex2sympy() -> Compare:
    """Return a comparison of what latex2sympy2-extended reads from the whole text, with sympy."""
    import sympy
    from latex2sympy2_extended import latex2sympy as read

    def compare(row: dict[str, Any]) -> bool | None:
        truth, value = (read(row[part].replace("$", "")) for part in ("truth", "value"))
        if truth == value:
            return True
        if isinstance(truth, sympy.Expr) and isinstance(value, sympy.Expr):
            return bool(sympy.simplify(truth - value) == 0)
        if isinstance(truth, sympy.MatrixBase) and isinstance(value, sympy.MatrixBase) and truth.shape == value.shape:
            return all(sympy.simplify(cell) == 0 for cell in truth - value)
        return bool(sympy.simplify(truth) == sympy.simplify(value))

    return compare


def lm_eval(task: str) -> Compare:
    """Return the comparison of a task of lm-evaluation-harness."""
    sys.modules["datasets"] = types.SimpleNamespace(Dataset=object)  # it only loads questions
    file = Path(str(distribution("lm-eval").locate_file(f"lm_eval/tasks/{task}/utils.py")))
    spec = importlib.util.spec_from_file_location("lm_eval_task", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    normalize = getattr(module, "normalize_final_answer", lambda text: text)

    def compare(row: dict[str, Any]) -> bool | None:
        return bool(module.is_equiv(normalize(row["value"]), normalize(row["truth"])))

    return compare


def pint() -> Compare:
    """Return the comparison of pint with the whole texts."""
    import math

    from pint import UnitRegistry

    registry: UnitRegistry = UnitRegistry(autoconvert_offset_to_baseunit=True)

    def compare(row: dict[str, Any]) -> bool | None:
        truth, value = (registry.Quantity(row[part]) for part in ("truth", "value"))
        if truth.dimensionality != value.dimensionality:
            return False
        slack = row["rule"].get("relative", 1e-9)
        return math.isclose(value.to(truth.units).magnitude, truth.magnitude, rel_tol=slack)

    return compare


WAYS: dict[str, Callable[[], Compare]] = {
    "math-verify, value": lambda: math_verify("value"),
    "math-verify, response": lambda: math_verify("response"),
    "latex2sympy + sympy": latex2sympy,
    "lm-eval minerva_math": lambda: lm_eval("minerva_math"),
    "lm-eval hendrycks_math": lambda: lm_eval("hendrycks_math"),
    "pint": pint,
}


def stop(*_: object) -> None:
    """End a comparison that takes too long."""
    raise TimeoutError


def main() -> None:
    """Print the verdicts and seconds of a way."""
    logging.disable(logging.CRITICAL)
    compare = WAYS[sys.argv[1]]()
    for line in sys.stdin:
        signal.signal(signal.SIGALRM, stop)  # some programs set their own
        signal.alarm(SECONDS)
        started = time.perf_counter()
        try:
            verdict = compare(json.loads(line))
        except Exception:
            verdict = None
        signal.alarm(0)
        print(json.dumps([verdict, time.perf_counter() - started]), flush=True)


if __name__ == "__main__":
    main()
