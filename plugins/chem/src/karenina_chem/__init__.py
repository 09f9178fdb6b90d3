"""The primitives `SameMolecule` and `SameFormula` for chemistry. The entry point refers to `plugin`.

Importing this package is cheap: RDKit is imported only in child processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_template.templates import Primitive


class plugin:  # noqa: N801 - the entry points' name
    """The primitives of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_primitives() -> Sequence[type[Primitive]]:
        """Return the primitives for structures and formulas."""
        from karenina_chem.same_formula import SameFormula
        from karenina_chem.same_molecule import SameMolecule

        return [SameMolecule, SameFormula]
