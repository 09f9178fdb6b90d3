"""The primitive `SameTerm`, which compares terms by a table. The entry point refers to `plugin`.

Importing this package is cheap: pronto is imported when an ontology is read.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The primitive of this distribution."""

    karenina_primitives = offer("karenina_terms.same_term:SameTerm")
