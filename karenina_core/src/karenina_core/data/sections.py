"""The sections of a `VerificationResult`. A value of None means that something did not run or is not known."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator

from karenina_core.data.outcome import Outcome
from karenina_core.models.ports import REPORTED_COUNTS

SECONDS_DIGITS: Final = 6
"""The number of decimal places of the seconds in a result."""


class Section(BaseModel):
    """Base class for all parts of a result."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=(), allow_inf_nan=False, defer_build=True)


class ModelIdentity(Section):
    """A model in a result: its interface, the provider's name for it, and its MCP servers (`tools`)."""

    model_config = ConfigDict(frozen=True)
    interface: str
    model_name: str
    tools: list[str] = Field(default_factory=list)

    @property
    def display_string(self) -> str:
        """The model as `interface:model_name`."""
        return f"{self.interface}:{self.model_name}"


class KeptFile(Section):
    """A file that a stage or adapter kept for an item (see `karenina_toolkit.kept_files`).

    The contents are stored in the run's file folder under their SHA-256 digest. If the file was not kept, `sha256` is
    None and `left_out` gives the reason.
    """

    name: str
    media_type: str
    size: int | None = None
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    left_out: str | None = None


class VerificationResultMetadata(Section):
    """The question, models, run and time of an item, and whether it completed without errors."""

    question_id: str
    template_id: str
    result_id: str
    question_text: str
    raw_answer: str | None = None
    keywords: list[str] | None = None
    run_name: str | None = None
    replicate: int | None = None
    answering_id: str
    parsing_id: str
    answering: ModelIdentity
    parsing: ModelIdentity
    answering_system_prompt: str | None = None
    parsing_system_prompt: str | None = None
    completed_without_errors: bool = True
    error: str | None = None
    execution_time: float = Field(default=0.0, description="Seconds of processing, including the answer.")
    timestamp: str = Field(default="", description="When the item ended, in ISO 8601 format (UTC, with microseconds).")
    files: list[KeptFile] = Field(default_factory=list, description="Files of the item from stages and adapters.")

    @property
    def answering_model(self) -> str:
        """The answering model as `interface:model_name`."""
        return self.answering.display_string

    @property
    def parsing_model(self) -> str:
        """The judge as `interface:model_name`."""
        return self.parsing.display_string


class KnownValue(Section):
    """A value that a stage offers to the fields of templates, such as the number of steps taken by an agent.

    If there is no value, `why` gives the reason, and `counts` determines whether fields with this value are undecided
    or wrong. In a result, `fields` lists the fields that use the value.
    """

    value: JsonValue = None
    why: str | None = None
    counts: Literal["undecided", "wrong"] = "undecided"
    fields: list[str] = Field(default_factory=list)


