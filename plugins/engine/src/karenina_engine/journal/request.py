"""The request of a run, in one value."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.journal.question_source import QuestionSource


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A run to prepare: the questions, how they are answered and judged, and where replies and results are stored.

    `question_ids` selects questions (None: all). `trust` says which code and which restricted values of the benchmark
    may take effect: those that the user has trusted (None), or `"all"`. `output` is a JSONL file for the results,
    `journal` the file of replies and results; with `replay` all replies come from the journal, and with `fresh` an
    earlier journal is renamed. `config_file` is the user's file from which the configuration was read. `skip_broken`
    says that questions of the benchmark's file that cannot be read were left out, and `columns` how the columns of a
    table were mapped. `observers` are objects with hooks of a run, which are called for this run only.
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
