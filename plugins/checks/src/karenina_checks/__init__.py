"""The stages for slots 5 and 6, in which a judge checks the answer before it is parsed.

The entry points refer to `plugin`.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The stages that this distribution provides."""

    karenina_abstention_check = offer("karenina_checks.answer_checks:AbstentionCheck")
    karenina_sufficiency_check = offer("karenina_checks.answer_checks:SufficiencyCheck")
