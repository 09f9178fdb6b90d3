"""`--skip-done`: the questions whose items all have a judged or undecided result in result files."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.data.result import ItemId
from karenina_core.text import compose
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_engine.question_source import QuestionSource

logger = logging.getLogger("karenina")


def unfinished_ids(
    benchmark: QuestionSource, ids: Sequence[str], config: VerificationConfig, files: Sequence[Path]
) -> list[str]:
    """Return the ids of questions for which at least one item has no judged or undecided result in `files`.

    Results of questions whose text has changed count as missing. Logs a warning about such questions, and about a file
    that has no result of this run. Raises `ResultFileError`.
    """
    from karenina_engine.results.result_set import read_results

    judges = _judges(config)
    items = _items(ids, config, judges)
    wanted = {item for of_question in items.values() for item in of_question}
    done: set[ItemId] = set()
    for file in files:
        read = _ReadResults(file, benchmark, judges != [None])
        for result in read_results(file):
            read.add(result)
        read.warn(wanted)
        done |= read.judged
    return [id for id in ids if not items[id] or not items[id] <= done]


def _judges(config: VerificationConfig) -> list[str | None]:
    """Return the ids of the run's judges, or a single None if it has none."""
    from karenina_core.config import plugins_of
    from karenina_engine.run.matrix import judges_of
    from karenina_engine.run.plugin_offers import configured_panel

    models = judges_of(config, configured_panel(plugins_of(config), config))
    return [model.id if model is not None else None for model in models]


def _items(ids: Sequence[str], config: VerificationConfig, judges: Sequence[str | None]) -> Mapping[str, Set[ItemId]]:
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
    """The items that have results in one file. If the run has no judges, the judge of a result is ignored."""

    file: Path
    benchmark: QuestionSource
    has_judges: bool
    judged: set[ItemId] = field(default_factory=set)
    known: set[ItemId] = field(default_factory=set)
    changed: Counter[str] = field(default_factory=Counter)
    strange: Counter[str] = field(default_factory=Counter)
    models: dict[str, None] = field(default_factory=dict)

    def add(self, result: VerificationResult) -> None:
        """Count a result."""
        meta, id = result.metadata, result.question_id
        if id not in self.benchmark:
            self.strange[id] += 1
            return
        id = self.benchmark.get(id).id
        if compose(meta.question_text) != compose(self.benchmark.get(id).question):
            self.changed[id] += 1
            return
        self.models[_models(meta.answering_id, meta.parsing_id)] = None
        item = ItemId.of(id, meta.answering_id, meta.parsing_id if self.has_judges else None, meta.replicate)
        self.known.add(item)
        if result.outcome.group != "not_judged":  # running the item again would not help if it is judged or undecided
            self.judged.add(item)

    def warn(self, wanted: Set[ItemId]) -> None:
        """Log a warning if the results do not fit the run, whose items are `wanted`."""
        if self.changed:
            first = in_one_line(next(iter(self.changed)))
            logger.warning(
                "--skip-done %s: the text of %s has changed since (the first is %r), so they run again",
                *(self.file, quantity(len(self.changed), "question"), first),
            )
        elif self.strange and not self.known:
            first = in_one_line(next(iter(self.strange)))
            logger.warning(
                "--skip-done %s skips nothing: its questions (the first is %r) are not in this benchmark; give the "
                "results of an earlier run of the same benchmark",
                *(self.file, first),
            )
        if self.known and not self.known & wanted:
            same_models = {item[1:3] for item in self.known} & {item[1:3] for item in wanted}
            found = "other questions or replicates" if same_models else "; ".join(self.models)
            own = sorted({_models(item.answering, item.judge if self.has_judges else None) for item in wanted})
            logger.warning(
                "--skip-done %s skips nothing: it has results of %s, but this run is of %s; give the results of a run "
                "with the same questions and replicates, and the same ids of models and judges",
                *(self.file, in_one_line(found), in_one_line("; ".join(own))),
            )


def _models(model: str, judge: str | None) -> str:
    return f"{model}, judged by {judge}" if judge is not None else model
