"""The request for a run, and the command that the journal stores for the run."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from karenina_engine.journal.command import digest_content, digest_trusted_content, digest_values, dump_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.question_source import QuestionCheck, QuestionSource


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to prepare: its questions, how to answer and judge them, and where to store the results.

    `question_ids` selects questions. None selects all questions except drafts. `trust` determines which of the
    benchmark's code and restricted values may take effect: None stands for those that the user has trusted, and `"all"`
    for all of them. Results are written to the JSONL file `output`. `journal` is the file for replies and results. If
    `replay` is set, all replies come from the journal. If `fresh` is set, an existing journal is renamed first.
    `config_file` is the user's file from which the configuration was read. `skip_broken` records that unreadable
    questions in the benchmark's file were skipped, and `columns` records how the columns of a table were mapped.
    `observers` are objects that implement the hooks of a run. They are only called for this run. If the run cannot be
    prepared, the errors found by `question_check` are raised instead of any other problem.
    """

    benchmark: QuestionSource
    config: VerificationConfig
    _: KW_ONLY
    question_ids: Sequence[str] | None = None
    trust: Trust | Literal["all"] | None = None
    output: Path | None = None
    journal: Path | None = None
    replay: bool = False
    fresh: bool = False
    policy: RetryPolicy | None = None
    config_file: Path | None = None
    skip_broken: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)
    observers: Sequence[object] = ()
    question_check: QuestionCheck | None = None


def make_command(request: RunRequest) -> dict[str, Any]:
    """Return a run's command as JSON-compatible data without secrets. It includes digests of the benchmark, so that
    commands are only equal if they ask for the same results.
    """
    benchmark, config_file, output = request.benchmark, request.config_file, request.output
    chosen = list(request.question_ids) if request.question_ids is not None else None
    trusts_all = request.trust is not None and (request.trust == "all" or request.trust.everything)
    chooses_all = chosen == list(benchmark.ids) and not benchmark.unfinished_ids()  # drafts run only if named
    return {
        "folder": str(Path.cwd()),
        "benchmark": str(benchmark.path.absolute()) if benchmark.path is not None else None,
        "columns": dict(request.columns),
        "content": digest_content(benchmark),
        "config_file": str(config_file.absolute()) if config_file is not None else None,
        "config": dump_config(request.config),
        "questions": None if chooses_all else chosen,
        "output": str(output.absolute()) if output is not None else None,
        "trust_all": trusts_all,
        "trusted": digest_trusted_content(benchmark) if trusts_all else None,
        "benchmark_config": digest_values(benchmark.run_config),
        "skip_broken": request.skip_broken,
    }
