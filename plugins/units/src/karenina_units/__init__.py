"""The primitive `Quantity`, which compares numbers with units. The entry point refers to `plugin`.

Importing this package is cheap: pint is imported when units are converted for the first time.
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
        """Return the primitive for quantities."""
        from karenina_units.quantity import Quantity

        return [Quantity]
