"""Values and ground truths of `SameMolecule` and `SameFormula`: broken structures, huge rings, brackets and charges."""

from __future__ import annotations

from typing import Final

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.verdicts import comparing, is_worker, joined, pairs, repeated
from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule

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
    joined(_ATOMS + _SIGNS, 40),
    joined(_PIECES, 25),
    repeated(_PIECES, 5_000),
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


KIND: Final = Kind(
    "chemistry",
    pairs(_TEXTS, _TRUTHS),
    comparing(_RULES, ("OCC", "CCO"), equal_to_itself=True),
    valid=[("OCC", "CCO"), ("H2O", "H2O")],
    seconds=30.0,
    programs=is_worker,
)
