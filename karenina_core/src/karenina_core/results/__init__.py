"""Results: one for each item, and their sections. Sets, summaries and totals are in modules of their own."""

from karenina_core.outcome import Outcome
from karenina_core.results.result import SCHEMA_VERSION, VerificationResult
from karenina_core.results.sections import (
    ModelIdentity,
    RevisionRecord,
    StageRecord,
    VerificationResultDeepJudgment,
    VerificationResultDeepJudgmentRubric,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
    VetoRecord,
)

__all__ = [
    "SCHEMA_VERSION",
    "ModelIdentity",
    "Outcome",
    "RevisionRecord",
    "StageRecord",
    "VerificationResult",
    "VerificationResultDeepJudgment",
    "VerificationResultDeepJudgmentRubric",
    "VerificationResultMetadata",
    "VerificationResultRubric",
    "VerificationResultTemplate",
    "VetoRecord",
]
