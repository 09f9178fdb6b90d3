"""`VerificationResult`: all that is known about one answer before one judge."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from karenina_core.data.outcome import Outcome
from karenina_core.data.sections import (
    RevisionRecord,
    Section,
    StageRecord,
    VerificationResultDeepJudgment,
    VerificationResultDeepJudgmentRubric,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
    VetoRecord,
)

SCHEMA_VERSION: Final = 1


class VerificationResult(Section):
    """One item's result. JSON round trips are exact: `model_validate_json(result.model_dump_json()) == result`.

    The template section is always there, because the raw response lives in it; the others are None where nothing of
    theirs was configured or ran.
    """

    metadata: VerificationResultMetadata
    outcome: Outcome
    template: VerificationResultTemplate = Field(default_factory=VerificationResultTemplate)
    rubric: VerificationResultRubric | None = None
    deep_judgment: VerificationResultDeepJudgment | None = None
    deep_judgment_rubric: VerificationResultDeepJudgmentRubric | None = None
    evaluation_input: str | None = Field(default=None, description="The text that the judge was shown.")
    used_full_trace: bool = False
    trace_extraction_error: str | None = None
    vetoes: list[VetoRecord] = []
    revisions: list[RevisionRecord] = []
    stages: list[StageRecord] = []
    extensions: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="What stages of other distributions report, by distribution."
    )
    schema_version: int = SCHEMA_VERSION

    @property
    def question_id(self) -> str:
        """The question's id."""
        return self.metadata.question_id

    @property
    def item(self) -> tuple[str, str, str, int]:
        """What tells this item from the others of a run: question, answering model, judge, replicate."""
        meta = self.metadata
        return meta.question_id, meta.answering_id, meta.parsing_id, meta.replicate or 1

    def stage(self, name: str) -> StageRecord | None:
        """The record of the stage called `name`."""
        return next((record for record in self.stages if record.name == name), None)

    def why(self) -> str:
        """One sentence on how the item came to its outcome."""
        if self.metadata.error:
            return self.metadata.error
        if self.vetoes:
            return "; ".join(f"{veto.stage}: {veto.reason}" for veto in self.vetoes)
        template = self.template
        if template.field_verification_error:
            return f"verify() failed: {template.field_verification_error}"
        failed = [name for name, passed in (template.field_results or {}).items() if not passed]
        patterns = [name for name, passed in (template.regex_validation_results or {}).items() if not passed]
        parts = []
        if failed:
            parts.append(f"{', '.join(failed)} differ{'s' if len(failed) == 1 else ''} from the truth")
        if patterns:
            parts.append(f"pattern{'s' if len(patterns) > 1 else ''} not matched: {', '.join(patterns)}")
        if self.outcome is Outcome.TRUNCATED:
            parts.append("the answer was cut off at its token limit")
        if self.outcome is Outcome.CORRECT:
            return "every field matches" if not failed else f"passes although {parts[0]}"
        if self.outcome is Outcome.RUBRIC_ERROR:
            return f"not every trait could be scored: {'; '.join(self._unscored()) or 'a score is missing'}"
        if self.outcome is Outcome.SCORED:
            return "scored by traits only" if self.rubric is not None else "nothing to evaluate: there is no trait"
        return "; ".join(parts) or "verify() says no"

    def _unscored(self) -> list[str]:
        """Return why traits have no score: the errors, each with its traits, and the rubric stages that did not run."""
        names: dict[str, list[str]] = {}
        for name, error in ((self.rubric and self.rubric.trait_errors) or {}).items():
            names.setdefault(error, []).append(name)
        skipped = [one for one in self.stages if one.slot == "rubric_evaluation" and one.status == "skipped"]
        return [f"{', '.join(of)}: {error}" for error, of in names.items()] + [f"{s.name}: {s.reason}" for s in skipped]
