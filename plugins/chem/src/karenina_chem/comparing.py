"""Reads and compares structures with RDKit, in child processes, because it may take long or crash."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from rdkit import Chem
from rdkit.Chem import inchi
from rdkit.Chem.MolStandardize import rdMolStandardize
from rdkit.Chem.rdMolDescriptors import CalcMolFormula

from karenina_chem.structures import Mol, NotReadable, is_inchi, parent, read, taken_apart, through_inchi

_KEY: Final = re.compile(r"(?:InChIKey\s?=\s?)?([A-Z]{14}-[A-Z]{10}-[A-Z])", re.IGNORECASE)
_OTHER_STEREO: Final = re.compile(
    r"@(?:SP|TB|OH|AL)\d|=\[\d*C@|\[\d*C@[^\]H]*\][\d(]*=|^InChI=.*/s[23]", re.IGNORECASE | re.DOTALL
)
"""Configuration that RDKit skips: of complexes and allenes in SMILES, and relative or racemic in InChIs."""
_NO_STEREO: Final = "UHFFFAOYSA"
"""The second part of an InChIKey without configuration and isotopes."""
_STEREO_PROBLEM: Final = (
    "only the configuration of tetrahedral atoms and double bonds is supported; `stereo: ignored` compares without any"
)
_MOST_TAUTOMERS: Final = 300
_MOST_FORMS: Final = 200


class OutOfReach(Exception):
    """Raised if a comparison has no clear result. The message is the reason."""


def why_unreadable(text: str, stereo: str) -> str | None:
    """Return why a text cannot be compared as a structure, or None if it can. Unless `stereo` is "ignored", a kind of
    stereochemistry that RDKit skips is a reason.
    """
    if stereo != "ignored" and _OTHER_STEREO.search(text) is not None:
        return _STEREO_PROBLEM
    try:
        read(text)
    except NotReadable as error:
        return str(error)
    return None


def compare(truth: str, values: list[str], all_needed: bool, stereo: str, tautomers: str, salts: str) -> list[Any]:
    """Compare `values`, texts that may be structures, with the structure `truth`. Returns [True] or [False] if the same
    is true of all structures among them, ["unreadable", why] if it is not or if there are none, and [None, why] if this
    is undecided. A value that is not a structure makes the result unreadable with `all_needed`, and otherwise
    undecided. The other parameters are those of `SameMolecule`.
    """
    verdicts, problem, words = set(), "the value contains no structure", ""
    for value in values:
        try:
            verdicts.add(_same(truth, value, stereo, tautomers, salts))
        except NotReadable as error:
            problem, words = str(error), value
        except OutOfReach as error:
            return [None, str(error)]
    if not verdicts or (words and all_needed):
        return ["unreadable", problem]
    if words:
        return [None, f"{words[:60]!r} beside the structure may change it (list it in `synonyms` if it is a name)"]
    if len(verdicts) > 1:
        return ["unreadable", "the value contains several structures, one of which is the ground truth"]
    return [verdicts.pop()]


def _same(truth: str, value: str, stereo: str, tautomers: str, salts: str) -> bool:
    """Return whether two texts are the same structure under the rules for `stereo`, `tautomers` and `salts`. `value`
    may also be an InChIKey. Raises `NotReadable` if a text is not a structure, and `OutOfReach` if there is no clear
    answer.
    """
    if stereo != "ignored" and any(_OTHER_STEREO.search(text) is not None for text in (truth, value)):
        if _same(truth, value, "ignored", tautomers, salts):
            raise OutOfReach(_STEREO_PROBLEM)
        return False
    key = _KEY.fullmatch(value)
    if key is not None:
        return _has_key(read(truth), key[1].upper(), stereo, tautomers, salts)
    one, other = read(truth), read(value)
    if is_inchi(truth) or is_inchi(value):  # an InChI does not say where its mobile hydrogen atoms are
        one, other = through_inchi(one), through_inchi(other)
    if salts == "ignored":
        one, other = parent(one), parent(other)
    if _same_structure(one, other, stereo) or _are_resonance_forms(one, other, stereo):
        return True
    if _are_same_apart(one, other, stereo):
        return True
    return tautomers == "same" and _are_tautomers(one, other, stereo)


def _flat(mol: Mol) -> str:
    """Return the canonical SMILES without the configuration."""
    return str(Chem.MolToSmiles(mol, isomericSmiles=True) if not _has_stereo(mol) else Chem.MolToSmiles(_without(mol)))


def _has_stereo(mol: Mol) -> bool:
    """Return whether a structure has any configuration."""
    return any(atom.GetChiralTag() for atom in mol.GetAtoms()) or any(
        bond.GetStereo() or bond.GetBondDir() for bond in mol.GetBonds()
    )


def _without(mol: Mol) -> Mol:
    """Return a structure without its configuration."""
    copy = Chem.Mol(mol)
    Chem.RemoveStereochemistry(copy)
    return Chem.RemoveHs(copy)  # those that only the configuration of a double bond needed


def _same_structure(truth: Mol, value: Mol, stereo: str) -> bool:
    """Return whether two structures have the same bonds and, as far as `stereo` says, the same configuration."""
    if _flat(truth) != _flat(value):
        return False
    if stereo == "ignored" or Chem.MolToSmiles(truth) == Chem.MolToSmiles(value):
        return True
    if not value.HasSubstructMatch(truth, useChirality=True):
        return False
    return stereo == "stated" or bool(truth.HasSubstructMatch(value, useChirality=True))


def _are_same_apart(truth: Mol, value: Mol, stereo: str) -> bool:
    """Return whether two structures of metals are the same except for which parts have bonds to the metal. Raises
    `OutOfReach` if these bonds may matter. They cannot if there is one kind of ligand: aluminium chloride may be drawn
    with bonds or with ions.
    """
    apart = [taken_apart(mol) for mol in (truth, value)]
    if None in apart:
        return False
    one, other = (mol for mol in apart if mol is not None)
    if not _same_structure(one, other, stereo):
        return False
    parts = Chem.GetMolFrags(one, asMols=True)
    ligands = {_flat(part) for part in parts if part.GetNumAtoms() > 1 or part.GetAtomWithIdx(0).GetFormalCharge() <= 0}
    if len(ligands) > 1:
        raise OutOfReach("the structures differ only in which parts are bonded to the metal")
    return True


def _are_resonance_forms(truth: Mol, value: Mol, stereo: str) -> bool:
    """Return whether two structures with charges differ only in where the bonds and charges of a conjugated system are
    drawn. Without charges, the result is False. Raises `OutOfReach` if one can be drawn in too many ways to try all of
    them.
    """
    if CalcMolFormula(truth) != CalcMolFormula(value):
        return False
    truth, value = _with_cations(truth), _with_cations(value)
    if not any(atom.GetFormalCharge() for mol in (truth, value) for atom in mol.GetAtoms()):
        return False
    flags = Chem.KEKULE_ALL | Chem.ALLOW_CHARGE_SEPARATION
    suppliers = [Chem.ResonanceMolSupplier(mol, flags, _MOST_FORMS) for mol in (truth, value)]
    for supplier, truth_is_drawn in zip(suppliers, (True, False), strict=True):
        for form in supplier:
            if Chem.SanitizeMol(form, catchErrors=True):
                continue
            if _same_structure(*((form, value) if truth_is_drawn else (truth, form)), stereo):
                return True
    if any(len(supplier) >= _MOST_FORMS for supplier in suppliers):
        raise OutOfReach(f"the structures can be drawn in more than {_MOST_FORMS} ways")
    return False


def _with_cations(mol: Mol) -> Mol:
    """Return a copy of a structure in which uncharged carbon radicals, which have the same resonance forms as cations,
    are cations.
    """
    copy = Chem.Mol(mol)
    for atom in copy.GetAtoms():
        if atom.GetNumRadicalElectrons() == 1 and atom.GetAtomicNum() == 6 and not atom.GetFormalCharge():
            atom.SetNumRadicalElectrons(0)
            atom.SetFormalCharge(1)
    Chem.SanitizeMol(copy)
    return copy


def _are_tautomers(truth: Mol, value: Mol, stereo: str) -> bool:
    """Return whether two structures are tautomers, with stereochemistry compared as `stereo` states. A hydrogen atom
    may move between a carbon atom and N, O or S, but not from one carbon atom to another. Raises `OutOfReach` if a
    structure has too many tautomers to try all of them.

    Glucose and fructose, and other ketones with the same enol, are different compounds.
    """
    if CalcMolFormula(truth) != CalcMolFormula(value):
        return False
    one, other = (_without_loose_bonds(rdMolStandardize.Uncharger().uncharge(mol)) for mol in (truth, value))
    if CalcMolFormula(one) != CalcMolFormula(other):
        return False
    if _flat(one) == _flat(other):
        return _same_structure(one, other, stereo)
    complete = True
    for drawn, fixed in ((other, one), (one, other)):  # RDKit does not find all tautomers from each of them
        forms = _tautomers().Enumerate(drawn)
        complete = complete and forms.status == rdMolStandardize.TautomerEnumeratorStatus.Completed
        aim = _flat(fixed)
        found = [form for form in forms if _flat(form) == aim and not _moved_between_carbons(drawn, form)]
        found = [_without_loose_bonds(form) for form in found]
        if drawn is other and any(_same_structure(one, form, stereo) for form in found):
            return True
        if drawn is one and any(
            _same_structure(form, other, stereo) and _stated(form) == _stated(one) for form in found
        ):
            return True
        if found:
            break
    if not complete:
        raise OutOfReach(f"the structures have more than {_MOST_TAUTOMERS} tautomers")
    return False


def _stated(mol: Mol) -> int:
    """Return how many atoms and bonds have a configuration."""
    return sum(bool(atom.GetChiralTag()) for atom in mol.GetAtoms()) + sum(
        bond.GetStereo() != Chem.BondStereo.STEREONONE for bond in mol.GetBonds()
    )


@cache
def _tautomers() -> rdMolStandardize.TautomerEnumerator:
    """Return RDKit's enumerator of tautomers, set up to keep stereochemistry and to stop at `_MOST_TAUTOMERS`."""
    parameters = rdMolStandardize.CleanupParameters()
    parameters.maxTautomers = _MOST_TAUTOMERS  # type: ignore[assignment]  # wrong in the stubs
    parameters.maxTransforms = _MOST_TAUTOMERS  # type: ignore[assignment]  # wrong in the stubs
    parameters.tautomerRemoveSp3Stereo = False  # type: ignore[assignment]  # wrong in the stubs
    parameters.tautomerRemoveBondStereo = False  # type: ignore[assignment]  # wrong in the stubs
    return rdMolStandardize.TautomerEnumerator(parameters)


