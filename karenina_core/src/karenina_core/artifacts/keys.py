"""The keys of the artifacts that the built-in stages exchange.

If a key has a section, the artifact is also a field of the result.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from karenina_core.artifacts.artifact import ArtifactKey
from karenina_core.models.ports import Message

if TYPE_CHECKING:
    from collections.abc import Mapping

    FieldResults = dict[str, bool | None]
    FieldScores = dict[str, float | None]
    Excerpts = dict[str, list[dict[str, Any]]]


@runtime_checkable
class ParsedAnswer(Protocol):
    """A template filled in by a judge. Created by `BoundTemplate.bind`."""

    def verify(self) -> object:
        """Return True if the answer is correct and False if it is wrong. Any other value means undecided."""

    def field_results(self) -> dict[str, bool | None]:
        """Return whether each verified field is correct, keyed by field name. None means undecided."""


@runtime_checkable
class BoundTemplate(Protocol):
    """A template bound to its question, created by karenina-template."""

    @property
    def template_id(self) -> str:
        """The identifier of the template's source code."""

    @property
    def judge_fields(self) -> tuple[str, ...]:
        """The fields that a judge fills in."""

    @property
    def sources(self) -> Mapping[str, str]:
        """The fields that are filled with known values instead of by a judge, with the name of each value."""

    def options(self) -> dict[str, Mapping[str, object]]:
        """Return the plugin options of each field (`Stage.field_settings`), keyed by field and full option name."""

    def bind(self, values: Mapping[str, object], response: str = "") -> ParsedAnswer:
        """Return the template filled in with a judge's `values`.

        Raises pydantic's `ValidationError` if the values are invalid.
        """

    def judge_schema(self) -> dict[str, Any]:
        """Return the JSON Schema that a judge's values must match."""

    def expected(self) -> dict[str, Any]:
        """Return the ground truth of each field as a JSON value."""

    def extracted(self, answer: Any) -> dict[str, Any]:
        """Return the value that a judge extracted for each field, as a JSON value."""


