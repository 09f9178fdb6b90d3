"""Results of runs with a judge that errs, as files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from command_runs import CommandResult, run_karenina

from karenina_calibration.commands import commands
from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    ModelIdentity,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
)
from karenina_core.plugins import Plugins
from karenina_report.commands import commands as report_commands

OUTCOMES = {True: Outcome.CORRECT, False: Outcome.WRONG, None: Outcome.PARSE_ERROR}
RIGHT = "It is BCL2."
WRONG = "It is TP53."


def karenina(*arguments: str | Path, type: str = "", width: int = 400) -> CommandResult:
    """Run the command with the plugins of calibration and reports."""
    plugins = Plugins()
    plugins.register(report_commands)
    plugins.register(commands, distribution="karenina-calibration", version="0.1.0")
    return run_karenina(*arguments, plugins=plugins, type=type, width=width)


def result(
    question: str,
    verdict: bool | None,
    *,
    answer: str = RIGHT,
    judge: str = "j",
    model: str = "m",
    replicate: int = 1,
    text: str | None = None,
    extracted: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    outcome: Outcome | None = None,
) -> VerificationResult:
    """Return a result; `extracted` are template fields, and `labels` the classes of literal traits."""
    return VerificationResult(
        metadata=VerificationResultMetadata(
            question_id=question,
            template_id="t",
            result_id=f"{question}/{model}/{judge}/{replicate}",
            question_text=text or f"Which gene is the target of {question}?",
            replicate=replicate,
            answering_id=model,
            parsing_id=judge,
            answering=ModelIdentity(interface="manual", model_name=model),
            parsing=ModelIdentity(interface="manual", model_name=judge),
        ),
        outcome=outcome or OUTCOMES[verdict],
        template=VerificationResultTemplate(
            raw_llm_response=answer,
            parsed_llm_response=dict(extracted) if extracted is not None else None,
            parsed_gt_response={"gene": "BCL2"},
        ),
        rubric=VerificationResultRubric(llm_trait_scores=dict.fromkeys(labels, 0), llm_trait_labels=dict(labels))
        if labels is not None
        else None,
    )


def errant_run(questions: int = 100, judge: str = "j") -> list[VerificationResult]:
    """Return results in which 60% of the answers are right, and the judge errs at each fifth question."""
    results = []
    for number in range(questions):
        right = number % 5 < 3
        verdict = right != (number % 25 in (3, 7, 11, 15, 19))
        gene = "BCL2" if verdict else "TP53"
        results.append(
            result(f"q{number}", verdict, answer=RIGHT if right else WRONG, extracted={"gene": gene}, judge=judge)
        )
    return results


def save(path: Path, results: Iterable[VerificationResult]) -> Path:
    """Write results in the way a run does."""
    path.write_text("".join(item.model_dump_json() + "\n" for item in results), "utf-8")
    return path
