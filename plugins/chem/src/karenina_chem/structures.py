"""Reads structures with RDKit, and draws them in a normal form."""

from __future__ import annotations

from collections.abc import Container
from functools import cache, lru_cache, reduce
from typing import Final

from rdkit import Chem
from rdkit.Chem import inchi
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

_ALKALINE: Final = frozenset((3, 11, 19, 37, 55, 12, 20, 38, 56))
"""The metals of salts, by atomic number."""
_METALS: Final = frozenset((13, *range(21, 32), *range(39, 51), *range(57, 84), *range(89, 113)))
"""The other ones, of complexes."""
_YLIDES: Final = """//\tName\tSMIRKS
Oxide\t[P,As,Sb;+1:1][O,S,Se;-1:2]>>[*+0:1]=[*+0:2]
Ylide of phosphorus\t[P,As,Sb;X4;+0:1]=[#6,#7;+0:2]>>[*+1:1][*-1:2]
Ylide of sulfur\t[S,Se,Te;X3,X4;+0:1]=[#6,#7;+0:2]>>[*+1:1][*-1:2]
"""
_OXIDE_ACIDS: Final = "//\tName\tSMIRKS\nOxide\t[OH:1]-[n,$([NX4]);+1:2]>>[O-1:1]-[*+1:2]\n"

Mol = Chem.Mol


class NotReadable(ValueError):
    """Raised if a string is not a structure."""


def is_inchi(text: str) -> bool:
    """Return whether a text has the prefix of InChIs."""
    return text[:6].casefold() == "inchi="


@lru_cache(maxsize=256)
def read(text: str) -> Mol:
    """Return the structure in a SMILES or InChI, normalized so that salts are ions and nitro groups have charges.
    Raises `NotReadable` if the text is neither, or contains a placeholder for an atom. The structure is cached, so do
    not change it.
    """
    if not text.isascii():  # RDKit would skip other characters
        raise NotReadable(f"{text[:60]!r} contains a character that is not part of a SMILES or InChI")
    mol = _from_inchi(text) if is_inchi(text) else _from_smiles(text)
    if mol is None or not mol.GetNumAtoms():
        raise NotReadable(f"{text[:60]!r} is not the SMILES or InChI of a possible structure")
    if any(not atom.GetAtomicNum() or atom.HasQuery() for atom in mol.GetAtoms()):
        raise NotReadable(f"{text[:60]!r} contains a placeholder instead of an atom")
    for atom in mol.GetAtoms():
        atom.SetAtomMapNum(0)
    mol = _as_ions(_without_hydrides(_without_dative_bonds(mol)), _ALKALINE)
    mol = _with_moved_protons(_ylides().normalize(_normalizer().normalize(mol)))
    again: Mol | None = Chem.MolFromSmiles(Chem.MolToSmiles(mol))
    return mol if again is None else again


def _without_dative_bonds(mol: Mol) -> Mol:
    """Return a copy of a structure with a single bond and charges for each dative bond: *[NH3+][BH3-]* for *N->B*."""
    copy = Chem.RWMol(mol)
    for bond in copy.GetBonds():
        if bond.GetBondType() == Chem.BondType.DATIVE:
            bond.SetBondType(Chem.BondType.SINGLE)
            for atom, change in ((bond.GetBeginAtom(), 1), (bond.GetEndAtom(), -1)):
                atom.SetFormalCharge(atom.GetFormalCharge() + change)
    copy.UpdatePropertyCache(strict=False)
    return copy.GetMol()


def _without_hydrides(mol: Mol) -> Mol:
    """Return a copy of a structure in which hydrides of alkali and alkaline earth metals are ions."""
    copy = Chem.RWMol(mol)
    for atom in mol.GetAtoms():
        if atom.GetAtomicNum() in _ALKALINE and atom.GetTotalNumHs():
            metal = copy.GetAtomWithIdx(atom.GetIdx())
            metal.SetFormalCharge(atom.GetFormalCharge() + atom.GetTotalNumHs())
            metal.SetNumExplicitHs(0)
            for _ in range(atom.GetTotalNumHs()):
                copy.GetAtomWithIdx(copy.AddAtom(Chem.Atom(1))).SetFormalCharge(-1)
    return copy.GetMol()


def _with_moved_protons(mol: Mol) -> Mol:
    """Return a salt with its protons moved to the anions: *Cl.N* for *[Cl-].[NH4+]*. Zwitterions, and salts whose
    charges protons alone do not balance, are not changed.
    """
    ions: list[Mol] = []
    others: list[Mol] = []
    for part in Chem.GetMolFrags(mol, asMols=True):
        (ions if Chem.GetFormalCharge(part) else others).append(part)
    if len(ions) < 2:
        return mol
    salt = reduce(Chem.CombineMols, ions)
    Chem.SanitizeMol(salt)
    neutral = rdMolStandardize.Uncharger().uncharge(salt)
    if CalcMolFormula(salt) != CalcMolFormula(neutral):
        return mol
    return reduce(Chem.CombineMols, others, neutral)


