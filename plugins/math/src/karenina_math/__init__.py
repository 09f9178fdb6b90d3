"""The primitive `MathEqual`, which compares mathematical expressions. The entry point refers to `plugin`.

Importing this package is cheap: mpmath is imported only in child processes.
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
        """Return the primitive for expressions."""
        from karenina_math.math_equal import MathEqual

        return [MathEqual]
