"""Results: one for each item, their sections, sets of them, and honest summaries."""

from karenina_core.outcome import Outcome
from karenina_core.results.result import SCHEMA_VERSION, VerificationResult
from karenina_core.results.result_set import ResultFileError, StoredResults, VerificationResultSet, read_results
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
from karenina_core.results.summary import OutcomeTally, Rate, Summary, rate, summarize, wilson
from karenina_core.results.totals import Totals

__all__ = [
    "SCHEMA_VERSION",
    "ModelIdentity",
    "Outcome",
    "OutcomeTally",
    "Rate",
    "ResultFileError",
    "RevisionRecord",
    "StageRecord",
    "StoredResults",
    "Summary",
    "Totals",
    "VerificationResult",
    "VerificationResultDeepJudgment",
    "VerificationResultDeepJudgmentRubric",
    "VerificationResultMetadata",
    "VerificationResultRubric",
    "VerificationResultSet",
    "VerificationResultTemplate",
    "VetoRecord",
    "rate",
    "read_results",
    "summarize",
    "wilson",
]