def taken_apart(mol: Mol) -> Mol | None:
    """Return a structure with ions in place of the bonds of its metals, or None if it has none but alkaline ones, or if
    RDKit cannot read the result.
    """
    if not any(atom.GetAtomicNum() in _METALS for atom in mol.GetAtoms()):
        return None
    again: Mol | None = Chem.MolFromSmiles(Chem.MolToSmiles(_as_ions(mol, _METALS)))
    return again


def _as_ions(mol: Mol, numbers: Container[int]) -> Mol:
    """Return a copy in which the bonds of the metals with these atomic numbers are replaced by charges, which RDKit's
    own function loses.
    """
    copy = Chem.RWMol(mol)
    for bond in mol.GetBonds():
        metals = [atom.GetAtomicNum() in numbers for atom in (bond.GetBeginAtom(), bond.GetEndAtom())]
        if not any(metals):
            continue
        order = 0 if all(metals) else int(bond.GetBondTypeAsDouble())
        copy.RemoveBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
        for old, is_metal in zip((bond.GetBeginAtom(), bond.GetEndAtom()), metals, strict=True):
            atom = copy.GetAtomWithIdx(old.GetIdx())
            atom.SetFormalCharge(atom.GetFormalCharge() + (order if is_metal else -order))
    copy.UpdatePropertyCache(strict=False)
    return copy.GetMol()


def _from_inchi(text: str) -> Mol | None:
    """Return a structure, or None if a text is not an InChI."""
    mol: Mol | None = inchi.MolFromInchi("InChI=" + text[6:])  # type: ignore[no-untyped-call]
    return mol


def _from_smiles(text: str) -> Mol | None:
    """Return the structure in a SMILES, or None if the text is not one, or continues after it."""
    if not text:
        return None
    if "->" in text or "<-" in text:  # to RDKit, a dative bond would take the place of a hydrogen atom
        raw: Mol | None = Chem.MolFromSmiles(text, _smiles_parameters(sanitize=False))
        text = Chem.MolToSmiles(_without_dative_bonds(raw)) if raw is not None else ""
    mol: Mol | None = Chem.MolFromSmiles(text, _smiles_parameters(sanitize=True))
    return mol


@cache
def _smiles_parameters(sanitize: bool) -> Chem.SmilesParserParams:
    """Return parameters with which RDKit's parser allows no name or extension after a SMILES and, if `sanitize` is set,
    sanitizes the structure.
    """
    parameters = Chem.SmilesParserParams()
    parameters.sanitize = sanitize  # type: ignore[assignment]  # wrong in the stubs
    parameters.parseName = False  # type: ignore[assignment]  # wrong in the stubs
    parameters.allowCXSMILES = False  # type: ignore[assignment]  # wrong in the stubs
    return parameters


@cache
def _normalizer() -> rdMolStandardize.Normalizer:
    """Return RDKit's normal forms of functional groups."""
    return rdMolStandardize.Normalizer()


@cache
def _ylides() -> rdMolStandardize.Normalizer:
    """Return the normal forms of oxides, sulfides and ylides, which RDKit lacks."""
    return rdMolStandardize.NormalizerFromData(_YLIDES, rdMolStandardize.CleanupParameters())


def through_inchi(mol: Mol) -> Mol:
    """Return the structure that the InChI of a structure stands for, or the structure itself if it has none."""
    again = inchi.MolFromInchi(inchi.MolToInchi(mol))  # type: ignore[no-untyped-call]
    return mol if again is None or not again.GetNumAtoms() else again


def parent(mol: Mol) -> Mol:
    """Return the largest organic part of a salt, neutralized, or the structure itself if that part contains no carbon
    or a charged carbon atom.

    A charged carbon atom means that it is no salt of an acid, so the metal beside it counts.
    """
    largest = rdMolStandardize.LargestFragmentChooser(preferOrganic=True).choose(mol)
    if not any(atom.GetAtomicNum() == 6 for atom in largest.GetAtoms()) or largest.HasSubstructMatch(_carbon_ion()):
        return mol
    return rdMolStandardize.Uncharger().uncharge(_oxide_acids().normalize(largest))


@cache
def _carbon_ion() -> Mol:
    """Return the pattern of a carbanion or carbocation, but not of cyanides, acetylides and ylides."""
    return Chem.MolFromSmarts("[#6;!+0;!$(*#*);!$([-]~[+]);!$([+]~[-])]")


@cache
def _oxide_acids() -> rdMolStandardize.Normalizer:
    """Return the normal form of protonated N-oxides, which RDKit does not uncharge."""
    return rdMolStandardize.NormalizerFromData(_OXIDE_ACIDS, rdMolStandardize.CleanupParameters())
