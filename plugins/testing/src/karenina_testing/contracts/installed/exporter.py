"""The contract for every export format of results."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

from karenina_core.data.result import VerificationResult
from karenina_testing.contracts.installed.command_run import CommandRun, run_command
from karenina_testing.contracts.installed.sample_results import sample_results, write_results
from karenina_testing.contracts.plugin import PluginContract

_RESULTS: Final = "sample.results.jsonl"
_BAD_INPUT: Final = 2


class AnyExporter(Protocol):
    """The fields of a `karenina_report.exports.exporter.Exporter` that the contract reads."""

    @property
    def name(self) -> str:
        """The name for `--format`."""

    @property
    def summary(self) -> str:
        """One line for the command's help."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The file suffixes."""

    @property
    def is_binary(self) -> bool:
        """Whether the export is binary, so that a terminal cannot show it."""

    @property
    def takes_table(self) -> bool:
        """Whether it can write the table that `--table` names."""

    @property
    def read(self) -> Any:
        """Read results back."""


class ExporterContract(PluginContract):
    """The contract for an export format of results, written by `karenina export`.

    - `exporter`: the exporter.
    - `names_questions`: whether an export contains the id of each question as text. For a binary format, override
      `question_ids` to read the ids; set it to False for formats without ids, such as summaries.
    """

    exporter: ClassVar[AnyExporter]
    names_questions: ClassVar[bool] = True

    def question_ids(self, content: bytes, ids: Sequence[str]) -> set[str]:
        """Return those of `ids` that occur in an export."""
        text = content.decode("utf-8")
        return {id for id in ids if id in text}

    def export(self, folder: Path, results: Iterable[VerificationResult], *options: str | Path) -> CommandRun:
        """Export the results and return how the command ended; it prints the export unless `options` name a file."""
        write_results(folder / _RESULTS, results)
        return run_command(folder, "export", _RESULTS, "--format", self.exporter.name, *options)

    def exported(self, folder: Path, results: Iterable[VerificationResult], *options: str) -> bytes:
        """Export the results to a file and return its content."""
        output = folder / f"exported{self._suffix}"
        done = self.export(folder, results, "-o", output, *options)
        assert done.code == 0, done.err
        return output.read_bytes()

    @property
    def _suffix(self) -> str:
        return self.exporter.suffixes[0] if self.exporter.suffixes else ".export"

    def test_it_has_a_name_a_summary_and_suffixes(self) -> None:
        assert self.exporter.name == self.exporter.name.strip() != ""
        assert self.exporter.summary.strip()
        assert "\n" not in self.exporter.summary
        wrong = [one for one in self.exporter.suffixes if not one.startswith(".") or one != one.lower()]
        assert wrong == [], "a suffix begins with a dot and is in lower case"

    def test_its_suffix_selects_it(self, tmp_path: Path) -> None:
        write_results(tmp_path / _RESULTS, sample_results())
        for suffix in self.exporter.suffixes:
            done = run_command(tmp_path, "export", _RESULTS, "-o", f"chosen{suffix}")
            assert done.code == 0, done.err
            chosen = (tmp_path / f"chosen{suffix}").read_bytes()
            assert self.exporter.is_binary or chosen == self.exported(tmp_path, sample_results())

    def test_no_result_is_left_out(self, tmp_path: Path) -> None:
        results = sample_results()
        ids = [one.question_id for one in results]
        content = self.exported(tmp_path, results)
        assert content
        if self.names_questions:
            assert self.question_ids(content, ids) == set(ids)

    def test_text_is_utf8_with_any_text_in_the_results(self, tmp_path: Path) -> None:
        content = self.exported(tmp_path, sample_results(hostile=True))
        if not self.exporter.is_binary:
            valid = content.decode("utf-8", "replace").encode() == content
            assert valid, "write UTF-8; other formats say is_binary=True"

    def test_no_results_are_no_error(self, tmp_path: Path) -> None:
        done = self.export(tmp_path, [], "-o", f"empty{self._suffix}")
        assert done.code == 0, done.err

    def test_an_earlier_export_is_kept_under_another_name(self, tmp_path: Path) -> None:
        first = self.exported(tmp_path, sample_results())
        self.exported(tmp_path, sample_results()[:1])  # refused if its beginning is not in `first_bytes`
        kept = [file.read_bytes() for file in tmp_path.iterdir() if file.name.startswith("exported")]
        assert len(kept) == 2
        assert first in kept

    def test_a_table_is_written_if_it_says_so(self, tmp_path: Path) -> None:
        done = self.export(tmp_path, sample_results(), "--table", "fields", "-o", f"table{self._suffix}")
        assert done.code == (0 if self.exporter.takes_table else _BAD_INPUT), done.err

    def test_reading_an_export_gives_the_same_results(self, tmp_path: Path) -> None:
        if self.exporter.read is not None:
            self.exported(tmp_path, results := sample_results())
            done = run_command(tmp_path, "export", f"exported{self._suffix}", "--format", "jsonl")
            assert done.code == 0, done.err
            lines = [line for line in done.out.splitlines() if line.startswith('{"metadata"')]
            assert [VerificationResult.model_validate_json(line) for line in lines] == results
