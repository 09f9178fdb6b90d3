"""The contract for every report section."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

from karenina_core.data.outcome import Outcome
from karenina_core.data.result import VerificationResult
from karenina_testing.contracts.installed.command_run import CommandRun, run_command
from karenina_testing.contracts.installed.sample_results import sample_results, write_results
from karenina_testing.contracts.plugin import PluginContract

_HEAD: Final = re.compile(r'<script type="text/plain" id="karenina-head">([^<]*)</script>')
_UNJUDGED: Final = [one for one in Outcome if not one.judged]


class ReportSectionContract(PluginContract):
    """The contract for sections that a plugin adds to the page written by `karenina report`.

    - `sections`: the ids of the sections that a report on `results()` must contain. By default, `results` returns one
      result for each outcome.
    """

    sections: ClassVar[Sequence[str]]

    def results(self) -> list[VerificationResult]:
        """Return results for which the report contains the sections."""
        return sample_results()

    def report(self, folder: Path, *runs: Sequence[VerificationResult]) -> CommandRun:
        """Run `karenina report` on these runs and return how it ended; the report is `report.html`."""
        files = [write_results(folder / f"run{number}.results.jsonl", run) for number, run in enumerate(runs)]
        return run_command(folder, "report", *files, "-o", "report.html")

    def shown(self, folder: Path, *runs: Sequence[VerificationResult]) -> dict[str, Any]:
        """Return the plugin's sections in a report on these runs, by id, as JSON values.

        Each has a `title`, and `blocks` with `columns` and `rows`, or a `text`.
        """
        done = self.report(folder, *runs)
        assert done.code == 0, done.err
        assert "a section of" not in done.err, done.err
        found = _HEAD.search((folder / "report.html").read_text("utf-8"))
        assert found
        head = json.loads(gzip.decompress(base64.b64decode(found[1])))
        own = [one for one in head["sections"] if one["distribution"] == self.distribution]
        assert len({one["id"] for one in own}) == len(own), "two sections have the same id"
        return {one["id"]: one for one in own}

    def test_a_report_has_the_sections(self, tmp_path: Path) -> None:
        shown = self.shown(tmp_path, self.results())
        assert set(shown) >= set(self.sections)
        assert self.sections, "give the contract the ids of the sections"
        assert [id for id, one in shown.items() if not (one["title"].strip() and one["blocks"])] == []

    def test_the_same_results_give_the_same_sections(self, tmp_path: Path) -> None:
        assert self.shown(tmp_path, self.results()) == self.shown(tmp_path, self.results())

    def test_several_runs_are_no_error(self, tmp_path: Path) -> None:
        self.shown(tmp_path, self.results(), self.results()[:-1], sample_results(model="another"))

    def test_results_without_a_verdict_are_no_error(self, tmp_path: Path) -> None:
        self.shown(tmp_path, sample_results(_UNJUDGED))

    def test_any_text_in_the_results_is_no_error(self, tmp_path: Path) -> None:
        self.shown(tmp_path, sample_results(hostile=True))
