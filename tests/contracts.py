"""The contract of every stage of the reference, as data for tests of the shipped stages."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from karenina_core import ANY, ArtifactKeys, Slot, Stage
from karenina_core.stages.stage import RegisteredStage
from karenina_sandbox.patch import WORKSPACE_PATCH
from karenina_toolkit.agent_work import AGENT_WORK, LEFT_FILES
from karenina_toolkit.conversations import CONVERSATION

K = ArtifactKeys
PARSE_OPTIONAL = {
    K.RECURSION_LIMIT_REACHED,
    K.RESPONSE_REFUSED,
    K.TRACE_MESSAGES,
    K.TRACE_VALIDATION_FAILED,
    K.FINAL_AI_MESSAGE,
    K.ABSTENTION_DETECTED,
    K.SUFFICIENCY_DETECTED,
    CONVERSATION,
}


@dataclass(frozen=True)
class Contract:
    """The declarations of one stage."""

    name: str
    slot: Slot | None
    requires: frozenset[Any] = frozenset()
    optional: frozenset[Any] = frozenset()
    produces: frozenset[Any] = frozenset()
    revises: frozenset[Any] = frozenset()
    after: frozenset[Any] = frozenset()
    before: frozenset[Any] = frozenset()
    scope: str = "item"
    extra: dict[str, Any] = field(default_factory=dict)

    def as_stage(self) -> type[Stage]:
        """Return a stage that declares this and does nothing."""
        declared = {
            name: getattr(self, name)
            for name in ("name", "requires", "optional", "produces", "revises", "after", "before", "scope")
        }
        return type(self.name, (Stage,), {**declared, "fallback": True})

    def as_offered(self) -> RegisteredStage:
        """Return the same stage as one that a plugin offers for its slot."""
        return RegisteredStage(self.as_stage(), "contracts", "1", self.slot)

    def without(self, relation: str, what: object) -> Contract:
        """Return the same contract with one relation deleted."""
        return replace(self, **{relation: frozenset(getattr(self, relation)) - {what}})


def contract(name: str, slot: Slot | None, scope: str = "item", **declared: Any) -> Contract:
    sets = {key: value if value is ANY else frozenset(value) for key, value in declared.items()}
    return Contract(name, slot, scope=scope, **sets)


CONTRACTS = [
    contract(
        "ValidateTemplate",
        Slot.VALIDATE_TEMPLATE,
        "answer",
        produces={K.RAW_ANSWER_CLASS, K.ANSWER_CLASS, K.TEMPLATE_VALIDATION_ERROR},
    ),
    contract(
        "PrepareWorkspace",
        None,
        "answer",
        produces={K.WORKSPACE_PATH},
        after={Slot.VALIDATE_TEMPLATE},
        before={Slot.GENERATE_ANSWER},
    ),
    contract(
        "GenerateAnswer",
        Slot.GENERATE_ANSWER,
        "answer",
        optional={K.ANSWER_CLASS, K.WORKSPACE_PATH, AGENT_WORK},
        produces={
            K.RAW_LLM_RESPONSE,
            K.TRACE_MESSAGES,
            K.FINAL_AI_MESSAGE,
            K.RECURSION_LIMIT_REACHED,
            K.RESPONSE_TRUNCATED,
            K.RESPONSE_REFUSED,
            K.ANSWERING_MCP_SERVERS,
            K.AGENT_METRICS,
        },
    ),
    contract(
        "RecursionLimitAutoFail",
        Slot.RECURSION_LIMIT_AUTO_FAIL,
        requires={K.RAW_LLM_RESPONSE},
        optional={K.RECURSION_LIMIT_REACHED},
    ),
    contract(
        "TraceValidationAutoFail",
        Slot.TRACE_VALIDATION_AUTO_FAIL,
        requires={K.RAW_LLM_RESPONSE},
        optional={K.TRACE_MESSAGES, K.FINAL_AI_MESSAGE, K.RECURSION_LIMIT_REACHED},
        produces={K.TRACE_VALIDATION_FAILED, K.TRACE_VALIDATION_ERROR, K.MCP_ENABLED},
    ),
    contract(
        "AbstentionCheck",
        Slot.ABSTENTION_CHECK,
        requires={K.RAW_LLM_RESPONSE},
        optional={K.RECURSION_LIMIT_REACHED, K.RESPONSE_REFUSED, CONVERSATION},
        produces={
            K.ABSTENTION_CHECK_PERFORMED,
            K.ABSTENTION_DETECTED,
            K.ABSTENTION_OVERRIDE_APPLIED,
            K.ABSTENTION_REASONING,
        },
    ),
    contract(
        "SufficiencyCheck",
        Slot.SUFFICIENCY_CHECK,
        requires={K.RAW_LLM_RESPONSE, K.ANSWER_CLASS},
        optional={
            K.RECURSION_LIMIT_REACHED,
            K.RESPONSE_REFUSED,
            K.TRACE_VALIDATION_FAILED,
            K.ABSTENTION_DETECTED,
            CONVERSATION,
        },
        produces={
            K.SUFFICIENCY_CHECK_PERFORMED,
            K.SUFFICIENCY_DETECTED,
            K.SUFFICIENCY_OVERRIDE_APPLIED,
            K.SUFFICIENCY_REASONING,
        },
    ),
    contract(
        "ParseTemplate",
        Slot.PARSE_TEMPLATE,
        requires={K.RAW_ANSWER_CLASS, K.ANSWER_CLASS, K.RAW_LLM_RESPONSE},
        optional=PARSE_OPTIONAL,
        produces={K.PARSED_ANSWER},
    ),
    contract(
        "VerifyTemplate",
        Slot.VERIFY_TEMPLATE,
        requires={K.ANSWER_CLASS, K.PARSED_ANSWER, K.RAW_LLM_RESPONSE},
        optional={K.RECURSION_LIMIT_REACHED, K.ABSTENTION_DETECTED, CONVERSATION},
        produces={
            K.FIELD_VERIFICATION_RESULT,
            K.FIELD_RESULTS,
            K.FIELD_SCORES,
            K.FIELD_VERIFICATION_ERROR,
            K.VERIFY_GRANULAR_RESULT,
            K.COMPOSITION_STRATEGY,
            K.REGEX_VALIDATIONS_PERFORMED,
            K.REGEX_VALIDATION_RESULTS,
            K.REGEX_VALIDATION_DETAILS,
            K.REGEX_OVERALL_SUCCESS,
            K.REGEX_EXTRACTION_RESULTS,
        },
    ),
    contract(
        "EmbeddingCheck",
        Slot.EMBEDDING_CHECK,
        requires={K.ANSWER_CLASS, K.PARSED_ANSWER, K.FIELD_VERIFICATION_RESULT},
        optional={K.REGEX_OVERALL_SUCCESS, K.FIELD_VERIFICATION_ERROR},
        produces={
            K.EMBEDDING_CHECK_PERFORMED,
            K.EMBEDDING_SIMILARITY_SCORE,
            K.EMBEDDING_MODEL_USED,
            K.EMBEDDING_OVERRIDE_APPLIED,
        },
        revises={K.FIELD_VERIFICATION_RESULT},
    ),
    contract(
        "DeepJudgmentAutoFail",
        Slot.DEEP_JUDGMENT_AUTO_FAIL,
        optional={
            K.DEEP_JUDGMENT_PERFORMED,
            K.ATTRIBUTES_WITHOUT_EXCERPTS,
            K.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT,
            K.ABSTENTION_DETECTED,
        },
        revises={K.FIELD_VERIFICATION_RESULT},
        after={Slot.EMBEDDING_CHECK},
    ),
    contract(
        "RubricEvaluation",
        Slot.RUBRIC_EVALUATION,
        requires={K.RAW_LLM_RESPONSE},
        optional={K.TRACE_MESSAGES, K.TRACE_VALIDATION_FAILED, K.FINAL_AI_MESSAGE, CONVERSATION, LEFT_FILES},
        produces={
            K.RUBRIC_RESULT,
            K.DEEP_JUDGMENT_RUBRIC_PERFORMED,
            K.TRAIT_METADATA,
            K.TRAITS_WITHOUT_VALID_EXCERPTS,
        },
    ),
    contract(
        "AgenticRubricEvaluation",
        Slot.RUBRIC_EVALUATION,
        requires={K.RAW_LLM_RESPONSE},
        optional={
            K.TRACE_MESSAGES,
            K.FINAL_AI_MESSAGE,
            K.TRACE_VALIDATION_FAILED,
            K.WORKSPACE_PATH,
            AGENT_WORK,
            K.RUBRIC_RESULT,
        },
        produces={K.AGENTIC_TRAIT_SCORES, K.AGENTIC_TRAIT_TRACES},
    ),
    contract(
        "DeepJudgmentRubricAutoFail",
        Slot.DEEP_JUDGMENT_RUBRIC_AUTO_FAIL,
        optional={
            K.DEEP_JUDGMENT_RUBRIC_PERFORMED,
            K.TRAITS_WITHOUT_VALID_EXCERPTS,
            K.TRAIT_METADATA,
            K.ABSTENTION_DETECTED,
        },
    ),
    contract("FinalizeResult", Slot.FINALIZE_RESULT, optional=ANY),
]

ANSWERED = next(one for one in CONTRACTS if one.name == "GenerateAnswer")
PARSED = next(one for one in CONTRACTS if one.name == "ParseTemplate")
ALTERNATIVES = [
    # stages that a configuration adds, or that stand in the place of one of the reference order
    contract("DraftTemplate", None, requires={K.RAW_LLM_RESPONSE}, before={Slot.PARSE_TEMPLATE}),
    replace(
        PARSED,
        name="DeepJudgmentParseTemplate",
        produces=PARSED.produces
        | {
            K.DEEP_JUDGMENT_PERFORMED,
            K.EXTRACTED_EXCERPTS,
            K.ATTRIBUTE_REASONING,
            K.ATTRIBUTES_WITHOUT_EXCERPTS,
            K.DEEP_JUDGMENT_STAGES_COMPLETED,
            K.DEEP_JUDGMENT_MODEL_CALLS,
            K.DEEP_JUDGMENT_EXCERPT_RETRY_COUNT,
            K.HALLUCINATION_RISK_ASSESSMENT,
        },
        extra={"precedence": 10},
    ),
    replace(
        PARSED,
        name="AgenticParseTemplate",
        optional=PARSED.optional | {K.WORKSPACE_PATH, AGENT_WORK},
        produces=PARSED.produces | {K.INVESTIGATION_TRACE, K.AGENTIC_PARSING_PERFORMED, K.DEEP_JUDGMENT_PERFORMED},
        extra={"precedence": 20},
    ),
    replace(ANSWERED, name="Converse", produces=ANSWERED.produces | {CONVERSATION}),
    contract(
        "CheckUser",
        None,
        requires={CONVERSATION},
        optional={K.ANSWER_CLASS},
        before={Slot.ABSTENTION_CHECK, Slot.SUFFICIENCY_CHECK, Slot.PARSE_TEMPLATE, Slot.RUBRIC_EVALUATION},
    ),
    contract(
        "PrepareSandbox",
        None,
        "answer",
        optional={K.WORKSPACE_PATH},
        produces={AGENT_WORK},
        after={Slot.VALIDATE_TEMPLATE},
        before={Slot.GENERATE_ANSWER},
    ),
    contract(
        "CaptureWorkspace",
        None,
        "answer",
        requires={AGENT_WORK, K.RAW_LLM_RESPONSE},
        optional={K.FINAL_AI_MESSAGE},
        produces={WORKSPACE_PATCH, LEFT_FILES},
        after={Slot.GENERATE_ANSWER},
        before={Slot.PARSE_TEMPLATE},
    ),
    contract(
        "RunChecks",
        None,
        "answer",
        requires={WORKSPACE_PATCH, LEFT_FILES},
        optional={K.ANSWER_CLASS},
        after={Slot.GENERATE_ANSWER},
    ),
]

REFERENCE_ORDER = [one.name for one in CONTRACTS]

RELATIONS: list[tuple[str, str, str, Any, str | None]] = [
    # who waits, for whom, by which declaration, of what, and who is absent, so that nothing else holds the pair
    ("PrepareWorkspace", "ValidateTemplate", "after", Slot.VALIDATE_TEMPLATE, None),
    ("GenerateAnswer", "ValidateTemplate", "optional", K.ANSWER_CLASS, "PrepareWorkspace"),
    ("SufficiencyCheck", "AbstentionCheck", "optional", K.ABSTENTION_DETECTED, None),
    ("SufficiencyCheck", "TraceValidationAutoFail", "optional", K.TRACE_VALIDATION_FAILED, None),
    ("ParseTemplate", "SufficiencyCheck", "optional", K.SUFFICIENCY_DETECTED, None),
    ("ParseTemplate", "AbstentionCheck", "optional", K.ABSTENTION_DETECTED, "SufficiencyCheck"),
    ("VerifyTemplate", "ParseTemplate", "requires", K.PARSED_ANSWER, None),
    ("DeepJudgmentAutoFail", "VerifyTemplate", "revises", K.FIELD_VERIFICATION_RESULT, "EmbeddingCheck"),
    ("DeepJudgmentAutoFail", "EmbeddingCheck", "after", Slot.EMBEDDING_CHECK, None),
    ("RubricEvaluation", "TraceValidationAutoFail", "optional", K.TRACE_VALIDATION_FAILED, None),
    ("AgenticRubricEvaluation", "RubricEvaluation", "optional", K.RUBRIC_RESULT, None),
    ("DeepJudgmentRubricAutoFail", "AbstentionCheck", "optional", K.ABSTENTION_DETECTED, None),
]
