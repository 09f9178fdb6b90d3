"""Prints the right answers of public sets of mathematics that packages contain, as JSON: a list of each by its name.

`primitives.py --peers` runs this file in an environment that has the packages, with the source of math-verify.
"""

from __future__ import annotations

import ast
import json
import random
import re
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

FUNCTIONS = re.compile(r"\b(?:sqrt|sin|cos|tan|log|floor|and|or|text)\b")
WORDS = re.compile(r"[A-Za-z]{3,}")


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


def is_expression(text: str) -> bool:
    """Return whether a text is an expression alone, not a sentence or a word, and well-formed."""
    plain = re.sub(r"\\(?:begin|end)\s*\{[A-Za-z]+\}|\\text\s*\{\s*(?:and|or)\s*\}", " ", text)
    plain = FUNCTIONS.sub(" ", re.sub(r"\\[A-Za-z]+", " ", plain))
    is_one = text.count("boxed") < 2 and "..." not in text and "i.e." not in text and "zzz" not in text
    return is_one and WORDS.search(plain) is None and r"\\left" not in text and r"\quadx" not in text


def main() -> None:
    """Print the answers."""
    sets = {"CHAMP": champ(), "tests of math-verify": math_verify(Path(sys.argv[1])), "mathgenerator": generated()}
    json.dump({name: list(dict.fromkeys(filter(is_expression, texts))) for name, texts in sets.items()}, sys.stdout)


if __name__ == "__main__":
    main()
