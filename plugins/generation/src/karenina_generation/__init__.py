"""The stages for slots 2 to 4, which get an answer and fail invalid conversations.

The entry points refer to `plugin`.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry points' name
    """The stages that this distribution provides."""

    karenina_generate_answer = offer("karenina_generation.generate_answer:GenerateAnswer")
    karenina_recursion_limit_auto_fail = offer("karenina_generation.auto_fail:RecursionLimitAutoFail")
    karenina_trace_validation_auto_fail = offer("karenina_generation.auto_fail:TraceValidationAutoFail")
