"""`SameMolecule`, the primitive for chemical structures."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from pydantic import Field

from karenina_chem.written import alternatives, clean, names_equal
from karenina_core.models.settings_models import AllowedInFiles
from karenina_template.templates.primitives import ReadingPrimitive, Undecided, Unreadable
from karenina_template.templates.primitives.values import text_of
from karenina_toolkit.limits import ChildError, LimitReached, call_limited

_LONGEST: Final = 3_000
_SECONDS: Final = 5.0
_OTHERS: Final = ("[He]", "[Ne]")


class SameMolecule(ReadingPrimitive, defer_build=True):
    """Passes if both texts are the same chemical structure, as SMILES or InChI: *OCC* for *CCO*.

    Use it for a text field into which the judge copies the structure, as the response writes it. A value may also be an
    InChIKey.

    - `stereo`: whether the configuration counts: where the ground truth states it ("stated", the default), everywhere
      ("required", so that a value must not state more than the ground truth), or not at all ("ignored"). A value
      without the configuration that the ground truth states is wrong.
    - `tautomers`: whether tautomers, such as keto and enol form or a zwitterion, are "different" (the default) or the
      "same".
    - `salts`: whether ions and solvents beside the largest organic part are "counted" (the default) or "ignored". If
      they are ignored, so are the charges of acids and bases: acetate is acetic acid. Organic compounds of metals and
      ions of carbon, such as ferrocene, are no salts. A salt of a small base with a large acid is compared by the acid.
    - `synonyms`: names of the ground truth that are right, too. Other names cannot be read.
    - `unreadable`: whether text without a structure, and two different ones, count as wrong ("wrong") or leave the
      item undecided ("not_judged", the default).

    Ways to draw the same bonds are equal: aromatic rings, charges in nitro groups and ylides, salts with a bond or as
    acid and base, and resonance forms such as *CN=[N+]=[N-]* and *C[N-][N+]#N*. Complexes that differ only in the parts
    with bonds to the metal are undecided. Isotopes and charges count. An InChI does not say where mobile
    hydrogen atoms are, so they do not count beside one. The configuration of complexes and allenes, and racemic or
    relative configuration, is not read: a ground truth with it is refused unless `stereo` is "ignored", and a value
    undecided. So are a structure of more than 3,000 characters and a comparison that takes too long.
    """

    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    is_slow: ClassVar[bool] = True
    field_type: ClassVar[str | None] = "molecule"

    stereo: Literal["stated", "required", "ignored"] = Field(
        default="stated", description="Whether the configuration counts."
    )
    tautomers: Literal["different", "same"] = Field(default="different", description="Whether tautomers differ.")
    salts: Literal["counted", "ignored"] = Field(
        default="counted", description="Whether ions and solvents beside the largest organic part count."
    )
    synonyms: tuple[str, ...] = Field(default=(), description="Names of the ground truth that are right, too.")

    def check_expected(self, expected: object) -> None:
        """Raise `ValueError` unless the ground truth is a structure that RDKit can read."""
        text = self._truth(expected)
        try:
            problem = call_limited("karenina_chem.comparing:why_unreadable", text, self.stereo, seconds=_SECONDS)
        except (LimitReached, ChildError) as error:
            problem = f"reading it {error}"
        if problem is not None:
            raise self._wrong_truth(f"the SMILES or InChI of a structure ({problem})", expected)

    def mutate(self, expected: object) -> object:
        """Return another structure: helium, or neon if the ground truth is helium."""
        return _OTHERS[self.check(_OTHERS[0], expected) is True]

    def check(self, extracted: object, expected: object) -> bool | Undecided:
        """Return whether the structures are the same, or the value is one of `synonyms`. Returns `Unreadable` if the
        value is no structure, or `Undecided` if that is unclear or the comparison takes too long. An empty value is
        wrong. Raises `ValueError` if the ground truth is not a text, or empty, or too long.
        """
        truth, text = self._truth(expected), text_of(extracted)
        if text is None or not text.strip():
            return False
        if len(text) > _LONGEST:
            return Undecided(f"the value has more than {_LONGEST:,} characters")
        value = clean(text)
        if value == truth or any(names_equal(value, name) for name in self.synonyms):
            return True
        values, are_needed = alternatives(value, self.synonyms)
        rules = (self.stereo, self.tautomers, self.salts)
        try:
            reply = call_limited(
                "karenina_chem.comparing:compare", truth, list(values), are_needed, *rules, seconds=_SECONDS
            )
        except LimitReached as error:
            return Undecided(f"the comparison {error}")
        except ChildError as error:
            return Undecided(f"the comparison is not possible: {error}")
        assert isinstance(reply, list)
        if reply[0] == "unreadable":
            return Unreadable(str(reply[1]))
        return reply[0] if isinstance(reply[0], bool) else Undecided(str(reply[1]))

    def _truth(self, expected: object) -> str:
        """Return the ground truth without markup. Raises `ValueError` if it is not a text, or empty, or too long."""
        text = text_of(expected)
        if text is None or not text.strip() or len(text) > _LONGEST:
            raise self._wrong_truth(f"the SMILES or InChI of a structure (up to {_LONGEST:,} characters)", expected)
        return clean(text)
