"""Prints the right answers of public sets of mathematics that packages contain, as JSON.

The value of each set's name is a list of its expressions, and how many other answers it has: those with words, such as
*No* and *5 pairs*, and malformed ones, such as those with a bracket that is not closed.

`primitives.py --peers` runs this file in an environment that has the packages, with the source of math-verify.
"""

from __future__ import annotations

import ast
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

FUNCTIONS = re.compile(r"\b(?:sqrt|sin|cos|tan|log|floor|sum|and|or|text)\b|\b0x[0-9a-f]+")
WORDS = re.compile(r"[A-Za-z]{3,}|\bNo\b")


def champ() -> Iterator[str]:
    """Yield the answers of CHAMP, whose mathematics is between @@."""
    file = Path(str(distribution("champ-dataset").locate_file("champ_dataset/dataset_files/v0.json")))
    for problem in json.loads(file.read_text("utf-8"))["problems"].values():
        yield problem["_raw_answer"].replace("@@", "")


def math_verify(folder: Path) -> Iterator[str]:
    """Yield the right answers of the tests of math-verify, which are from NuminaMath, OpenThoughts, MATH and others."""
    for file in sorted(folder.rglob("tests/*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Tuple) and len(node.elts) == 3:
                truth, _, verdict = (getattr(part, "value", None) for part in node.elts)
                if isinstance(truth, str) and verdict in (0, 1):
                    yield truth


def generated() -> Iterator[str]:
    """Yield three answers of each generator of mathgenerator."""
    import mathgenerator
    import numpy as np

    random.seed(36)
    np.random.seed(36)
    for name, generator in sorted(vars(mathgenerator).items()):
        for _ in range(3 if callable(generator) and not name.startswith("_") else 0):
            try:
                made = generator()
            except Exception:  # it is no generator, or needs arguments
                break
            if isinstance(made, tuple) and len(made) == 2:
                yield str(made[1])


def why_left_out(text: str) -> str | None:
    """Return why a text is no expression alone, or None if it is one."""
    plain = re.sub(r"\\(?:begin|end)\s*\{[A-Za-z]+\}|\\text\s*\{\s*(?:and|or)\s*\}", " ", text)
    plain = FUNCTIONS.sub(" ", re.sub(r"\\[A-Za-z]+", " ", plain))
    if r"\\left" in text or r"\\boxed" in text or r"\quadx" in text or "zzz" in text:
        return "malformed"
    if sum(text.count(sign) for sign in "([{") != sum(text.count(sign) for sign in ")]}"):
        return "malformed"
    if text.count("boxed") > 1 or "..." in text or "i.e." in text or WORDS.search(plain) is not None:
        return "words"
    return None


def main() -> None:
    """Print the answers, and how many others there are for each reason."""
    sets = {"CHAMP": champ(), "tests of math-verify": math_verify(Path(sys.argv[1])), "mathgenerator": generated()}
    found = {}
    for name, texts in sets.items():
        reasons = {text: why_left_out(text) for text in dict.fromkeys(texts)}
        left_out = dict(Counter(reason for reason in reasons.values() if reason is not None))
        found[name] = [[text for text, reason in reasons.items() if reason is None], left_out]
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
