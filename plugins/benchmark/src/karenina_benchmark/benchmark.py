"""`Benchmark`, a set of questions that can be loaded, saved and run."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from karenina_benchmark.content import BenchmarkContent
from karenina_benchmark.errors import BenchmarkFileError
from karenina_core.data.question import Question
from karenina_core.errors import ConfigError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from karenina_benchmark.checking import CheckReport
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_core.plan import Plan
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.offline.rescoring import RescoreReport
    from karenina_engine.results.result_set import VerificationResultSet


logger: Final = logging.getLogger("karenina")
_HTML_COLUMNS: Final = ("Id", "Question", "Answer", "Template", "Keywords", "Traits")


class Benchmark(BenchmarkContent):
    """A set of questions for evaluating models, stored in one file.

    Use `create` or `load` to get one. `len()` and iteration work as for a list of questions, and `in` takes an id. Two
    benchmarks are equal if their files would be equal. Their `path`, and names and ids derived from it, are ignored,
    and a template class equals its source.
    """

    @classmethod
    def load(
        cls,
        path: str | Path,
        trust: Trust | Literal["all"] | None = None,
        *,
        max_bytes: int | None = None,
        skip_broken: bool = False,
        columns: Mapping[str, str] | None = None,
    ) -> Self:
        """Load a benchmark from YAML, a JSON-LD checkpoint, JSON lines, a table, or a plugin's format. Nothing in the
        file is executed. By default, the file may only refer to files outside its own folder if the user has trusted
        it; `trust="all"` always allows this, for your own files. Raises `RestrictedValues` for a path that needs trust,
        and `BenchmarkFileError` if the file or, unless `skip_broken` is set, a question cannot be read.

        The suffix selects the format: YAML (`.yaml`, `.yml`), a checkpoint (`.jsonld`, `.json`), JSON lines (`.jsonl`,
        `.ndjson`; one question per line, streamed: see `streamed`), or a table (`.csv`, `.tsv`, `.xlsx`, `.parquet`, or
        JSON rows with other keys). If the suffix is unknown, a file that starts with a brace is read as a checkpoint,
        and any other file as YAML.

        The columns of a table are recognized by their names. Use `columns` to map `question`, `answer`, `id`,
        `keywords`, `context` and `choices` to other columns, and to set the path to the `rows` of a JSON document, the
        `encoding`, and `choice_by`.

        The file, and each file that it refers to, may be up to 100 MB in size. Set another limit with `max_bytes` or
        the environment variable `KARENINA_MAX_FILE_BYTES`. If `skip_broken` is set, questions that cannot be read are
        skipped with a warning, and `broken` contains their errors.
        """
        from karenina_benchmark.benchmark_files import load_benchmark
        from karenina_core.data.trust import Trust
        from karenina_engine.check.restricted_values import check_paths
        from karenina_toolkit.files.bounded_files import limit_file_size

        chosen = Trust.all() if trust == "all" else trust
        with limit_file_size(max_bytes):
            content = load_benchmark(
                Path(path),
                lambda file, names: check_paths(file, names, chosen),
                columns,
                skip_broken=skip_broken,
            )
        benchmark = cls(content.name, id=content.id)
        vars(benchmark).update(vars(content))
        return benchmark

    @classmethod
    def check_file(
        cls,
        path: str | Path,
        trust: Trust | Literal["all"] | None = None,
        *,
        columns: Mapping[str, str] | None = None,
    ) -> CheckReport:
        """Check a benchmark file and report all problems with their line numbers, even if it cannot be loaded. `trust`
        and `columns` work as in `load`. Code in the file only runs if it is trusted, and no model is called.
        """
        from karenina_benchmark.checking import check_file

        return check_file(Path(path), trust, columns)[1]

    def check(self, trust: Trust | Literal["all"] | None = None) -> CheckReport:
        """Check the questions, templates, ground truths and traits, and report all problems. See `check_file`."""
        from karenina_benchmark.checking import CheckReport, check_content

        return CheckReport(tuple(check_content(self, trust, quality=True)), len(self))

    def save(self, path: str | Path) -> None:
        """Save the benchmark as JSON-LD, YAML or JSON lines, depending on the suffix of `path`. An existing file is
        replaced, which loses comments and formatting in YAML. Raises `BenchmarkFileError` if the suffix is unknown, the
        source of a template class is unavailable, or the file cannot be written.

        The file is replaced atomically. Relative paths of attachments are rewritten if the folder is another one, so
        that they lead to the same files; those of a benchmark without a file are relative to the current folder.
        """
        from karenina_benchmark.benchmark_files import save_benchmark

        save_benchmark(self, Path(path))

    def import_questions(
        self,
        path: str | Path,
        columns: Mapping[str, Any] | None = None,
        *,
        sheet: str | None = None,
        **options: Any,
    ) -> list[Question]:
        """Add the rows of a table (CSV, TSV, Excel, Parquet, JSON or JSON lines) as questions, and return these
        questions. If a row cannot be imported, no question is added and `BenchmarkFileError` is raised with the row's
        line.

        `columns` maps fields to columns, for example `{"question": "text", "raw_answer": "gold"}`. `sheet` selects a
        sheet in an Excel file. `options` are passed to `question_import.read_questions`.
        """
        from karenina_benchmark.question_import import read_questions
        from karenina_benchmark.tables.table_reader import read_rows

        questions = read_questions(read_rows(path, sheet), columns, **{"first": len(self) + 1, **options})
        try:
            return self.add_questions([question for _, question in questions.values()])
        except ValueError as error:
            raise BenchmarkFileError(path, "", str(error), "nothing was imported") from error

    def _repr_html_(self) -> str:
        """Return an HTML summary of the benchmark and its first questions for notebooks."""
        return _to_html(self)

    def plan(self, config: VerificationConfig | Mapping[str, Any], question_id: str | None = None) -> Plan:
        """Return the plan for a question, by default the first that is not a draft: its stages in order and the reasons
        why other stages are not used. Nothing is run. Raises `ConfigError` if there is no such question, and
        `PlanError` if it has no valid plan.
        """
        from karenina_engine.check.planner import Planner
        from karenina_engine.check.plugin_checks import check_selection
        from karenina_engine.check.questions import select_questions
        from karenina_toolkit.plugin_lookup import plugins_of

        chosen = _as_config(config)
        plugins = plugins_of(chosen)
        check_selection(plugins, chosen)
        questions = select_questions(self, chosen, [question_id] if question_id is not None else None)
        if not questions:
            raise ConfigError(["the benchmark contains no question to plan for; add one with add_question"])
        return Planner(chosen, plugins).plan(questions[0])

    def run_verification(
        self,
        config: VerificationConfig | Mapping[str, Any],
        *,
        question_ids: Iterable[str] | None = None,
        trust: Trust | Literal["all"] | None = None,
        output: str | Path | None = None,
        on_result: Callable[[VerificationResult], None] | None = None,
        policy: RetryPolicy | None = None,
        journal: str | Path | None = None,
        replay: bool = False,
        progress: bool | None = None,
    ) -> VerificationResultSet:
        """Run the benchmark, which may call models that cost money unless `replay` is set, and return a result for each
        question, model, judge and replicate. Raises `ConfigError`, `PlanError` and `JournalError` before the first
        model call. Later errors do not raise, but are recorded in the results of the affected items.

        `config` is a `VerificationConfig` or a mapping of settings. The benchmark's own `run_config` is not used. Use
        `question_ids` to select questions. By default, only code that the user has trusted may run. Pass `trust="all"`
        to allow all code in the benchmark, for your own files.

        Each result is written to `output` (JSONL) and passed to `on_result` as soon as it is complete. If you pass a
        `journal` (a file, created if necessary), all replies and results are stored in it, and the same call continues
        an interrupted run. With `replay`, replies only come from the journal and no model is called. `policy` controls
        how failed calls are retried. The default is the policy of `config`.

        A progress bar is shown on a terminal and in a notebook. Set `progress` to True or False to always or never show
        it. This method also works in a running event loop, as in notebooks.
        """
        from karenina_engine.run.execution import run_blocking

        return run_blocking(
            lambda: self.arun_verification(
                config,
                question_ids=question_ids,
                trust=trust,
                output=output,
                on_result=on_result,
                policy=policy,
                journal=journal,
                replay=replay,
                progress=progress,
            )
        )

    async def arun_verification(
        self,
        config: VerificationConfig | Mapping[str, Any],
        *,
        question_ids: Iterable[str] | None = None,
        trust: Trust | Literal["all"] | None = None,
        output: str | Path | None = None,
        on_result: Callable[[VerificationResult], None] | None = None,
        policy: RetryPolicy | None = None,
        journal: str | Path | None = None,
        replay: bool = False,
        progress: bool | None = None,
    ) -> VerificationResultSet:
        """Run the benchmark from async code. Arguments and exceptions are the same as for `run_verification`."""
        from karenina_engine.progress.progress_display import choose_display
        from karenina_engine.run.execution import collect_results
        from karenina_engine.run.prepare import open_run
        from karenina_engine.run.request import RunRequest

        display = choose_display(progress)
        request = RunRequest(
            self,
            _as_config(config),
            question_ids=None if question_ids is None else list(question_ids),
            trust=trust,
            output=Path(output) if output is not None else None,
            journal=Path(journal) if journal is not None else None,
            replay=replay,
            policy=policy,
            columns=self.columns,
            observers=[display] if display is not None else [],
        )
        with open_run(request) as session:
            if session.journal is None and session.calls_models and len(session) > 1:
                _note_missing_journal()
            return await collect_results(session, output=request.output, on_result=on_result)

    def rescore(
        self,
        journal: str | Path,
        config: VerificationConfig | Mapping[str, Any],
        *,
        trust: Trust | Literal["all"] | None = None,
        output: str | Path | None = None,
        ask: bool = False,
        progress: bool | None = None,
    ) -> RescoreReport:
        """Score the last run in `journal` again with this benchmark and `config`, without calling models unless `ask`
        is set, and return the summaries before and after, and the changes. The new results are written to `output`
        (JSONL), and an existing file is renamed; the journal is not changed.

        Use this after changing ground truths, tolerances, weights, patterns, primitives, compositions or `verify()`;
        see `karenina_engine.offline.rescoring.rescore`. `config` must have the same models as the run. With `ask`,
        models are called for prompts that contain a changed ground truth. `trust` and `progress` work as in
        `run_verification`.
        """
        from karenina_engine.offline.rescoring import rescore
        from karenina_engine.progress.progress_display import choose_display

        display = choose_display(progress)
        with display if display is not None else nullcontext():
            return rescore(
                journal,
                self,
                _as_config(config),
                trust=trust,
                output=output,
                ask=ask,
                on_scored=display.add_all if display is not None else None,
            )


@cache
def _note_missing_journal() -> None:
    """Log a warning that a run without a journal cannot be resumed, only once per process."""
    logger.warning(
        "this run has no journal; if the run is interrupted, finished calls are repeated and must be paid for "
        "again. "
        'With a journal file, such as journal="run.journal", run_verification stores every reply, and '
        "repeating the same call resumes the run (this warning is logged only once)"
    )


def _as_config(config: VerificationConfig | Mapping[str, Any]) -> VerificationConfig:
    """Return `config` as a `VerificationConfig`. An existing one is returned unchanged. Raises `ConfigError` if a
    setting is unknown or invalid.
    """
    from karenina_core.config import VerificationConfig

    return config if isinstance(config, VerificationConfig) else VerificationConfig(**config)


def _to_html(benchmark: BenchmarkContent) -> str:
    """Return an HTML summary of a benchmark and its first `MAX_ROWS` questions. No template is loaded."""
    from karenina_terminal.notebook_html import MAX_ROWS, make_facts, make_heading, make_note, make_table, render_html

    count = len(benchmark)
    rows = [_html_row(benchmark, id) for id in islice(benchmark.ids, MAX_ROWS)]
    return render_html(
        make_heading(f"{benchmark.name}: {quantity(count, 'question')}"),
        make_facts((name, text) for name, text in _html_facts(benchmark) if text),
        make_table(_HTML_COLUMNS, rows) if rows else None,
        make_note(f"The table shows the first {len(rows)} of {quantity(count, 'question')}.")
        if len(rows) < count
        else None,
    )


def _html_facts(benchmark: BenchmarkContent) -> Iterator[tuple[str, str]]:
    """Yield facts about a benchmark as pairs of name and value. Values may be empty."""
    yield "Description", benchmark.description
    yield "Version", benchmark.version
    yield "Creator", benchmark.creator
    yield "File", str(benchmark.path) if benchmark.path is not None else ""
    yield "Traits of all questions", ", ".join(benchmark.global_rubric.names) if benchmark.global_rubric else ""
    yield "Traits by concept", ", ".join(benchmark.dynamic_rubric.names) if benchmark.dynamic_rubric else ""
    yield "Cannot be read", quantity(len(benchmark.broken), "question") if benchmark.broken else ""
    yield "Note", benchmark.missing_answers


def _html_row(benchmark: BenchmarkContent, id: str) -> list[str]:
    """Return the table cells for a question, with an error message in place of its text if it cannot be read."""
    try:
        question = benchmark.get(id)
    except BenchmarkFileError as error:  # a streamed file is read question by question
        return [id, f"cannot be read: {error}", "", "", "", ""]
    return [
        id,
        question.question,
        question.raw_answer or "",
        _template_text(question),
        ", ".join(question.keywords),
        ", ".join(question.trait_names()),
    ]


def _template_text(question: Question) -> str:
    """Return the name of the question's template class, or `yes` or `none` if it has no class."""
    if question.answer_class is not None:
        return question.answer_class.__name__
    return "yes" if question.has_template else "none"
