"""Plugins of the members pass the contracts that run the command: at least one of each kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from otel_collector import collect_telemetry

from karenina_engine.run.executor import AsyncioExecutor
from karenina_importing.formats.openai_evals import OPENAI_EVALS
from karenina_prices.published_prices import PublishedPrices
from karenina_report.exports.json_lines import JSONL
from karenina_report.exports.markdown import MARKDOWN
from karenina_testing.contracts import (
    CommandContract,
    ExecutorContract,
    ExporterContract,
    ImportFormatContract,
    ObserverContract,
    PanelContract,
    PriceSourceContract,
    ReportSectionContract,
)

pytestmark = pytest.mark.usefixtures("forked_commands")


class TestNewCommand(CommandContract):
    entry_point = "karenina_scaffold:plugin"
    command = ("new",)
    arguments = ("stage", "word-count")
    prints = "Created word-count"
    refused = {
        ("stage", "2nd"): "'2nd' is not a valid package name",
        ("widget", "word-count"): "unknown plugin kind 'widget'",
    }


class TestMarkdown(ExporterContract):
    entry_point = "karenina_report.commands:commands"
    exporter = MARKDOWN
    names_questions = False  # it lists the items that did not pass


class TestJSONLines(ExporterContract):
    entry_point = "karenina_report.commands:commands"
    exporter = JSONL


class TestRunSections(ReportSectionContract):
    entry_point = "karenina_report.commands:commands"
    sections = ("outcomes", "models", "keywords")


class TestTelemetry(ObserverContract):
    entry_point = "karenina_otel:plugin"
    settings = {"otel": True}

    @pytest.fixture(autouse=True)
    def _collect(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with collect_telemetry() as self.collector:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", self.collector.url)
            yield

    def observed(self, folder: Path) -> object:
        return [span.name for span in self.collector.spans] or None


class TestAsyncio(ExecutorContract):
    entry_point = "karenina_engine:plugin"
    executor = AsyncioExecutor()


class TestJury(PanelContract):
    entry_point = "karenina_jury:plugin"
    settings = {"jury": {}}


class TestPublishedPrices(PriceSourceContract):
    entry_point = "karenina_prices:plugin"
    source = PublishedPrices(at=datetime(2026, 1, 1, tzinfo=UTC))
    prices = {("gpt-4o-mini", "https://api.openai.com/v1"): ("0.15", "0.6"), ("gpt-4o-mini", "openai"): ("0.15", "0.6")}


GENE, YEAR = "Which gene was found first?", "In which year?"
SAMPLE = json.dumps({"input": GENE, "ideal": "BCL2"}) + "\n"


class TestOpenAIEvals(ImportFormatContract):
    entry_point = "karenina_importing.plugin:plugin"
    format = OPENAI_EVALS
    suffix = ".jsonl"
    sample = SAMPLE + json.dumps({"input": YEAR, "ideal": ["1985", "in 1985"]})
    questions = {"q1-which-gene-was": GENE, "q2-in-which-year": YEAR}
    broken = ((SAMPLE + "{", "line 2"),)
    others = (json.dumps({"input": GENE, "expected": "BCL2"}),)