class ArtifactKeys:
    """The standard keys. A value of None means that the stage ran but had no value to set."""

    # Template (slot 1)
    RAW_ANSWER_CLASS: Final = ArtifactKey["type[ParsedAnswer] | None"]("raw_answer_class", type)
    ANSWER_CLASS: Final = ArtifactKey["BoundTemplate"]("answer_class", BoundTemplate)  # type: ignore[type-abstract]
    TEMPLATE_VALIDATION_ERROR: Final = ArtifactKey[str | None]("template_validation_error", str, "template")

    # Answer (slot 2)
    WORKSPACE_PATH: Final = ArtifactKey[Path | None]("workspace_path", Path)
    RAW_LLM_RESPONSE: Final = ArtifactKey[str]("raw_llm_response", str, "template")
    TRACE_MESSAGES: Final = ArtifactKey[list[Message]]("trace_messages", list, "template")
    FINAL_AI_MESSAGE: Final = ArtifactKey[str | None]("final_ai_message", str)
    RECURSION_LIMIT_REACHED: Final = ArtifactKey[bool]("recursion_limit_reached", bool, "template")
    RESPONSE_TRUNCATED: Final = ArtifactKey[bool]("response_truncated", bool, "template")
    RESPONSE_REFUSED: Final = ArtifactKey[bool]("response_refused", bool, "template")
    ANSWERING_MCP_SERVERS: Final = ArtifactKey[list[str] | None]("answering_mcp_servers", list, "template")
    AGENT_METRICS: Final = ArtifactKey[dict[str, Any] | None]("agent_metrics", dict, "template")

    # Guards (slots 3 and 4)
    TRACE_VALIDATION_FAILED: Final = ArtifactKey[bool]("trace_validation_failed", bool)
    TRACE_VALIDATION_ERROR: Final = ArtifactKey[str | None]("trace_validation_error", str)
    MCP_ENABLED: Final = ArtifactKey[bool]("mcp_enabled", bool)

    # Checks (slots 5 and 6)
    ABSTENTION_CHECK_PERFORMED: Final = ArtifactKey[bool]("abstention_check_performed", bool, "template")
    ABSTENTION_DETECTED: Final = ArtifactKey[bool | None]("abstention_detected", bool, "template")
    ABSTENTION_OVERRIDE_APPLIED: Final = ArtifactKey[bool]("abstention_override_applied", bool, "template")
    ABSTENTION_REASONING: Final = ArtifactKey[str | None]("abstention_reasoning", str, "template")
    SUFFICIENCY_CHECK_PERFORMED: Final = ArtifactKey[bool]("sufficiency_check_performed", bool, "template")
    SUFFICIENCY_DETECTED: Final = ArtifactKey[bool | None]("sufficiency_detected", bool, "template")
    SUFFICIENCY_OVERRIDE_APPLIED: Final = ArtifactKey[bool]("sufficiency_override_applied", bool, "template")
    SUFFICIENCY_REASONING: Final = ArtifactKey[str | None]("sufficiency_reasoning", str, "template")

    # Parsing (slot 7)
    PARSED_ANSWER: Final = ArtifactKey["ParsedAnswer"](
        "parsed_answer",
        ParsedAnswer,  # type: ignore[type-abstract]
        cure="set the artifact to the value returned by bind(values, response) of the ANSWER_CLASS artifact",
    )
    INVESTIGATION_TRACE: Final = ArtifactKey[str | None]("investigation_trace", str, "template")
    AGENTIC_PARSING_PERFORMED: Final = ArtifactKey[bool]("agentic_parsing_performed", bool, "template")
    DEEP_JUDGMENT_PERFORMED: Final = ArtifactKey[bool]("deep_judgment_performed", bool, "deep_judgment")
    EXTRACTED_EXCERPTS: Final = ArtifactKey["Excerpts | None"]("extracted_excerpts", dict, "deep_judgment")
    ATTRIBUTE_REASONING: Final = ArtifactKey[dict[str, str] | None]("attribute_reasoning", dict, "deep_judgment")
    ATTRIBUTES_WITHOUT_EXCERPTS: Final = ArtifactKey[list[str] | None](
        "attributes_without_excerpts", list, "deep_judgment"
    )
    DEEP_JUDGMENT_STAGES_COMPLETED: Final = ArtifactKey[list[str] | None](
        "deep_judgment_stages_completed", list, "deep_judgment"
    )
    DEEP_JUDGMENT_MODEL_CALLS: Final = ArtifactKey[int]("deep_judgment_model_calls", int, "deep_judgment")
    DEEP_JUDGMENT_EXCERPT_RETRY_COUNT: Final = ArtifactKey[int](
        "deep_judgment_excerpt_retry_count", int, "deep_judgment"
    )
    HALLUCINATION_RISK_ASSESSMENT: Final = ArtifactKey[dict[str, str] | None](
        "hallucination_risk_assessment", dict, "deep_judgment"
    )

    # Verification (slot 8)
    FIELD_VERIFICATION_RESULT: Final = ArtifactKey[bool | None]("field_verification_result", bool)
    """Whether the fields match. If this is None, FIELD_VERIFICATION_ERROR contains the reason."""
    FIELD_RESULTS: Final = ArtifactKey["FieldResults | None"]("field_results", dict, "template")
    FIELD_SCORES: Final = ArtifactKey["FieldScores | None"]("field_scores", dict, "template")
    FIELD_VERIFICATION_ERROR: Final = ArtifactKey[str | None]("field_verification_error", str, "template")
    VERIFY_GRANULAR_RESULT: Final = ArtifactKey[Any]("verify_granular_result", object, "template")
    COMPOSITION_STRATEGY: Final = ArtifactKey[str | None]("composition_strategy", str, "template")
    REGEX_VALIDATIONS_PERFORMED: Final = ArtifactKey[bool]("regex_validations_performed", bool, "template")
    REGEX_VALIDATION_RESULTS: Final = ArtifactKey[dict[str, bool] | None]("regex_validation_results", dict, "template")
    REGEX_VALIDATION_DETAILS: Final = ArtifactKey[dict[str, dict[str, Any]] | None](
        "regex_validation_details", dict, "template"
    )
    REGEX_OVERALL_SUCCESS: Final = ArtifactKey[bool | None]("regex_overall_success", bool, "template")
    REGEX_EXTRACTION_RESULTS: Final = ArtifactKey[dict[str, Any] | None]("regex_extraction_results", dict, "template")

    # Embedding (slot 9)
    EMBEDDING_CHECK_PERFORMED: Final = ArtifactKey[bool]("embedding_check_performed", bool, "template")
    EMBEDDING_SIMILARITY_SCORE: Final = ArtifactKey[float | None]("embedding_similarity_score", float, "template")
    EMBEDDING_MODEL_USED: Final = ArtifactKey[str | None]("embedding_model_used", str, "template")
    EMBEDDING_OVERRIDE_APPLIED: Final = ArtifactKey[bool]("embedding_override_applied", bool, "template")

    # Rubrics (slots 11 and 12)
    RUBRIC_RESULT: Final = ArtifactKey[dict[str, Any] | None]("rubric_result", dict)
    DEEP_JUDGMENT_RUBRIC_PERFORMED: Final = ArtifactKey[bool | None](
        "deep_judgment_rubric_performed", bool, "deep_judgment_rubric"
    )
    TRAIT_METADATA: Final = ArtifactKey[dict[str, dict[str, Any]] | None](
        "trait_metadata", dict, "deep_judgment_rubric"
    )
    TRAITS_WITHOUT_VALID_EXCERPTS: Final = ArtifactKey[list[str] | None](
        "traits_without_valid_excerpts", list, "deep_judgment_rubric"
    )
    AGENTIC_TRAIT_SCORES: Final = ArtifactKey[dict[str, Any] | None]("agentic_trait_scores", dict, "rubric")
    AGENTIC_TRAIT_TRACES: Final = ArtifactKey[dict[str, str] | None]("agentic_trait_traces", dict, "rubric")


def standard_keys() -> dict[str, ArtifactKey[Any]]:
    """Return all standard keys, keyed by artifact name."""
    return {key.name: key for key in vars(ArtifactKeys).values() if isinstance(key, ArtifactKey)}
