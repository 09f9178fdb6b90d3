"""Sample results as runs write them, with every outcome and with hostile text, for contracts of result readers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    ModelIdentity,
    StageRecord,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
)

HOSTILE: Final = (
    "=1+1 | </script><b>bold</b> & \"quoted\" 'text', \u202etwisted\u202c \x1b[31mred\x1b[0m \x00 \U0001f9ec\r\n"
    "# a second line; \\ %s {0} ${1}"
)
"""Text that tends to break file formats: markup, formulas, control characters, line breaks."""


def sample_results(
    outcomes: Sequence[Outcome] = tuple(Outcome), *, model: str = "model", hostile: bool = False
) -> list[VerificationResult]:
    """Return one result for each outcome, for questions `q0`, `q1`, ...; `hostile` appends `HOSTILE` to most texts."""
    return [_result(number, outcome, model, HOSTILE if hostile else "") for number, outcome in enumerate(outcomes)]


def write_results(file: Path, results: Iterable[VerificationResult]) -> Path:
    """Write the results to `file`, one JSON line each, and return `file`."""
    file.write_text("".join(one.model_dump_json() + "\n" for one in results), "utf-8")
    return file


def _result(number: int, outcome: Outcome, model: str, more: str) -> VerificationResult:
    identity = ModelIdentity(interface="manual", model_name=model)
    found = {f"gene{more}": f"BCL2{more}", "year": 2015 + number}
    return VerificationResult(
        metadata=VerificationResultMetadata(
            question_id=f"q{number}",
            template_id="t",
            result_id=f"{model}-{number}",
            question_text=f"Which gene is it?{more}",
            raw_answer=f"BCL2{more}",
            keywords=["genes", f"drugs{more}"],
            answering_id=model,
            parsing_id="judge",
            answering=identity,
            parsing=identity,
            completed_without_errors=outcome.judged,
            error=None if outcome.judged else f"no connection{more}",
            execution_time=0.5,
        ),
        outcome=outcome,
        template=VerificationResultTemplate(
            raw_llm_response=f"It is BCL2, of {2015 + number}.{more}" if outcome.judged else "",
            parsed_llm_response=found if outcome.has_verdict else None,
            parsed_gt_response=found,
            verify_result=outcome.passes if outcome.has_verdict else None,
            field_results=dict.fromkeys(found, outcome.passes) if outcome.has_verdict else None,
            usage_metadata={"parsing": {"scope": "item", "input_tokens": 10, "output_tokens": 3, "calls": 1}},
        ),
        rubric=VerificationResultRubric(llm_trait_scores={f"clarity{more}": number % 5}) if outcome.judged else None,
        stages=[
            StageRecord(
                name="ParseTemplate",
                status="ran",
                reason=more or None,
                seconds=0.1,
                distribution="karenina-template",
                version="0.1.0",
            )
        ],
    )
