"""Runs with a jury of scripted judges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from karenina_benchmark import Benchmark
from karenina_core import VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.models.ports import CallInfo, ErrorCategory, Message, PortError
from karenina_core.plugins import Plugins
from karenina_engine.results.result_set import VerificationResultSet
from karenina_jury.jury_result import JuryRecord, read_record
from karenina_testing import ScriptedModels

GENE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="{gene}", verify_with=ExactMatch())
    year: int = VerifiedField(description="The year that is named", ground_truth={year}, verify_with=NumericExact())
    drug: str = VerifiedField(description="The drug that is named", ground_truth="venetoclax", verify_with=ExactMatch())
"""
FAILS = "fails"
"""In place of the values of a judge: its call fails."""

Found = Mapping[str, Any] | str
"""The values that a judge extracts, or a reply that is no JSON."""


def judges(*ids: str) -> list[dict[str, str]]:
    """Return scripted judges."""
    return [{"id": id, "interface": "scripted", "model_name": id} for id in ids]


class Jury:
    """A benchmark whose answers each judge reads as scripted: `found` holds the values by question and judge."""

    def __init__(
        self,
        found: Mapping[str, Mapping[str, Found]],
        truth: tuple[str, int] = ("BCL2", 2016),
        answer: str = "It is a gene, known since 2024-02-01 or 01/02/2024.",
    ) -> None:
        self.found = found
        self.answer = answer
        self.excerpts: Mapping[str, Mapping[str, Mapping[str, Sequence[str]]]] = {}
        self.refused: Mapping[str, Collection[str]] = {}
        self.models = ScriptedModels(fill=self._fill)
        self.plugins = Plugins.discover()
        self.plugins.register(self.models)
        self.benchmark = self.benchmark_with(*truth)

    def _fill(self, _messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> Found:
        if "abstained" in schema["properties"]:
            return {"reasoning": "", "abstained": info.judge in self.refused[info.question_id]}
        if "gene" in self.excerpts.get(info.question_id, {}).get(info.judge, {}) and _asks_for_excerpts(schema):
            quoted = self.excerpts[info.question_id][info.judge]
            return {name: [{"text": text, "confidence": "high"} for text in texts] for name, texts in quoted.items()}
        values = self.found[info.question_id][info.judge]
        if values == FAILS:
            raise PortError("the server is down", category=ErrorCategory.PERMANENT)
        return values

    def benchmark_with(self, gene: str, year: int) -> Benchmark:
        """Return the benchmark with this truth for each question."""
        benchmark = Benchmark.create(name="jury")
        for id in self.found:
            benchmark.add_question(f"Which gene is {id}?", None, GENE.format(gene=gene, year=year), question_id=id)
        return benchmark

    def config(self, *ids: str, **settings: Any) -> VerificationConfig:
        """Return the configuration of a run with these judges."""
        recorded = {"id": "m", "interface": "manual", "model_name": "recorded"}
        answers = dict.fromkeys(self.found, self.answer)
        with plugin_room.use_plugins(self.plugins):
            return VerificationConfig(
                answering_models=[{**recorded, "manual_traces": answers}], parsing_models=judges(*ids), **settings
            )

    def run(self, *ids: str, journal: Path | None = None, **settings: Any) -> VerificationResultSet:
        """Run the benchmark with these judges."""
        with plugin_room.use_plugins(self.plugins):
            return self.benchmark.run_verification(self.config(*ids, **settings), journal=journal, progress=False)

    @property
    def asked(self) -> list[tuple[str, str]]:
        """The calls so far: question and judge."""
        return [(request.info.question_id, request.info.judge) for request in self.models.requests]


def _asks_for_excerpts(schema: Mapping[str, Any]) -> bool:
    return "excerpt" in str(schema).casefold() or schema["properties"]["gene"].get("type") == "array"


def found(gene: str | None, year: int | None = 2016, drug: str | None = "venetoclax") -> dict[str, Any]:
    """Return the values that a judge extracts."""
    return {"gene": gene, "year": year, "drug": drug}


def record_of(results: VerificationResultSet, id: str) -> JuryRecord:
    """Return the record of the jury on a question."""
    record = read_record(next(result for result in results if result.question_id == id))
    assert record is not None
    return record
