"""The primitives `SameMolecule` and `SameFormula` for chemistry. The entry point refers to `plugin`.

Importing this package is cheap: RDKit is imported only in child processes.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The primitives of this distribution."""

    karenina_primitives = offer("karenina_chem.same_molecule:SameMolecule", "karenina_chem.same_formula:SameFormula")
