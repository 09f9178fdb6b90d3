"""A small run of the installed command, for contracts of plugins that take part in runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final

from karenina_core.data.result import ItemId, VerificationResult
from karenina_testing.contracts.installed.command_run import run_command
from karenina_testing.contracts.plugin import PluginContract

GENES: Final = {"venetoclax": "BCL2", "imatinib": "ABL1", "olaparib": "PARP1"}
"""The correct answers to the sample questions, by question id."""
_BENCHMARK: Final = "sample.yaml"
_RESULTS: Final = "sample.results.jsonl"
JOURNAL: Final = "sample.journal"


@dataclass(frozen=True, slots=True)
class SampleRun:
    """How a run ended: its exit code, its results, and what it wrote to standard error."""

    code: int
    results: list[VerificationResult]
    err: str

    @property
    def by_item(self) -> dict[ItemId, tuple[str, object]]:
        """The outcome and the field results of each item."""
        return {one.item: (one.outcome.value, one.template.field_results) for one in self.results}


class RunContract(PluginContract):
    """The contract for a plugin that takes part in runs. `settings` is a configuration, as in a configuration file."""

    settings: ClassVar[Mapping[str, Any]] = {}

    def run(self, folder: Path, *options: str, judged: bool = False, **settings: Any) -> SampleRun:
        """Run `karenina run` on the questions in `GENES` and return how it ended.

        The answers are recorded unless `options` select a model (`--answering`); the last recorded answer is wrong.
        With `judged`, a judge fills the templates; otherwise the answers are searched for the gene, without a judge.
        """
        questions = [
            {"id": id, "question": f"Which gene is the target of {id}?", "answer": {"gene": _field(gene, judged)}}
            for id, gene in GENES.items()
        ]
        answers = {id: f"It is {gene}." for id, gene in GENES.items()} | {"olaparib": "It is TP53."}
        recorded = [json.dumps({"id": id, "response": text}) + "\n" for id, text in answers.items()]
        (folder / _BENCHMARK).write_text(json.dumps({"karenina": 1, "name": "Sample", "questions": questions}), "utf-8")
        (folder / "answers.jsonl").write_text("".join(recorded), "utf-8")
        (folder / "settings.json").write_text(json.dumps(settings), "utf-8")
        answering = () if "--answering" in options else ("--recordings", "answers.jsonl")
        command = ("run", _BENCHMARK, *answering, "--config", "settings.json", "--quiet", "-o", _RESULTS)
        done = run_command(folder, *command, *options, OPENAI_API_KEY="a-key")
        return SampleRun(done.code, read_results(folder / _RESULTS), done.err)


def _field(gene: str, judged: bool) -> dict[str, object]:
    if judged:
        return {"description": "The gene that the response names", "ground_truth": gene}
    primitive = {"type": "TraceContains", "substring": gene}
    return {"description": f"The response names {gene}", "ground_truth": True, "verify_with": primitive}


def read_results(file: Path) -> list[VerificationResult]:
    """Return the results in a file; an empty list if the file does not exist."""
    lines = file.read_text("utf-8").splitlines() if file.exists() else []
    return [VerificationResult.model_validate_json(line) for line in lines if line.startswith('{"metadata"')]
