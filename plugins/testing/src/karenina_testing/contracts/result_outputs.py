"""The contracts for export formats and report sections. `sample_results` returns results for them."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_core.data.sections import (
    ModelIdentity,
    StageRecord,
    VerificationResultMetadata,
    VerificationResultRubric,
    VerificationResultTemplate,
)
from karenina_testing.contracts.command import BAD_INPUT, CommandRun, run_command
from karenina_testing.contracts.plugin import PluginContract

HOSTILE: Final = (
    "=1+1 | </script><b>bold</b> & \"quoted\" 'text', \u202etwisted\u202c \x1b[31mred\x1b[0m \x00 \U0001f9ec\r\n"
    "# a second line; \\ %s {0} ${1}"
)
"""Text that often breaks file formats: markup, formulas, control characters and line breaks."""
_RESULTS: Final = "sample.results.jsonl"
_HEAD: Final = re.compile(r'<script type="text/plain" id="karenina-head">([^<]*)</script>')
_UNJUDGED: Final = [outcome for outcome in Outcome if not outcome.judged]


def sample_results(
    outcomes: Sequence[Outcome] = tuple(Outcome), *, model: str = "model", hostile: bool = False
) -> list[VerificationResult]:
    """Return one result for each outcome, for the questions `q0`, `q1`, ... and the answering model `model`. With
    `hostile`, most strings contain `HOSTILE`.
    """
    return [_result(number, outcome, model, HOSTILE if hostile else "") for number, outcome in enumerate(outcomes)]


def write_results(file: Path, results: Iterable[VerificationResult]) -> Path:
    """Write the results to `file` as JSON lines, and return `file`."""
    file.write_text("".join(result.model_dump_json() + "\n" for result in results), "utf-8")
    return file


def _result(number: int, outcome: Outcome, model: str, more: str) -> VerificationResult:
    """Return a result with the given outcome for question number `number` and the answering model `model`. `more` is
    added to most strings.
    """
    identity = ModelIdentity(interface="manual", model_name=model)
    values = {f"gene{more}": f"BCL2{more}", "year": 2015 + number}
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
            parsed_llm_response=values if outcome.has_verdict else None,
            parsed_gt_response=values,
            verify_result=outcome.passes if outcome.has_verdict else None,
            field_results=dict.fromkeys(values, outcome.passes) if outcome.has_verdict else None,
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


class AnyExporter(Protocol):
    """The part of `karenina_report.exports.exporter.Exporter` that the contract uses."""

    @property
    def name(self) -> str:
        """The name used with `--format`."""

    @property
    def summary(self) -> str:
        """One line for the command's help."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The file suffixes."""

    @property
    def is_binary(self) -> bool:
        """Whether the export is binary and cannot be shown in a terminal."""

    @property
    def takes_table(self) -> bool:
        """Whether the format can write the table named with `--table`."""

    @property
    def read(self) -> Any:
        """The function that reads exported results, or None if they cannot be read."""


