"""Hostile structures and formulas: they end at a limit, use little memory, and leave the next comparison as it was."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from karenina_chem.same_formula import SameFormula
from karenina_chem.same_molecule import SameMolecule
from karenina_template.templates import Undecided

ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"
FEW = (
    "(" * 100_000,
    "C(" * 1_490,
    "C1" * 1_400,
    "[C+99]" * 400,
    "InChI=1S/C" + "9" * 2_000,
    "C%10" * 600,
    "[R]" * 900,
    "A" * 1_400 + " " + "b" * 1_400,
)
MANY = (
    *FEW,
    "C" * 2_990,
    "C(" * 990 + "C" + ")" * 990,
    "c1ccccc1" * 370,
    ".".join("C" * 1_500),
    "[C@H](F)" * 370,
    "NC(=N)" * 200 + "N",
    "C12C3C4C1C5C2C3C45" * 100,
    "c1(O)nc(O)nc(O)n1." * 60 + "C",
    "C/C=C" * 500,
    "[2H]" * 700,
    "$" * 3_000,
)
FORMULAS = (
    "(" * 100_000,
    "(" * 200 + "H" + ")" * 200,
    "C" + "9" * 400,
    "^" + "9" * 400 + "C",
    "(" * 15 + "C9999999999" + ")9999999999" * 15,
    "**" * 50_000,
    " " * 100_000,
)
PROGRAM = f"""
import re
from contextlib import suppress
from pathlib import Path
from karenina_chem.same_molecule import SameMolecule
rule = SameMolecule(stereo="required", tautomers="same", salts="ignored")
for text in {MANY!r}:
    rule.check(text, {ASPIRIN!r})
    with suppress(ValueError):
        rule.check(text + ".C", text)
children = [pid for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
states = [Path(f"/proc/{{pid}}/status").read_text() for pid in ("self", *children)]
print([int(re.search(r"VmHWM:\\s+(\\d+)", state)[1]) for state in states])
"""
"""A program that prints the most kilobytes that it and its child took."""


@pytest.mark.parametrize("text", FEW, ids=range(len(FEW)))
def test_a_hostile_structure_is_not_equal_and_soon_ends(text: str) -> None:
    started = time.monotonic()
    verdict = SameMolecule(tautomers="same", salts="ignored").check(text, ASPIRIN)

    assert verdict is False or isinstance(verdict, Undecided)
    assert time.monotonic() - started < 30
    assert SameMolecule().check("OC(=O)c1ccccc1OC(C)=O", ASPIRIN) is True


@pytest.mark.parametrize("text", FORMULAS, ids=range(len(FORMULAS)))
def test_a_hostile_formula_is_not_equal(text: str) -> None:
    verdict = SameFormula().check(text, "H2O")

    assert verdict is False or isinstance(verdict, Undecided)


def test_a_structure_with_too_many_tautomers_is_undecided() -> None:
    chain, isomer = "NC(=N)" * 12 + "N", "NC(=N)" * 11 + "NNC=N"
    verdict = SameMolecule(tautomers="same").check(isomer, chain)

    assert isinstance(verdict, Undecided)


@pytest.mark.release
@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory of processes from /proc")
def test_hostile_structures_need_little_memory() -> None:
    done = subprocess.run([sys.executable, "-"], input=PROGRAM, stdout=subprocess.PIPE, text=True, check=True)
    own, child = json.loads(done.stdout)

    assert max(own, child) < 300 * 1024
