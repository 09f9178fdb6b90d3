"""Collects benchmark files and tests their questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from typer import BadParameter

from karenina_benchmark import Benchmark
from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import ModelOptions
from karenina_core.data.trust import Trust
from karenina_core.errors import KareninaError
from karenina_engine.results.summary_text import group_table
from karenina_engine.user_files import load_trust
from karenina_pytest import FROM_FILES, GROUPS
from karenina_report.exports.junit import describe_item

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult


_OPTIONS: Final = re.compile(r"(?<![\w-])--(?=(?:config|answering|judge|recordings|set|journal|trust-all)\b)")
"""The options of `karenina run` that this plugin offers with a prefix."""


class BenchmarkFile(pytest.File):
    """A benchmark file. Its questions are run together when the first test is set up."""

    _results: Mapping[str, Sequence[VerificationResult]] | None = None
    _error: Exception | None = None

    def collect(self) -> Iterable[pytest.Item]:
        """Return a test for each question. Raises `CollectError` if the file cannot be read, or if pytest's
        configuration file sets options of this plugin.
        """
        if self.config.stash[FROM_FILES]:
            raise self.CollectError(self.config.stash[FROM_FILES])
        try:
            trust = Trust.all() if self.config.getoption("karenina_trust_all") else load_trust()
            self.benchmark = Benchmark.load(self.path, trust)
        except KareninaError as error:
            raise self.CollectError(str(error)) from error
        return [QuestionItem.from_parent(self, name=id) for id in self.benchmark.ids]

    def results_of(self, question: str) -> Sequence[VerificationResult]:
        """Return the results for a question, which are empty if it was not run. The first call runs all selected
        questions in the file. If this fails, every call raises the same `KareninaError` or `BadParameter`.
        """
        if self._results is None and self._error is None:
            try:
                self._results = self._run()
            except (KareninaError, BadParameter) as error:
                self._error = error
        if self._error is not None:
            raise self._error
        assert self._results is not None
        return self._results.get(question, ())

    def _run(self) -> Mapping[str, Sequence[VerificationResult]]:
        """Run the selected questions in this file, and return their results by question ID. If there are several
        models, their pass rates are stored for the end of the session.
        """
        selected = [item.name for item in self.session.items if item.parent is self]
        by_question: dict[str, list[VerificationResult]] = {}
        results = self.benchmark.run_verification(
            self._config(),
            question_ids=selected,
            trust="all" if self.config.getoption("karenina_trust_all") else None,
            journal=self._journal(),
            progress=False,
        )
        table = group_table(results.summary())
        if table:
            self.config.stash.setdefault(GROUPS, []).append((self.path.name, table))
        for result in results:
            by_question.setdefault(result.question_id, []).append(result)
        return by_question

    def _config(self) -> VerificationConfig:
        """Return the run's configuration. Raises `ConfigError` or `BadParameter` if an option is invalid."""
        option = self.config.getoption
        models = {"answering_models": option("karenina_answering"), "parsing_models": option("karenina_judge")}
        return read_configuration(
            self.benchmark,
            self._path_of("karenina_config"),
            option("karenina_set"),
            models=ModelOptions({name: specs for name, specs in models.items() if specs}),
            recordings=[self.config.invocation_params.dir / file for file in option("karenina_recordings") or ()],
        )

    def _journal(self) -> Path | None:
        """Return the journal for this file, which is named after it, or None if no journal folder is set."""
        folder = self._path_of("karenina_journal")
        if folder is None:
            return None
        name = self.path.relative_to(self.config.rootpath) if self.path.is_relative_to(self.config.rootpath) else None
        return folder / f"{'.'.join((name or Path(self.path.name)).parts)}.journal"

    def _path_of(self, option: str) -> Path | None:
        """Return the path in an option, or None if it is not set. A relative path is resolved against the folder where
        pytest was started. It is not resolved against pytest's root folder, which may be someone else's.
        """
        path = self.config.getoption(option)
        return self.config.invocation_params.dir / path if path else None


class QuestionItem(pytest.Item):
    """The test for a question. It passes if each answer is correct, or has scores but no verdict."""

    def setup(self) -> None:
        """Run the file's questions if they have not been run yet, and add this question's outcomes to the test's
        properties. If the run fails, the question was not run, or an answer is not judged, pytest reports an error.
        """
        assert isinstance(self.parent, BenchmarkFile)
        problem = None
        try:
            self._found = self.parent.results_of(self.name)
        except (KareninaError, BadParameter) as error:
            problem = _OPTIONS.sub("--karenina-", str(error))
        if problem is not None:  # outside the `except` block, whose exception pytest would print as well
            pytest.fail(problem, pytrace=False)
        for result in self._found:
            self.user_properties.append(("karenina_outcome", result.outcome.value))
        problems = [result for result in self._found if not result.outcome.judged]
        if problems or not self._found:
            pytest.fail("\n\n".join(_describe(problems)) or "the question was not run", pytrace=False)

    def runtest(self) -> None:
        """Fail with the reasons if an answer does not pass."""
        failed = [result for result in self._found if not result.outcome.passes]
        if failed:
            pytest.fail("\n\n".join(_describe(failed)), pytrace=False)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the question's location for reports."""
        return self.path, None, f"{self.path.name}: {self.name}"


def _describe(results: Iterable[VerificationResult]) -> Iterator[str]:
    """Yield a text for each result, with its outcome, reason, item and models."""
    for result in results:
        meta = result.metadata
        yield (
            f"{result.outcome.value}: {result.why()}\n{describe_item(result)}\n"
            f"Models: {meta.answering_id} judged by {meta.parsing_id}, replicate {meta.replicate or 1}"
        )
