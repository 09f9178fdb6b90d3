"""A stage is skipped if an earlier stage failed the answer, with the finding as the reason."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from karenina_core import ArtifactKeys as Keys
from karenina_core import Skip, Stage, VerificationContext
from karenina_testing import run_stage
from karenina_toolkit.stage_support import skip_if_failed

FINDINGS = (
    Keys.RECURSION_LIMIT_REACHED,
    Keys.TRACE_VALIDATION_FAILED,
    Keys.ABSTENTION_DETECTED,
    Keys.SUFFICIENCY_DETECTED,
)


class Reader(Stage):
    """Reads an answer that nothing has failed."""

    name: ClassVar[str] = "Reader"
    optional = frozenset(FINDINGS)

    def should_run(self, context: VerificationContext) -> bool | Skip:
        return skip_if_failed(context, *FINDINGS)

    async def execute(self, context: VerificationContext) -> None:
        """Do nothing."""


class OnlyTurns(Reader):
    """Looks at the turn limit alone."""

    name: ClassVar[str] = "OnlyTurns"

    def should_run(self, context: VerificationContext) -> bool | Skip:
        return skip_if_failed(context, Keys.RECURSION_LIMIT_REACHED)


def outcome(stage: type[Stage], found: dict[Any, object]) -> tuple[str, str | None]:
    record = asyncio.run(run_stage(stage, artifacts=found)).record
    return record.status, record.reason


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({Keys.RECURSION_LIMIT_REACHED: True}, "the turn limit was reached"),
        ({Keys.TRACE_VALIDATION_FAILED: True}, "the trace does not end in an answer"),
        ({Keys.ABSTENTION_DETECTED: True}, "the model abstained"),
        ({Keys.SUFFICIENCY_DETECTED: False}, "the answer is insufficient"),
        ({Keys.SUFFICIENCY_DETECTED: False, Keys.RECURSION_LIMIT_REACHED: True}, "the turn limit was reached"),
    ],
)
def test_the_first_failing_finding_is_named(found: dict[Any, object], why: str) -> None:
    assert outcome(Reader, found) == ("skipped", why)


@pytest.mark.parametrize(
    "found",
    [
        {},
        {Keys.RECURSION_LIMIT_REACHED: False, Keys.TRACE_VALIDATION_FAILED: False, Keys.ABSTENTION_DETECTED: False},
        {Keys.SUFFICIENCY_DETECTED: True},
        {Keys.ABSTENTION_DETECTED: None, Keys.SUFFICIENCY_DETECTED: None},
    ],
    ids=["nobody looked", "all is well", "sufficient", "the checks could not say"],
)
def test_the_stage_runs_if_nothing_failed(found: dict[Any, object]) -> None:
    assert outcome(Reader, found)[0] == "ran"


def test_findings_that_a_stage_does_not_name_are_ignored() -> None:
    assert outcome(OnlyTurns, {Keys.ABSTENTION_DETECTED: True})[0] == "ran"
