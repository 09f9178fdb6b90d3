"""The stages for slots 1b, 7b and 11b: workspaces, and judges that inspect them as agents.

The entry points refer to `plugin`.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The stages that this distribution provides."""

    karenina_extra_stages = offer("karenina_agentic.prepare_workspace:PrepareWorkspace")
    karenina_parse_template = offer("karenina_agentic.parse_template:AgenticParseTemplate")
    karenina_rubric_evaluation = offer("karenina_agentic.trait_evaluation:AgenticRubricEvaluation")