def _without_loose_bonds(mol: Mol) -> Mol:
    """Return a copy of a structure in which the double bonds of enols and amidines have no E/Z configuration."""
    copy = Chem.Mol(mol)
    for _, begin, end in mol.GetSubstructMatches(_loose_bond()):
        copy.GetBondBetweenAtoms(begin, end).SetStereo(Chem.BondStereo.STEREONONE)
    parameters = Chem.RemoveHsParameters()
    parameters.removeDefiningBondStereo = True  # type: ignore[assignment]  # wrong in the stubs
    return Chem.RemoveHs(copy, parameters)


@cache
def _loose_bond() -> Mol:
    """Return the pattern of an enol, enamine or amidine with a mobile hydrogen atom."""
    return Chem.MolFromSmarts("[#7,#8,#16;!H0]-[#6]=[#6,#7]")


def _moved_between_carbons(mol: Mol, form: Mol) -> bool:
    """Return whether, from a structure to its tautomer, one carbon atom lost hydrogen and another one gained it."""
    changes = [
        after.GetTotalNumHs() - before.GetTotalNumHs()
        for before, after in zip(mol.GetAtoms(), form.GetAtoms(), strict=True)
        if before.GetAtomicNum() == 6
    ]
    return min(changes, default=0) < 0 < max(changes, default=0)


