"""`SameFormula`, the primitive for chemical formulas."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from karenina_chem.formulas import Formula, NotReadable, WordsBesideFormula, read
from karenina_chem.written import clean, names_equal
from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.values import text_of


class SameFormula(ReadingPrimitive, defer_build=True):
    """Passes if both formulas have the same atoms and the same charge: *SO\u2084\u00b2\u207b* for *SO4^2-*.

    Use it for a text field into which the judge copies the formula, as the response writes it.

    - `synonyms`: names of the ground truth that are right, too. Other names cannot be read.
    - `unreadable`: whether text that is not a formula counts as wrong ("wrong") or leaves the item undecided
      ("not_judged", the default).

    The order of the atoms and brackets make no difference, so *C2H5OH* equals *C2H6O*; use `SameMolecule` if the
    structure counts. Water in a hydrate, isotopes and deuterium count. A charge may be written without a mark: *SO42-*
    and *Fe3+*. *O2-* and *VO2+* have two readings, and are undecided if only one of them is right; in a ground truth,
    write *O^2-*. *2CaSO4·H2O* is a multiple of *CaSO4·0.5H2O*, and undecided.
    Upper and lower case count, abbreviated groups such as *Ph* are not read, and an oxidation state is not a charge.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    field_type: ClassVar[str | None] = "formula"
    synonyms: tuple[str, ...] = Field(default=(), description="Names of the ground truth that are right, too.")

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a formula with one meaning."""
        self._truth(expected)

    def mutate(self, expected: object) -> object:
        """Return a formula with another atom."""
        return "HeNe" if self.check("He", expected) is True else "He"

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the formulas are the same, or the value is one of `synonyms`. Returns `Unreadable` if the
        value is no formula, or `Undecided` if it is ambiguous. An empty value is wrong. Raises `ValueError` if the
        ground truth is not one formula.
        """
        truth, text = self._truth(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        value = clean(text)
        if any(names_equal(value, name) for name in self.synonyms):
            return True
        try:
            meanings = read(value, self.synonyms)
        except WordsBesideFormula as error:
            return Undecided(f"{error} (if it is a name, add it to `synonyms`)")
        except NotReadable as error:
            return Unreadable(f"the value cannot be read as a formula: {error}")
        verdicts = {meaning == truth for meaning in meanings}
        if len(verdicts) > 1:
            return Undecided("the number before the sign may count charges or atoms")
        if verdicts == {False} and _is_multiple(meanings[0], truth):
            return Undecided("one formula is a multiple of the other one, which contains a fraction")
        if verdicts == {False} and (group := _abbreviation(meanings[0], truth)) is not None:
            return Undecided(f"{group} may be an element or an abbreviated group")
        return verdicts.pop()

    def _truth(self, expected: object) -> Formula:
        """Return the ground truth as a formula. Raises `ValueError` if it is not one, or has two meanings."""
        text = text_of(expected)
        if text is None:
            raise self._wrong_truth("a formula", expected)
        try:
            meanings = read(clean(text), self.synonyms)
        except NotReadable as error:
            raise self._wrong_truth(f"a chemical formula ({error})", expected) from None
        if len(meanings) > 1:
            raise self._wrong_truth("a formula with ^ before its charge (such as O^2- or O2^-)", expected)
        return meanings[0]


def _is_multiple(value: Formula, truth: Formula) -> bool:
    """Return whether two formulas are uncharged and have the same ratio of atoms, and one has a fractional number of
    them.
    """
    if value.charge or truth.charge or set(value.atoms) != set(truth.atoms):
        return False
    ratios = {value.atoms[symbol] / truth.atoms[symbol] for symbol in truth.atoms if truth.atoms[symbol]}
    return len(ratios) == 1 and any(n.denominator > 1 for atoms in (value.atoms, truth.atoms) for n in atoms.values())


def _abbreviation(value: Formula, truth: Formula) -> str | None:
    """Return the symbol in a formula that may stand for acetyl or propyl, or None if there is none."""
    if "C" not in value.atoms and "H" not in value.atoms and "O" not in value.atoms:
        return None
    return next((symbol for symbol in ("Ac", "Pr") if symbol in value.atoms and symbol not in truth.atoms), None)
