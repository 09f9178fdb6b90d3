"""`SameMolecule` and `SameFormula`: the contract of primitives, laws, and what their errors say."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rdkit import Chem

from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule
from karenina_template.templates import Undecided
from karenina_testing.contracts import PrimitiveContract

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
MOLECULES = (
    ASPIRIN,
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
    "C[C@H](N)C(=O)O",
    "OC[C@H]1O[C@@H](O)[C@H](O)[C@@H](O)[C@@H]1O",
    "C/C=C/C(=O)[O-].[Na+]",
    "CN1CC[C@]23c4c5ccc(O)c4O[C@H]2[C@@H](O)C=C[C@H]3[C@H]1C5",
    "CC(C)Cc1ccc(cc1)[C@@H](C)C(=O)O",
    "[O-][N+](=O)c1ccccc1",
)
ELEMENTS = ("C", "H", "O", "N", "Na", "Cl", "Fe", "S", "Co")


class TestSameMolecule(PrimitiveContract):
    entry_point = "karenina_chem:plugin"
    primitive = SameMolecule(
        stereo="required", tautomers="same", salts="ignored", synonyms=("aspirin",), unreadable="wrong"
    )
    truths = (*MOLECULES, "InChI=1S/CH4/h1H4", "[Na+].[Cl-]", "[He]")
    bad_truths = (None, "", "aspirin", "C1CC", "*C", ["C"], "CCO ethanol", "Cl[Pt@SP1](Cl)(N)N", "CC=[C@]=CC")
    passes = (("OC(=O)c1ccccc1OC(C)=O", ASPIRIN), ("Aspirin", ASPIRIN), ("CC(O)=C", "CC(C)=O"), ("CCN.Cl", "CCN"))
    fails = (("OC(=O)c1ccccc1", ASPIRIN), ("C[C@@H](N)C(=O)O", "C[C@H](N)C(=O)O"), ("", ASPIRIN))
    undecided = (("C" * 4_000, ASPIRIN), ("LFQSCWFLJHTTHZ-UHFFFAOYSA-N", ASPIRIN))
    unreadable = (("ibuprofen", ASPIRIN), ("C1CC", ASPIRIN), ("CCO or COC", "CCO"))


@pytest.mark.alone
class TestSameFormula(PrimitiveContract):
    entry_point = "karenina_chem:plugin"
    primitive = SameFormula(synonyms=("water",), unreadable="wrong")
    truths = ("H2O", "SO4^2-", "CuSO4·5H2O", "[Fe(CN)6]4-", "He", "Fe3+", "^13CO2")
    bad_truths = (None, "", "water", "O2-", ["H2O"], "n(H2O)", "Fe(III)")
    passes = (("H₂O", "H2O"), ("Water", "H2O"), ("SO42-", "SO4^2-"), ("C2H5OH", "C2H6O"))
    fails = (("H2O2", "H2O"), ("SO4", "SO4^2-"), ("CO", "Co"), ("D2O", "H2O"))
    undecided = (("O2-", "O^2-"), ("Ac2O", "C4H6O3"))
    unreadable = (("a liquid", "H2O"), ("h2o", "H2O"), ("CnH2n", "C2H4"))


@given(st.sampled_from(MOLECULES), st.integers(0, 1_000))
def test_a_structure_is_equal_however_it_is_written(truth: str, seed: int) -> None:
    molecule = Chem.MolFromSmiles(truth)
    written = Chem.MolToRandomSmilesVect(molecule, 1, seed)[0]
    kekulized = Chem.MolToSmiles(molecule, kekuleSmiles=True, rootedAtAtom=seed % molecule.GetNumAtoms())

    assert SameMolecule(stereo="required").check(written, truth) is True
    assert SameMolecule(stereo="required").check(kekulized, truth) is True


@given(st.sampled_from(MOLECULES), st.sampled_from(MOLECULES))
def test_comparing_structures_is_symmetric(one: str, other: str) -> None:
    assert SameMolecule(stereo="required").check(one, other) is SameMolecule(stereo="required").check(other, one)


@given(st.lists(st.tuples(st.sampled_from(ELEMENTS), st.integers(1, 30)), min_size=1, max_size=6), st.randoms())
def test_the_order_of_atoms_makes_no_difference(atoms: list[tuple[str, int]], random: object) -> None:
    written = "".join(f"{symbol}{count}" for symbol, count in atoms)
    shuffled = "".join(f"{symbol}{count}" for symbol, count in reversed(atoms))

    assert SameFormula().check(shuffled, written) is True
    assert SameFormula().check(f"{shuffled}He", written) is False


@given(st.one_of(st.text(), st.text("CHON0123456789+-^()[]{}·.\\$_ aloec₂²⁻")))
def test_any_text_has_a_verdict_as_a_formula(text: str) -> None:
    verdict = SameFormula(unreadable="wrong").check_extracted(text, "C6H12O6", text)

    assert verdict in (True, False) or isinstance(verdict, Undecided)


@given(st.text("CNOcno123456789()[]=#/\\@+-.%H* "))
def test_any_text_has_a_verdict_as_a_structure(text: str) -> None:
    verdict = SameMolecule(tautomers="same", salts="ignored").check(text, ASPIRIN)

    assert verdict in (True, False) or isinstance(verdict, Undecided)


def test_rdkit_is_not_imported_in_the_process_of_a_run() -> None:
    program = (
        "import sys; from karenina_chem.same_molecule import SameMolecule as S; S().check_expected('CCO');"
        "assert S().check('OCC', 'CCO') is True; assert 'rdkit' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
