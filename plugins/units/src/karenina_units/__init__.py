"""The primitive `Quantity`, which compares numbers with units. The entry point refers to `plugin`.

Importing this package is cheap: pint is imported when units are converted for the first time.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The primitive of this distribution."""

    karenina_primitives = offer("karenina_units.quantity:Quantity")
