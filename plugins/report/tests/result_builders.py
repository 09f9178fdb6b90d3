"""Builders of results, in the form that runs write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    ModelIdentity,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
)

OUTCOMES = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.PARSE_ERROR}


def result(
    question: str,
    verdict: Outcome | bool | None,
    *,
    replicate: int = 1,
    model: str = "m",
    judge: str = "j",
    answer: str | None = None,
    text: str | None = None,
    template: str = "t",
    traits: Mapping[str, Any] | None = None,
    granular: float | None = None,
    keywords: Iterable[str] = (),
    judge_prompt: str | None = None,
    extracted: Mapping[str, Any] | None = None,
    tokens: tuple[int, int] = (10, 3),
) -> VerificationResult:
    """Return the result of one item; a verdict of None means that the judge gave none."""
    used = {"scope": "item", "input_tokens": tokens[0], "output_tokens": tokens[1], "calls": 1}
    return VerificationResult(
        metadata=VerificationResultMetadata(
            question_id=question,
            template_id=template,
            result_id=f"{question}/{model}/{judge}/{replicate}",
            question_text=text if text is not None else f"What is {question}?",
            keywords=list(keywords) or None,
            replicate=replicate,
            answering_id=model,
            parsing_id=judge,
            answering=ModelIdentity(interface="manual", model_name=model),
            parsing=ModelIdentity(interface="manual", model_name=judge),
            parsing_system_prompt=judge_prompt,
            execution_time=2.0,
        ),
        outcome=verdict if isinstance(verdict, Outcome) else OUTCOMES[verdict],
        template=VerificationResultTemplate(
            raw_llm_response=answer if answer is not None else f"{model} on {question}, {replicate}",
            verify_granular_result=granular,
            parsed_llm_response=dict(extracted) if extracted is not None else None,
            usage_metadata={"parsing": used, "total": used},
        ),
        rubric=VerificationResultRubric(agentic_trait_scores=dict(traits)) if traits is not None else None,
    )


def run(verdicts: Iterable[bool | Outcome | None], **facts: Any) -> list[VerificationResult]:
    """Return one result for each verdict, of questions q0, q1, ..."""
    return [result(f"q{number}", verdict, **facts) for number, verdict in enumerate(verdicts)]


def save(path: Path, results: Iterable[VerificationResult]) -> Path:
    """Write results in the same way as a run."""
    path.write_text("".join(item.model_dump_json() + "\n" for item in results), "utf-8")
    return path
