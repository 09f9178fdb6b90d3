"""Values and ground truths of `SameMolecule` and `SameFormula`: broken structures, huge rings, brackets and charges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.engine import Kind
from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule
from karenina_template.templates import Undecided

Pair: TypeAlias = tuple[str, str]
"""A value and a ground truth."""

_ATOMS: Final = (
    "C",
    "c",
    "N",
    "n",
    "O",
    "S",
    "P",
    "Cl",
    "[Na+]",
    "[O-]",
    "[nH]",
    "[C@H]",
    "[C@@H]",
    "[2H]",
    "[Fe+3]",
    "*",
    "[C-99]",
    "[999C]",
    "[CH99]",
    "[Og]",
    "[R]",
    "[#6]",
    "[C:1]",
)
_SIGNS: Final = (
    "(",
    ")",
    "=",
    "#",
    "/",
    "\\",
    ".",
    "1",
    "2",
    "%99",
    "%(100)",
    ":",
    "-",
    ">>",
    "->",
    "~",
    "$",
    "@",
    "+",
)
_WORDS: Final = (
    "InChI=1S/",
    "CH4/",
    "h1H4",
    "/c1-2",
    "?",
    "BSYNRYMUTXBXSQ-UHFFFAOYSA-N",
    "SMILES: ",
    " (",
    ") ",
    " or ",
    "`",
    "\\ce{",
    "}",
    "^{2-}",
    "_4",
    "\u2084",
    "\u00b2\u207b",
    "·5H2O",
    "<sub>",
    "(III)",
    "\x00",
)
_PIECES: Final = (*_ATOMS, *_SIGNS, *_WORDS)
_TEXTS: Final = st.one_of(
    st.lists(st.sampled_from(_ATOMS + _SIGNS), max_size=40).map("".join),
    st.lists(st.sampled_from(_PIECES), max_size=25).map("".join),
    st.tuples(st.sampled_from(_PIECES), st.integers(1, 5_000)).map(lambda part: part[0] * part[1]),
    st.text(max_size=200),
)
_TRUTHS: Final = (
    "CC(=O)Oc1ccccc1C(=O)O",
    "C[C@H](N)C(=O)O",
    "CC(=O)[O-].[Na+]",
    "SO4^2-",
    "CuSO4·5H2O",
    "InChI=1S/CH4/h1H4",
)
_RULES: Final = (
    SameMolecule(unreadable="wrong"),
    SameMolecule(stereo="required", tautomers="same", salts="ignored"),
    SameFormula(),
)


@contextmanager
def _opened(_folder: Path) -> Iterator[Callable[[Pair], bool]]:
    SameMolecule().check("OCC", "CCO")  # imports RDKit in a child process

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
            assert rule.check(truth, truth) is True, truth
            accepted = True
        return accepted

    yield check


KIND: Final = Kind(
    "chemistry",
    st.tuples(_TEXTS, st.one_of(st.sampled_from(_TRUTHS), _TEXTS)),
    _opened,
    valid=[("OCC", "CCO"), ("H2O", "H2O")],
    seconds=30.0,
    programs=lambda arguments: "karenina_toolkit/limits/worker.py" in str(arguments),
)
