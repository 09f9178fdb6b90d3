"""The core's hooks for stages: one for each of the thirteen slots, and one for stages without a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_core.stages.stage import Stage


@hookspec
def karenina_validate_template() -> Sequence[type[Stage]]:
    """Return stages for slot 1, which loads a question's template."""


@hookspec
def karenina_generate_answer() -> Sequence[type[Stage]]:
    """Return stages for slot 2, which gets an answer from the model under test."""


@hookspec
def karenina_recursion_limit_auto_fail() -> Sequence[type[Stage]]:
    """Return stages for slot 3, which fails an item if the agent reached its turn limit."""


@hookspec
def karenina_trace_validation_auto_fail() -> Sequence[type[Stage]]:
    """Return stages for slot 4, which fails an item if the conversation does not end in an answer."""


@hookspec
def karenina_abstention_check() -> Sequence[type[Stage]]:
    """Return stages for slot 5, which checks whether the model refused to answer."""


@hookspec
def karenina_sufficiency_check() -> Sequence[type[Stage]]:
    """Return stages for slot 6, which checks whether the answer contains enough information to fill the template."""


@hookspec
def karenina_parse_template() -> Sequence[type[Stage]]:
    """Return stages for slot 7, in which a judge fills the template from the answer."""


@hookspec
def karenina_verify_template() -> Sequence[type[Stage]]:
    """Return stages for slot 8, which compares the filled template with the ground truth."""


@hookspec
def karenina_embedding_check() -> Sequence[type[Stage]]:
    """Return stages for slot 9, which may overturn a failure if value and ground truth have the same meaning."""


@hookspec
def karenina_deep_judgment_auto_fail() -> Sequence[type[Stage]]:
    """Return stages for slot 10, which fails an item if nothing in the answer supports an extracted value."""


@hookspec
def karenina_rubric_evaluation() -> Sequence[type[Stage]]:
    """Return stages for slot 11, which scores rubric traits."""


@hookspec
def karenina_deep_judgment_rubric_auto_fail() -> Sequence[type[Stage]]:
    """Return stages for slot 12, which fails an item if nothing in the answer supports a trait's score."""


@hookspec
def karenina_finalize_result() -> Sequence[type[Stage]]:
    """Return stages for slot 13, which creates the `VerificationResult`, even after errors."""


@hookspec
def karenina_extra_stages() -> Sequence[type[Stage]]:
    """Return stages without a slot. Their artifacts, `after` and `before` determine where they run."""
