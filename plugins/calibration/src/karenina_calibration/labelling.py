"""Opening and extending the draw and the labels of a result file."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_calibration.answers import SCORED, Answers, AskedAnswer, collect_answers, truth_text
from karenina_calibration.draw import describe_verdicts, draw_answers
from karenina_calibration.label_file import (
    Labels,
    append_draw,
    append_labels,
    check_labels,
    read_labels,
)
from karenina_calibration.sheets import SUFFIXES, read_sheet
from karenina_core.errors import ConfigError
from karenina_engine.results.result_file import free_name
from karenina_report.runs import iterate_results

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer
    from karenina_calibration.draw import Draw
    from karenina_calibration.label_file import Label

LABELS: Final = 60
"""The default number of answers to draw."""


def now() -> str:
    """Return the current UTC time in ISO 8601 format."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(slots=True)
class Labelling:
    """The answers in a result file, with their draw and labels. The draw and labels are stored in `file`.

    `is_new_draw` is True until the draw has been written. `drawn_from` contains the answers at the time of the draw,
    before the run was scored again.
    """

    file: Path
    answers: Answers
    draw: Draw
    labels: Labels
    is_new_draw: bool
    drawn_from: Answers

    @classmethod
    def open(
        cls,
        results: Path,
        file: Path,
        *,
        count: int | None = None,
        seed: int | None = None,
        simple: bool = False,
        redraw: bool = False,
    ) -> Labelling:
        """Open the labelling of results, with the draw in the label file or, if it has none or `redraw` is set, a new
        one, which is not written until `save_draw`. A new draw has `count` answers (60 if None) and the given `seed`
        (random if None), and ignores verdicts if `simple` is set; a `count` larger than an existing draw extends it.
        Raises `ConfigError` if the existing draw has a different `seed`, or is not `simple` although that is set.

        With `redraw`, the label file is ignored. Raises `ConfigError` too if the label file cannot be read or belongs
        to other results, or if there are no answers.
        """
        answers = collect_answers(iterate_results(results))
        labels = read_labels([file]) if file.exists() and not redraw else Labels()
        before = labels.draw
        drawn_from = check_labels(labels, answers, file, results)
        if before is not None and ((seed is not None and seed != before.seed) or simple > before.simple):
            kind = "a simple random draw" if before.simple else "a draw by verdict"
            raise ConfigError(
                [
                    f"{file} contains {kind} with seed {before.seed}; to make a different draw, choose another "
                    "file with --labels"
                ]
            )
        if before is None or (count or 0) > len(before.items):
            drawn = draw_answers(
                drawn_from,
                count or LABELS,
                before.seed if before is not None else seed if seed is not None else secrets.randbelow(2**31),
                results=results.name,
                made=now(),
                simple=before.simple if before is not None else simple,
                before=before,
            )
            labels.draw = drawn
        assert labels.draw is not None
        return cls(file, answers, labels.draw, labels, labels.draw is not before, drawn_from)

    def save_draw(self) -> None:
        """Write the draw to the file if it is new. Raises `ConfigError` if this fails."""
        if self.is_new_draw:
            append_draw(self.file, self.draw)
            self.is_new_draw = False

    def add(self, labels: Sequence[Label]) -> None:
        """Append labels to the file, and add them here. Raises `ConfigError` if the file cannot be written."""
        if labels:
            append_labels(self.file, labels)
        for label in labels:
            self.labels.add(label)
        self.labels.match_truths(self.answers, self.drawn_from)

    def drawn(self, items: Sequence[str]) -> list[Answer]:
        """Return the answers with the given ids, in the same order."""
        return [self.answers.by_id[item] for item in items]

    def asked_in_file(self, labeller: str | None) -> list[str]:
        """Return the IDs of the drawn answers that a sheet or page should contain: those that `labeller` has not
        labelled for their current ground truth. If `labeller` is None, they are all drawn answers or, if a ground truth
        has changed, only those with a stale label or no label.
        """
        drawn = [item.item for item in self.draw.items]
        if labeller is not None:
            return self.labels.missing(labeller)
        stale = {item for item, _ in self.labels.stale}
        return [item for item in drawn if item in stale or item not in self.labels.by_item] if stale else drawn

    def ask(self, items: Sequence[str], labeller: str | None) -> list[AskedAnswer]:
        """Return the answers with the given IDs, each with the extracted values to ask `labeller` about.

        If `labeller` is None, anybody may be asked. Labels for extracted values do not depend on the ground truth, so
        they remain valid if it changes.
        """
        return [self._ask(answer, labeller) for answer in self.drawn(items)]

    def _ask(self, answer: Answer, labeller: str | None) -> AskedAnswer:
        """Return an answer with the values to ask about. If its label by `labeller` (by anyone if None) is stale, the
        answer has a reason for being shown again and only the values that have no label yet.
        """
        people = sorted(name for item, name in self.labels.stale if item == answer.id and labeller in (None, name))
        if not people:
            return AskedAnswer(answer, answer.extractions)
        labels = [self.labels.by_item[answer.id][name] for name in people]
        left = [
            extraction
            for extraction in answer.extractions
            if any(label.extraction(extraction) is None for label in labels)
        ]
        before = self.drawn_from.by_id[answer.id]
        was = f"; the earlier ground truth was {truth_text(before)}" if before.truth_id != answer.truth_id else ""
        return AskedAnswer(
            answer, left, f"the ground truth has changed since {', '.join(people)} labelled the answer{was}"
        )

    def read(self, path: Path, labeller: str) -> tuple[list[Label], int]:
        """Read the labels in a sheet (a `.csv` or `.xlsx` file) or in another label file, and return them, without
        adding them, with the number of labels left out because their answers are not in the results. In a sheet, rows
        without a name belong to `labeller`, and empty cells are filled from that person's earlier label. Raises
        `ConfigError` if the file cannot be read or if a label is malformed.
        """
        if path.suffix.lower() in SUFFIXES:
            labels, strange = read_sheet(path, self.answers, labeller=labeller, time=now(), earlier=self.labels)
            return labels, len(strange)
        given = read_labels([path], with_draws=False).given
        everything = list(
            {(one.item, one.labeller, one.truth): one for ones in given.values() for one in ones}.values()
        )
        labels = [label for label in everything if label.item in self.answers.by_id]
        return labels, len(everything) - len(labels)

    def take_over(self, labels: Sequence[Label]) -> None:
        """Append labels that are not in the file yet, together with the labeller's earlier extraction labels. Raises
        `ConfigError` if the file cannot be written.
        """
        new = []
        for label in labels:
            before = self.labels.by_item.get(label.item, {}).get(label.labeller)
            whole = label.with_extractions_of(before) if before is not None else label
            saved = self.labels.given.get((label.item, label.labeller), ())
            new += [whole] if label not in saved and whole not in saved else []
        self.add(new)

    def stale(self) -> list[Answer]:
        """Return the answers that have a label for a different ground truth, in the order of the results."""
        items = {item for item, _ in self.labels.stale}
        return [answer for answer in self.answers.by_id.values() if answer.id in items]


def move_away(file: Path) -> Path | None:
    """Rename a label file, and return its new name, or None if the file does not exist. Raises `ConfigError` if it
    cannot be renamed.
    """
    if not file.exists():
        return None
    moved = free_name(file)
    try:
        file.rename(moved)
    except OSError as error:
        raise ConfigError([f"cannot rename the label file {file}: {error.strerror or error}"]) from error
    return moved


def describe_draw(draw: Draw) -> list[str]:
    """Return a line of text for each stratum in a draw."""
    lines = []
    models = {stratum.model for stratum in draw.strata}
    for stratum in draw.strata:
        own = [other for other in draw.strata if other.model == stratum.model]
        of = f" of {stratum.model}" if len(models) > 1 else ""
        verdicts = describe_verdicts(stratum.verdicts, alone=len(own) == 1)
        lines.append(f"{stratum.drawn:,} of {stratum.size:,} answers{of}: {verdicts}")
    return lines


def asks_verdict(answer: Answer) -> bool:
    """Return whether to ask if the answer itself is right. This is pointless if the answer only has trait scores."""
    return answer.verdicts != SCORED
