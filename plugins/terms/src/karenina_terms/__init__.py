"""The primitive `SameTerm`, which compares terms by a table. The entry point refers to `plugin`.

Importing this package is cheap: pronto is imported when an ontology is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from karenina_core import hookimpl

if TYPE_CHECKING:
    from karenina_template.templates import Primitive


class plugin:  # noqa: N801 - the entry points' name
    """The primitive of this distribution."""

    @staticmethod
    @hookimpl
    def karenina_primitives() -> Sequence[type[Primitive]]:
        """Return the primitive for terms."""
        from karenina_terms.same_term import SameTerm

        return [SameTerm]
