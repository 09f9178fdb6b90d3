"""The primitive `MathEqual`, which compares mathematical expressions. The entry point refers to `plugin`.

Importing this package is cheap: mpmath is imported only in child processes.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The primitive of this distribution."""

    karenina_primitives = offer("karenina_math.math_equal:MathEqual")
