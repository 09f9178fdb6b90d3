"""`Benchmark`: the content of a benchmark, with the files that hold it and the runs over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from karenina_benchmark.content import BenchmarkContent
from karenina_core.data.question import Question

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.offline.rescoring import Rescored
    from karenina_engine.results.result_set import VerificationResultSet


class Benchmark(BenchmarkContent):
    """A set of questions that models are evaluated with, held by one file.

    Make one with `create` or `load`. `len`, iteration and `in` (by id) work as for a list of its questions. Two
    benchmarks are equal when a file would hold the same for both: a template class and its source are the same. `path`,
    where it was loaded from, and a name that only comes from it do not count.
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
        """Read a benchmark: a JSON-LD checkpoint (`.jsonld`, `.json`), the readable form (`.yaml`, `.yml`), lines, a
        table, or another format that a plugin offers.

        Lines (`.jsonl`, `.ndjson`) hold a question each and are streamed: see `streamed`. A table (`.csv`, `.tsv`,
        `.xlsx`) has the columns `question` and `answer`, and perhaps `id` and `keywords`; `columns` maps these names to
        others. A file with another ending is told by its content: a
        checkpoint begins with a brace, and else it is YAML. Nothing of it is executed. `trust` says whether it may read
        files outside of its own folder: if the user has trusted that (the default), or always (`"all"`, for a file of
        one's own).

        At most 100 MB of it, and of each file that it names, are read; `max_bytes` or the environment variable
        `KARENINA_MAX_FILE_BYTES` sets another bound. With `skip_broken` questions that cannot be read are left out,
        each with a warning, and are in `broken`. Raises `CheckpointError`, and `RestrictedValues` for a path that needs
        trust.
        """
        from karenina_benchmark import storage
        from karenina_core.data.trust import Trust
        from karenina_engine.scheduling.restricted_values import check_paths
        from karenina_toolkit.bounded_files import allowing

        chosen = Trust.all() if trust == "all" else trust
        with allowing(max_bytes):
            content = storage.load_benchmark(
                Path(path),
                lambda file, names: check_paths(file, names, chosen),
                columns,
                skip_broken=skip_broken,
            )
        benchmark = cls(content.name, id=content.id)
        vars(benchmark).update(vars(content))
        return benchmark

    def save(self, path: str | Path) -> None:
        """Write the benchmark, as JSON-LD, YAML or lines of JSON by the ending of `path`.

        The file is replaced as a whole or not at all. It is written anew: comments and the layout of a YAML file that
        was loaded are lost. Raises `CheckpointError` for another ending, for a template class whose source cannot be
        had, and where the file cannot be written.
        """
        from karenina_benchmark import storage

        storage.save_benchmark(self, Path(path))

    def import_questions(
        self, path: str | Path, columns: Mapping[str, Any] | None = None, **options: Any
    ) -> list[Question]:
        """Add the rows of a CSV, Excel or JSONL file as questions, all or none; the new questions are returned.

        `columns` maps fields to columns of the file, such as `{"question": "text", "raw_answer": "gold"}`. The options
        are those of `importing.read_questions`. Raises `CheckpointError` naming the file, the row and the cure.
        """
        from karenina_benchmark.errors import CheckpointError
        from karenina_benchmark.question_import import read_questions

        questions = read_questions(path, columns, **{"first": len(self) + 1, **options})
        try:
            return self.add_questions(questions)
        except ValueError as error:
            raise CheckpointError(path, "", str(error), "nothing was imported") from error

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
    ) -> VerificationResultSet:
        """Have the questions answered and judged: one result for each question, answering model, judge and replicate.

        `config` is a `VerificationConfig`, or a mapping of its names; the benchmark's own `run_config` is not read.
        `question_ids` chooses questions; `trust` says which code of the benchmark may run (what the user has stored,
        by default; `"all"` for a file of one's own); each result is written to `output` (JSONL) and given to
        `on_result` as it ends. With a `journal` (a file, made where there is none) every reply and result is kept there
        before it is used, and the same call goes on where an earlier one stopped; with `replay` the journal alone
        answers, and nobody is asked. Works in a notebook too. Raises `ConfigError`, `PlanError` and `JournalError`
        before anything is asked; what goes wrong with one item stands in its result.
        """
        from karenina_engine.scheduling.blocking import run_blocking

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
    ) -> VerificationResultSet:
        """`run_verification` for programs that have an event loop already."""
        from karenina_core.config import VerificationConfig
        from karenina_engine.execution import collect
        from karenina_engine.journal.request import RunRequest
        from karenina_engine.scheduling.prepare import open_run

        chosen = config if isinstance(config, VerificationConfig) else VerificationConfig(**config)
        request = RunRequest(
            self,
            chosen,
            question_ids=None if question_ids is None else list(question_ids),
            trust=trust,
            output=Path(output) if output is not None else None,
            journal=Path(journal) if journal is not None else None,
            replay=replay,
            policy=policy,
            columns=self.columns,
        )
        with open_run(request) as run:
            return await collect(run, output=request.output, on_result=on_result)

    def rescore(
        self,
        journal: str | Path,
        config: VerificationConfig | Mapping[str, Any],
        *,
        trust: Trust | Literal["all"] | None = None,
        output: str | Path | None = None,
        ask: bool = False,
    ) -> Rescored:
        """Score the last run in `journal` again, as this benchmark and `config` say now, without a call of a model.

        For truths, tolerances, weights, patterns, primitives, compositions and `verify()` that changed since; see
        `karenina_engine.offline.rescoring.rescore`. `config` names the models of the run.
        """
        from karenina_core.config import VerificationConfig
        from karenina_engine.offline.rescoring import rescore

        chosen = config if isinstance(config, VerificationConfig) else VerificationConfig(**config)
        return rescore(journal, self, chosen, trust=trust, output=output, ask=ask)