class ExporterContract(PluginContract):
    """The contract for a results export format, as written by `karenina export`.

    - `exporter`: the exporter.
    - `names_questions`: whether an export contains each question's id as text. Set this to False for formats without
      ids, such as summaries. For a binary format, override `question_ids` to read the ids.
    """

    exporter: ClassVar[AnyExporter]
    names_questions: ClassVar[bool] = True

    def question_ids(self, content: bytes, ids: Sequence[str]) -> set[str]:
        """Return the members of `ids` that occur in an export."""
        text = content.decode("utf-8")
        return {id for id in ids if id in text}

    def export(self, folder: Path, results: Iterable[VerificationResult], *options: str | Path) -> CommandRun:
        """Export the results. They are printed unless `options` name a file."""
        write_results(folder / _RESULTS, results)
        return run_command(folder, "export", _RESULTS, "--format", self.exporter.name, *options)

    def exported(self, folder: Path, results: Iterable[VerificationResult], *options: str) -> bytes:
        """Export the results to a file, and return its contents. Fails if the command fails."""
        output = folder / f"exported{self._suffix}"
        done = self.export(folder, results, "-o", output, *options)
        assert done.code == 0, done.err
        return output.read_bytes()

    @property
    def _suffix(self) -> str:
        """The suffix for exported files, which is `.export` if the format has none."""
        return self.exporter.suffixes[0] if self.exporter.suffixes else ".export"

    def test_it_has_a_name_a_summary_and_suffixes(self) -> None:
        assert self.exporter.name == self.exporter.name.strip() != ""
        assert self.exporter.summary.strip()
        assert "\n" not in self.exporter.summary
        wrong = [suffix for suffix in self.exporter.suffixes if not suffix.startswith(".") or suffix != suffix.lower()]
        assert wrong == [], "a suffix must start with a dot and be in lower case"

    def test_its_suffix_selects_it(self, tmp_path: Path) -> None:
        write_results(tmp_path / _RESULTS, sample_results())
        for suffix in self.exporter.suffixes:
            done = run_command(tmp_path, "export", _RESULTS, "-o", f"chosen{suffix}")
            assert done.code == 0, done.err
            chosen = (tmp_path / f"chosen{suffix}").read_bytes()
            assert self.exporter.is_binary or chosen == self.exported(tmp_path, sample_results())

    def test_no_result_is_left_out(self, tmp_path: Path) -> None:
        results = sample_results()
        ids = [result.question_id for result in results]
        content = self.exported(tmp_path, results)
        assert content
        if self.names_questions:
            assert self.question_ids(content, ids) == set(ids)

    def test_text_is_utf8_with_any_text_in_the_results(self, tmp_path: Path) -> None:
        content = self.exported(tmp_path, sample_results(hostile=True))
        if not self.exporter.is_binary:
            valid = content.decode("utf-8", "replace").encode() == content
            assert valid, (
                "the exported content is not valid UTF-8; write UTF-8, or set is_binary=True if the format is not text"
            )

    def test_no_results_are_no_error(self, tmp_path: Path) -> None:
        done = self.export(tmp_path, [], "-o", f"empty{self._suffix}")
        assert done.code == 0, done.err

    def test_an_earlier_export_is_kept_under_another_name(self, tmp_path: Path) -> None:
        first = self.exported(tmp_path, sample_results())
        self.exported(tmp_path, sample_results()[:1])  # refused if its beginning is not in `first_bytes`
        contents = [file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("exported")]
        assert len(contents) == 2
        assert first in contents

    def test_a_table_is_written_if_it_says_so(self, tmp_path: Path) -> None:
        done = self.export(tmp_path, sample_results(), "--table", "fields", "-o", f"table{self._suffix}")
        assert done.code == (0 if self.exporter.takes_table else BAD_INPUT), done.err

    def test_reading_an_export_gives_the_same_results(self, tmp_path: Path) -> None:
        if self.exporter.read is not None:
            self.exported(tmp_path, results := sample_results())
            done = run_command(tmp_path, "export", f"exported{self._suffix}", "--format", "jsonl")
            assert done.code == 0, done.err
            lines = [line for line in done.out.splitlines() if line.startswith('{"metadata"')]
            assert [VerificationResult.model_validate_json(line) for line in lines] == results


class ReportSectionContract(PluginContract):
    """The contract for sections that a plugin adds to the page written by `karenina report`.

    - `sections`: the ids of the sections that a report on `results()` must contain. By default, `results` returns one
      result for each outcome.
    """

    sections: ClassVar[Sequence[str]]

    def results(self) -> list[VerificationResult]:
        """Return results whose report must contain the sections."""
        return sample_results()

    def report(self, folder: Path, *runs: Sequence[VerificationResult]) -> CommandRun:
        """Run `karenina report` on the given runs, and write the report to `report.html`."""
        files = [write_results(folder / f"run{number}.results.jsonl", run) for number, run in enumerate(runs)]
        return run_command(folder, "report", *files, "-o", "report.html")

    def shown(self, folder: Path, *runs: Sequence[VerificationResult]) -> dict[str, Any]:
        """Return the plugin's sections in a report on the given runs as JSON-compatible dicts, keyed by id. Fails if
        the report or one of its sections cannot be made.

        A section has a `title` and `blocks`. A block has `columns` and `rows`, or `text`.
        """
        done = self.report(folder, *runs)
        assert done.code == 0, done.err
        assert "a section from" not in done.err, done.err
        match = _HEAD.search((folder / "report.html").read_text("utf-8"))
        assert match
        head = json.loads(gzip.decompress(base64.b64decode(match[1])))
        own = [section for section in head["sections"] if section["distribution"] == self.distribution]
        assert len({section["id"] for section in own}) == len(own), "two sections have the same id"
        return {section["id"]: section for section in own}

    def test_a_report_has_the_sections(self, tmp_path: Path) -> None:
        shown = self.shown(tmp_path, self.results())
        assert set(shown) >= set(self.sections)
        assert self.sections, "define the ids of the sections for the contract"
        assert [id for id, section in shown.items() if not (section["title"].strip() and section["blocks"])] == []

    def test_the_same_results_give_the_same_sections(self, tmp_path: Path) -> None:
        assert self.shown(tmp_path, self.results()) == self.shown(tmp_path, self.results())

    def test_several_runs_are_no_error(self, tmp_path: Path) -> None:
        self.shown(tmp_path, self.results(), self.results()[:-1], sample_results(model="another"))

    def test_results_without_a_verdict_are_no_error(self, tmp_path: Path) -> None:
        self.shown(tmp_path, sample_results(_UNJUDGED))

    def test_any_text_in_the_results_is_no_error(self, tmp_path: Path) -> None:
        self.shown(tmp_path, sample_results(hostile=True))
