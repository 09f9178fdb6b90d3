"""The result of an item, which is one answer assessed by one judge."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

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
from karenina_core.text import to_html

SCHEMA_VERSION: Final = 1


class ItemId(NamedTuple):
    """The key of an item in its run: the ids of question, answering model and judge, and the replicate number.

    Use `of` to create one.
    """

    question: str
    answering: str
    judge: str
    replicate: int

    @classmethod
    def of(cls, question: str, answering: str, judge: str | None, replicate: int | None) -> Self:
        """Create the key of an item. Without a judge, the answering model's id is used in its place. The replicate
        defaults to 1.
        """
        return cls(question, answering, judge or answering, replicate or 1)


class VerificationResult(Section):
    """The result of an item.

    JSON round trips are exact: `model_validate_json(result.model_dump_json()) == result`. The template section always
    exists, because it contains the raw response. Every other section is None if nothing in it was configured or ran.
    """

    metadata: VerificationResultMetadata
    outcome: Outcome
    # pydantic copies this default. A factory would be called for every result that is written without its defaults.
    # The published schema does not contain it.
    template: VerificationResultTemplate = Field(
        default=VerificationResultTemplate.model_construct(), json_schema_extra=lambda own: own.__delitem__("default")
    )
    rubric: VerificationResultRubric | None = None
    deep_judgment: VerificationResultDeepJudgment | None = None
    deep_judgment_rubric: VerificationResultDeepJudgmentRubric | None = None
    evaluation_input: str | None = Field(default=None, description="The text that was given to the judge.")
    used_full_trace: bool = False
    trace_extraction_error: str | None = None
    vetoes: list[VetoRecord] = Field(default_factory=list)
    revisions: list[RevisionRecord] = Field(default_factory=list)
    stages: list[StageRecord] = Field(default_factory=list)
    extensions: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Additional fields set by stages, keyed by distribution."
    )
    schema_version: int = SCHEMA_VERSION

    def __repr__(self) -> str:
        return f"<VerificationResult {self.question_id[:80]!r}, {self.outcome.value}: {self.why()[:200]!r}>"

    def _repr_html_(self) -> str | None:
        """Return the result as HTML for a notebook, or None to show it as text."""
        return to_html(self)

    @property
    def question_id(self) -> str:
        """The question's id."""
        return self.metadata.question_id

    @property
    def item(self) -> ItemId:
        """The item's key in its run."""
        meta = self.metadata
        return ItemId.of(meta.question_id, meta.answering_id, meta.parsing_id, meta.replicate)

    def stage(self, name: str) -> StageRecord | None:
        """Return the record of the given stage, or None if the stage was not in the plan."""
        return next((record for record in self.stages if record.name == name), None)

    def why(self) -> str:
        """Return the reason for the outcome in one sentence. If a field differs from the ground truth, stages' notes in
        the result field `why` are included.
        """
        if self.metadata.error:
            return self.metadata.error
        if self.vetoes:
            return "; ".join(f"{veto.stage}: {veto.reason}" for veto in self.vetoes)
        template = self.template
        if self.outcome is Outcome.UNDECIDED:
            return template.field_verification_error or "it could not be decided whether the fields match"
        if template.field_verification_error:
            return f"verify() failed: {template.field_verification_error}"
        failed = [name for name, passed in (template.field_results or {}).items() if passed is False]
        patterns = [name for name, passed in (template.regex_validation_results or {}).items() if not passed]
        parts = []
        if failed:
            parts.append(f"{', '.join(failed)} differ{'s' if len(failed) == 1 else ''} from the ground truth")
            for fields in self.extensions.values():
                parts += map(str, notes) if isinstance(notes := fields.get("why"), list) else ()
        if patterns:
            parts.append(f"pattern{'s' if len(patterns) > 1 else ''} not matched: {', '.join(patterns)}")
        if self.outcome is Outcome.TRUNCATED:
            parts.append("the answer was cut off at its token limit")
        if self.outcome is Outcome.CORRECT:
            parts = parts[:1] if failed else []
            if undecided := self.undecided_fields():
                parts.append(f"{', '.join(undecided)} {'is' if len(undecided) == 1 else 'are'} undecided")
            return f"correct although {' and '.join(parts)}" if parts else "every field matches"
        if self.outcome is Outcome.RUBRIC_ERROR:
            return f"not every trait could be scored: {'; '.join(self._unscored()) or 'a score is missing'}"
        if self.outcome is Outcome.SCORED:
            return "only traits were scored" if self.rubric is not None else "there is nothing to evaluate"
        return "; ".join(parts) or "verify() returned False"

    def undecided_fields(self) -> list[str]:
        """Return the names of the fields for which no decision was possible."""
        return [name for name, passed in (self.template.field_results or {}).items() if passed is None]

    def _unscored(self) -> list[str]:
        """Return the reasons for missing scores: errors with the traits they affect, and skipped rubric stages."""
        names: dict[str, list[str]] = {}
        for name, error in ((self.rubric and self.rubric.trait_errors) or {}).items():
            names.setdefault(error, []).append(name)
        skipped = [stage for stage in self.stages if stage.slot == "rubric_evaluation" and stage.status == "skipped"]
        return [f"{', '.join(of)}: {error}" for error, of in names.items()] + [f"{s.name}: {s.reason}" for s in skipped]
