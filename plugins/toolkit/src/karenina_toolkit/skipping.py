"""Skip a stage because an earlier finding failed the answer, with the reason for each finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from karenina_core.artifacts.keys import ArtifactKeys as Keys
from karenina_core.stages.stage import Skip

if TYPE_CHECKING:
    from karenina_core.artifacts.artifact import AnyKey
    from karenina_core.stages.context import VerificationContext

_FAILS: Final[Mapping[str, tuple[bool, str]]] = {
    Keys.RECURSION_LIMIT_REACHED.name: (True, "the turn limit was reached"),
    Keys.RESPONSE_REFUSED.name: (True, "the provider stopped the answer"),
    Keys.TRACE_VALIDATION_FAILED.name: (True, "the trace does not end in an answer"),
    Keys.ABSTENTION_DETECTED.name: (True, "the model abstained"),
    Keys.SUFFICIENCY_DETECTED.name: (False, "the answer is insufficient"),
}


def skip_if_failed(context: VerificationContext, *findings: AnyKey) -> bool | Skip:
    """Return True, or a skip with the first of these findings that failed the answer. For `Stage.should_run`.

    A finding is RECURSION_LIMIT_REACHED, RESPONSE_REFUSED, TRACE_VALIDATION_FAILED, ABSTENTION_DETECTED or
    SUFFICIENCY_DETECTED (which fails if it is False), and the calling stage declares it as optional. A missing finding
    fails nothing.
    """
    for finding in findings:
        failing, why = _FAILS[finding.name]
        if context.find_artifact(finding) is failing:
            return Skip(why)
    return True
