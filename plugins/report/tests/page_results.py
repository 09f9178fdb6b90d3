"""Results with everything that a page can show, and hostile strings in every place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from result_builders import run

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    StageRecord,
    VerificationResultDeepJudgment,
    VerificationResultRubric,
    VetoRecord,
)

ASTRAL: Final = "\U0001f600\U0001f9ec Surely "
HOSTILE: Final = (
    "</script><img src=x onerror=\"document.title='run'\"><svg onload=alert(1)> \x1b[31mred\x1b[0m "
    "\u202eevil\u202c \u200b\ufeff <!--<script> javascript:alert(1) \" ' ` ${1} &lt; %s {{7*7}}"
)
SURROGATE: Final = "\ud800"


def rich_results(
    verdicts: Sequence[bool | Outcome | None], *, model: str = "m", evil: str = "", answer: str | None = None
) -> list[VerificationResult]:
    """Return results with fields, excerpts after astral characters, traits, stages and a veto.

    Each text contains `evil`.
    """
    return [
        _with_parts(item, evil, answer or f"{ASTRAL}BCL2 is the target of {item.question_id}. {evil}")
        for item in run(verdicts, model=f"{model}{evil}", judge=f"j{evil}", keywords=("gene", f"all{evil}"))
    ]


def _with_parts(result: VerificationResult, evil: str, text: str) -> VerificationResult:
    start = text.find("BCL2")
    excerpts = [{"text": f"BCL2{evil}", "start": start, "end": start + 4, "confidence": f"high{evil}"}]
    passed = result.outcome is Outcome.CORRECT
    return result.model_copy(
        update={
            "metadata": result.metadata.model_copy(
                update={
                    "question_text": f"{result.metadata.question_text}{evil}",
                    "raw_answer": f"BCL2{evil}",
                    "error": None if result.outcome.judged else f"no connection{evil}",
                }
            ),
            "template": result.template.model_copy(
                update={
                    "raw_llm_response": text,
                    "parsed_llm_response": {f"gene{evil}": f"BCL2{evil}", "year": 2016 if passed else 2017},
                    "parsed_gt_response": {f"gene{evil}": f"BCL2{evil}", "year": 2016},
                    "verify_result": passed if result.outcome.has_verdict else None,
                    "field_results": {f"gene{evil}": True, "year": passed},
                    "field_scores": {f"gene{evil}": 1.0, "year": float(passed)},
                    "trace_messages": [{"role": f"user{evil}", "content": f"Which?{evil}"}],
                    "investigation_trace": f"ls{evil}",
                }
            ),
            "deep_judgment": VerificationResultDeepJudgment(
                extracted_excerpts={f"gene{evil}": excerpts}, attribute_reasoning={f"gene{evil}": f"It says so.{evil}"}
            ),
            "rubric": VerificationResultRubric(
                llm_trait_scores={f"clarity{evil}": 4},
                llm_trait_reasoning={f"clarity{evil}": f"Short.{evil}"},
                trait_errors={f"tone{evil}": f"no score{evil}"},
            ),
            "vetoes": [VetoRecord(stage=f"Check{evil}", reason=f"a reason{evil}", outcome=result.outcome)],
            "stages": [
                StageRecord(
                    name=f"GenerateAnswer{evil}",
                    status="ran",
                    reason=f"why{evil}",
                    seconds=2.5,
                    calls=1,
                    input_tokens=40,
                    output_tokens=50,
                    distribution=f"karenina-generation{evil}",
                    version="0.1.0",
                )
            ],
        }
    )