def _has_key(mol: Mol, key: str, stereo: str, tautomers: str, salts: str) -> bool:
    """Return whether a structure has this InChIKey under the rules for `stereo`, `tautomers` and `salts`. Raises
    `OutOfReach` if the key cannot tell.

    A key states only hashes, so a different one may still be that of a salt or tautomer.
    """
    own = inchi.MolToInchiKey(mol)  # type: ignore[no-untyped-call]
    if key == own:
        return True
    if salts == "ignored":
        if inchi.MolToInchiKey(parent(mol)) == key:  # type: ignore[no-untyped-call]
            return True
        raise OutOfReach("the salt cannot be identified from an InChIKey")
    bonds, configuration, _ = key.split("-")
    own_bonds, own_configuration, _ = own.split("-")
    if bonds != own_bonds or key[-1] != own[-1]:
        if tautomers == "same":
            raise OutOfReach("an InChIKey does not show whether the structures are tautomers")
        return False
    if stereo == "ignored":
        return True
    if stereo == "stated" and own_configuration == _NO_STEREO:
        return True
    if stereo == "required" or configuration == _NO_STEREO or "?" not in _centres(mol):
        return False
    raise OutOfReach("an InChIKey does not show how the configurations differ")


def _centres(mol: Mol) -> str:
    """Return the labels of the centres of configuration, with a question mark for those that are open."""
    return "".join("?" if str(one.specified) == "Unspecified" else "x" for one in Chem.FindPotentialStereo(mol))