class VerificationResultTemplate(Section):
    """The answer, the values that the judge extracted from it, and how they compare with the ground truth."""

    raw_llm_response: str = ""
    trace_messages: list[dict[str, Any]] = Field(default_factory=list)
    parsed_llm_response: dict[str, Any] | None = None
    parsed_gt_response: dict[str, Any] | None = None
    known_values: dict[str, KnownValue] | None = Field(
        default=None, description="The values that stages offered to fields of the template, by name."
    )
    template_verification_performed: bool = False
    verify_result: bool | None = None
    verify_granular_result: Any | None = None
    template_validation_error: str | None = None
    field_verification_error: str | None = None
    field_results: dict[str, bool | None] | None = None
    field_scores: dict[str, float | None] | None = None
    composition_strategy: str | None = None
    embedding_check_performed: bool = False
    embedding_similarity_score: float | None = None
    embedding_override_applied: bool = False
    embedding_model_used: str | None = None
    regex_validations_performed: bool = False
    regex_validation_results: dict[str, bool] | None = None
    regex_validation_details: dict[str, dict[str, Any]] | None = None
    regex_overall_success: bool | None = None
    regex_extraction_results: dict[str, Any] | None = None
    abstention_check_performed: bool = False
    abstention_detected: bool | None = None
    abstention_override_applied: bool = False
    abstention_reasoning: str | None = None
    sufficiency_check_performed: bool = False
    sufficiency_detected: bool | None = None
    sufficiency_override_applied: bool = False
    sufficiency_reasoning: str | None = None
    recursion_limit_reached: bool = False
    response_truncated: bool = False
    response_refused: bool = False
    answering_mcp_servers: list[str] | None = None
    agent_metrics: dict[str, Any] | None = None
    usage_metadata: dict[str, dict[str, Any]] | None = None
    investigation_trace: str | None = None
    agentic_parsing_performed: bool = False

    @field_validator("usage_metadata")
    @classmethod
    def _whole_counts(cls, parts: dict[str, dict[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
        for part in (parts or {}).values():
            if wrong := [name for name in REPORTED_COUNTS if not isinstance(part.get(name, 0), int)]:
                raise ValueError(f"{wrong[0]} must be an integer")
        return parts


class VerificationResultRubric(Section):
    """The scores of rubric traits, grouped by kind."""

    rubric_evaluation_performed: bool = False
    rubric_evaluation_strategy: str | None = None
    llm_trait_scores: dict[str, int | bool | dict[str, Any] | None] | None = Field(
        default=None, description='Scores by trait; for kind "template", the values that the judge filled in.'
    )
    llm_trait_labels: dict[str, str] | None = None
    llm_trait_reasoning: dict[str, str] | None = None
    regex_trait_scores: dict[str, bool | None] | None = None
    callable_trait_scores: dict[str, bool | int | float | None] | None = None
    callable_trait_labels: dict[str, str] | None = None
    metric_trait_scores: dict[str, dict[str, float] | None] | None = None
    metric_trait_confusion_lists: dict[str, dict[str, list[str]]] | None = None
    dynamic_rubric_promoted_traits: list[str] | None = None
    dynamic_rubric_skipped_traits: dict[str, str] | None = None
    agentic_trait_scores: dict[str, Any] | None = None
    agentic_trait_labels: dict[str, str] | None = None
    agentic_trait_reasoning: dict[str, str] | None = None
    agentic_trait_traces: dict[str, str] | None = None
    other_trait_scores: dict[str, dict[str, Any]] | None = Field(
        default=None, description="Scores of trait kinds added by plugins, keyed by the plugin's name for the field."
    )
    trait_errors: dict[str, str] | None = None

    def get_all_trait_scores(self) -> dict[str, Any]:
        """Return the scores of all kinds, keyed by trait name. A score is None if the trait could not be scored."""
        return {name: value for scores in self._by_kind().values() for name, value in scores.items()}

    def get_trait_by_name(self, name: str) -> tuple[Any, str] | None:
        """Return a trait's score and kind, or None if there is no such trait. The kind is `llm`, `regex` and so on, or
        a plugin's own. The score is None if the trait could not be scored.
        """
        for kind, scores in self._by_kind().items():
            if name in scores:
                return scores[name], kind.removesuffix("_trait_scores")
        return None

    def _by_kind(self) -> dict[str, dict[str, Any]]:
        """Return the scores, keyed by kind and trait name. The core's kinds come first and may be empty."""
        own: dict[str, dict[str, Any]] = {kind: getattr(self, kind) or {} for kind in TRAIT_SCORES}
        return {**own, **(self.other_trait_scores or {})}

    def labels(self) -> dict[str, str]:
        """Return the class names chosen for literal traits of all kinds, keyed by trait name."""
        return (self.llm_trait_labels or {}) | (self.callable_trait_labels or {}) | (self.agentic_trait_labels or {})

    def reasons(self) -> dict[str, str]:
        """Return the judges' reasons for their scores, keyed by trait name."""
        return (self.llm_trait_reasoning or {}) | (self.agentic_trait_reasoning or {})

    def get_llm_trait_labels(self) -> dict[str, str]:
        """Return the class names chosen for literal LLM traits, keyed by trait name."""
        return self.llm_trait_labels or {}


TRAIT_SCORES: Final = tuple(f"{kind}_trait_scores" for kind in ("llm", "regex", "callable", "metric", "agentic"))


class VerificationResultDeepJudgment(Section):
    """The evidence for each extracted value: excerpts from the answer and the judge's reasoning."""

    deep_judgment_enabled: bool = False
    deep_judgment_performed: bool = False
    extracted_excerpts: dict[str, list[dict[str, Any]]] | None = None
    attribute_reasoning: dict[str, str] | None = None
    deep_judgment_stages_completed: list[str] | None = None
    deep_judgment_model_calls: int = 0
    deep_judgment_excerpt_retry_count: int = 0
    attributes_without_excerpts: list[str] | None = None
    deep_judgment_search_enabled: bool = False
    hallucination_risk_assessment: dict[str, str] | None = None


class VerificationResultDeepJudgmentRubric(Section):
    """The evidence for each trait's score."""

    deep_judgment_rubric_performed: bool = False
    extracted_rubric_excerpts: dict[str, list[dict[str, Any]]] | None = None
    rubric_trait_reasoning: dict[str, str] | None = None
    deep_judgment_rubric_scores: dict[str, int | bool | dict[str, Any] | None] | None = None
    standard_rubric_scores: dict[str, int | bool | dict[str, Any] | None] | None = None
    trait_metadata: dict[str, dict[str, Any]] | None = None
    traits_without_valid_excerpts: list[str] | None = None
    rubric_hallucination_risk_assessment: dict[str, dict[str, Any]] | None = None
    total_deep_judgment_model_calls: int = 0
    total_traits_evaluated: int = 0
    total_excerpt_retries: int = 0


class VetoRecord(Section):
    """A veto by a stage, with its reason and the outcome that it sets."""

    stage: str
    reason: str
    outcome: Outcome


class RevisionRecord(Section):
    """A change that a stage made to an artifact produced by another stage."""

    artifact: str
    stage: str
    before: Any = None
    after: Any = None
    reason: str


class StageRecord(Section):
    """The record of one stage in the plan."""

    model_config = ConfigDict(frozen=True)
    name: str
    slot: str | None = None
    status: Literal["ran", "skipped", "failed"]
    reason: str | None = Field(default=None, description="Why the stage was skipped.")
    error: str | None = Field(default=None, description="The error with which the stage failed.")
    seconds: float = Field(default=0.0, description="Seconds spent on the stage's own work and on its calls.")
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    retries: dict[str, int] = Field(default_factory=dict, description="Number of retries by error category.")
    waited: float = Field(
        default=0.0, description="Seconds spent waiting for a call limit, for the budget, or before retries."
    )
    failed_calls: int = Field(default=0, description="Number of calls that failed on every attempt.")
    call_keys: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = Field(
        default_factory=list, description="The journal keys of the stage's calls."
    )
    distribution: str
    version: str


SECTIONS: Final[dict[str, type[Section]]] = {
    "template": VerificationResultTemplate,
    "rubric": VerificationResultRubric,
    "deep_judgment": VerificationResultDeepJudgment,
    "deep_judgment_rubric": VerificationResultDeepJudgmentRubric,
}
ROOT_FIELDS: Final = ("evaluation_input", "used_full_trace", "trace_extraction_error")


def _free_fields() -> dict[str, str]:
    """Return the result fields that neither an artifact nor the end of the pipeline sets, each with its section."""
    from karenina_core.artifacts.keys import standard_keys

    by_key = {key.field for key in standard_keys().values() if key.section is not None}
    made_here = {
        "verify_result",
        "usage_metadata",
        "parsed_llm_response",
        "parsed_gt_response",
        "known_values",
        "template_verification_performed",
    }
    free = {
        name: section
        for section, model in SECTIONS.items()
        for name in model.model_fields
        if name not in by_key and name not in made_here
    }
    return {**free, **dict.fromkeys(ROOT_FIELDS, "root")}


FREE_FIELDS: Final[dict[str, str]] = _free_fields()
"""The result fields that no artifact sets, each with its section. Stages set these fields by name."""
