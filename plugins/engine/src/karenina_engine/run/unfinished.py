"""The questions that still have to run (`--skip-done`)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.data.result import ItemId
from karenina_core.text import compose
from karenina_engine.check.questions import files_of
from karenina_engine.run.matrix import judges_of
from karenina_engine.run.plugin_offers import configured_panel
from karenina_toolkit.files_in_results import Files, differ, files_in_result, files_of_question
from karenina_toolkit.plugin_lookup import plugins_of
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_engine.question_source import QuestionSource

logger = logging.getLogger("karenina")


def unfinished_ids(
    benchmark: QuestionSource, ids: Sequence[str], config: VerificationConfig, files: Sequence[Path]
) -> list[str]:
    """Return the ids of questions with at least one item that has no judged or undecided result in `files`. A result
    counts only if the question's text and attachments are unchanged. Raises `ResultFileError` if a file cannot be read,
    and logs a warning if results are ignored or a file has none for this run.
    """
    from karenina_engine.results.result_set import read_results

    judges = _judge_ids(config)
    items = _items_by_question(ids, config, judges)
    requested = {item for of_question in items.values() for item in of_question}
    done: set[ItemId] = set()
    for file in files:
        read = _ReadResults(file, benchmark, judges != [None])
        for result in read_results(file):
            read.add(result)
        read.warn(requested)
        done |= read.judged
    return [id for id in ids if not items[id] or not items[id] <= done]


def _judge_ids(config: VerificationConfig) -> list[str | None]:
    """Return the ids of the run's judges. If there are none, return a single None."""
    models = judges_of(config, configured_panel(plugins_of(config), config))
    return [model.id if model is not None else None for model in models]


def _items_by_question(
    ids: Sequence[str], config: VerificationConfig, judges: Sequence[str | None]
) -> Mapping[str, Set[ItemId]]:
    """Return the keys that identify the run's items, by question id."""
    core = config.core
    return {
        id: {
            ItemId.of(id, model.id, judge, replicate)
            for model in core.answering_models
            for judge in judges
            for replicate in range(1, core.replicate_count + 1)
        }
        for id in ids
    }


@dataclass
class _ReadResults:
    """The items that have results in a file.

    Unless `has_judges` is set, the judges in results are ignored.
    """

    file: Path
    benchmark: QuestionSource
    has_judges: bool
    judged: set[ItemId] = field(default_factory=set)
    known: set[ItemId] = field(default_factory=set)
    changed: Counter[str] = field(default_factory=Counter)
    changed_files: Counter[str] = field(default_factory=Counter)
    strange: Counter[str] = field(default_factory=Counter)
    models: dict[str, None] = field(default_factory=dict)
    _files: dict[str, Files] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._attached = files_of(self.benchmark)

    def add(self, result: VerificationResult) -> None:
        """Record the item of a result, as done if it was judged or undecided. Results for unknown or changed questions
        are only counted.
        """
        meta, id = result.metadata, result.question_id
        if id not in self.benchmark:
            self.strange[id] += 1
            return
        id = self.benchmark.get(id).id
        if compose(meta.question_text) != compose(self.benchmark.get(id).question):
            self.changed[id] += 1
            return
        sent = files_in_result(result)
        if sent and differ(sent, self._files_of(id)):
            self.changed_files[id] += 1
            return
        self.models[_model_names(meta.answering_id, meta.parsing_id)] = None
        item = ItemId.of(id, meta.answering_id, meta.parsing_id if self.has_judges else None, meta.replicate)
        self.known.add(item)
        if result.outcome.group != "not_judged":  # running the item again would not help if it is judged or undecided
            self.judged.add(item)

    def _files_of(self, id: str) -> Files:
        """Return the digests of a question's files."""
        if id not in self._files:
            self._files[id] = files_of_question(self._attached.resolve(self.benchmark.get(id)))
        return self._files[id]

    def warn(self, wanted: Set[ItemId]) -> None:
        """Log a warning if the results do not match the run. `wanted` contains the run's items."""
        for changed, what in ((self.changed, "text"), (self.changed_files, "attachments")):
            if changed:
                logger.warning(
                    "--skip-done %s: the %s of %s changed since the earlier run (the first is %r); questions with "
                    "changed %s run again",
                    *(self.file, what, quantity(len(changed), "question"), in_one_line(next(iter(changed))), what),
                )
        if self.strange and not self.changed and not self.changed_files and not self.known:
            first = in_one_line(next(iter(self.strange)))
            logger.warning(
                "--skip-done %s skips nothing because its questions (the first is %r) are not in this benchmark; use "
                "the results of an earlier run of the same benchmark",
                *(self.file, first),
            )
        if self.known and not self.known & wanted:
            same_models = {item[1:3] for item in self.known} & {item[1:3] for item in wanted}
            contents = "other questions or replicates" if same_models else "; ".join(self.models)
            own = sorted({_model_names(item.answering, item.judge if self.has_judges else None) for item in wanted})
            logger.warning(
                "--skip-done %s skips nothing because its results are for %s, but this run is for %s; use the "
                "results of a run with the same questions and replicates, and the same ids of models and judges",
                *(self.file, in_one_line(contents), in_one_line("; ".join(own))),
            )


def _model_names(model: str, judge: str | None) -> str:
    """Return the id of an answering model and, if there is one, of its judge, as text."""
    return f"{model}, judged by {judge}" if judge is not None else model
