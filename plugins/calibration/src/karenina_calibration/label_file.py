"""The label file, in JSON Lines format next to the results, with the draw and the labels."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from karenina_calibration.answers import SCORED, Kind, collect_answers
from karenina_calibration.draw import FORMAT, Draw
from karenina_calibration.label_paths import find_labels_file
from karenina_core.errors import ConfigError
from karenina_engine.journal.view import find_journal
from karenina_engine.results.result_file import read_header
from karenina_report.runs import journal_results
from karenina_toolkit.files import FileError, read_records

if TYPE_CHECKING:
    from karenina_calibration.answers import Answers, Extraction

_REDRAW: Final = "draw again with `karenina label RESULTS --redraw`, which reuses the labels of unchanged answers"


class ExtractionLabel(BaseModel, defer_build=True):
    """Whether an extracted value is what the answer says. `right` is None if this is unclear.

    `own` is the value, as JSON, that the labeller would extract. It overrides `right`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    name: str
    value: str = Field(description="The judge's value as JSON text.")
    right: bool | None = None
    own: str | None = None


class Label(BaseModel, defer_build=True):
    """One person's label for one answer. `right` is None if the person was unsure or was not asked."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    item: str
    labeller: str
    time: str = Field(description="The time of the label, in ISO 8601 format and UTC.")
    right: bool | None = None
    extractions: tuple[ExtractionLabel, ...] = ()
    blind: bool = Field(default=True, description="Whether the verdict was hidden.")
    note: str = ""
    truth: str = Field(
        default="", description="The id of the ground truth that the labeller saw; empty if it was not recorded."
    )

    def extraction(self, wanted: Extraction) -> ExtractionLabel | None:
        """Return this person's label for an extracted value, or None if there is none. A value that the labeller
        entered (`own`) also decides whether other judges' values are right.
        """
        same = [
            extraction
            for extraction in self.extractions
            if (extraction.kind, extraction.name) == (wanted.kind, wanted.name)
        ]
        for label in same:
            if label.own is not None:
                right = label.own == wanted.value
                return ExtractionLabel(
                    kind=wanted.kind, name=wanted.name, value=wanted.value, right=right, own=label.own
                )
        return next((label for label in same if label.value == wanted.value), None)

    def with_extractions_of(self, earlier: Label) -> Label:
        """Return a copy with those extraction labels of an earlier label by the same person that this label does not
        replace: it replaces labels for the same value and, if they contain the labeller's own value, for the same field
        or trait.
        """
        own = {(extraction.kind, extraction.name, extraction.value) for extraction in self.extractions}
        names = {(kind, name) for kind, name, _ in own}
        extractions = [
            extraction
            for extraction in earlier.extractions
            if (extraction.kind, extraction.name, extraction.value) not in own
            and (extraction.own is None or (extraction.kind, extraction.name) not in names)
        ]
        return self.model_copy(update={"extractions": (*self.extractions, *extractions)}) if extractions else self


@dataclass(slots=True)
class Labels:
    """The contents of label files: the last draw, and each labeller's last label for each answer."""

    draw: Draw | None = None
    by_item: dict[str, dict[str, Label]] = field(default_factory=dict)
    place: str = ""
    """The file and line of the draw."""
    places: dict[str, str] = field(default_factory=dict)
    """The file and line of the first label for each answer."""
    given: dict[tuple[str, str], list[Label]] = field(default_factory=dict)
    """All of a labeller's labels for an answer, in order."""
    stale: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of an answer and a labeller whose label is for a different ground truth than the current one."""
    other_draws: list[str] = field(default_factory=list)
    """The files whose draw is ignored because a later file has a different draw."""

    def add(self, label: Label, place: str = "") -> None:
        """Add a label. It replaces an earlier label by the same labeller. `place` is the file and line of the label."""
        self.by_item.setdefault(label.item, {})[label.labeller] = label
        self.places.setdefault(label.item, place)
        self.given.setdefault((label.item, label.labeller), []).append(label)

    def match_truths(self, answers: Answers, drawn_from: Answers) -> None:
        """Change `by_item` so that each labeller's label for an answer is the last one for the current ground truth. If
        there is none, only extraction labels are kept, and the label is added to `stale`. Labels without a recorded
        ground truth count as labels for the ground truth in `drawn_from`.

        A label for a different ground truth does not tell whether the answer is right.
        """
        self.stale.clear()
        for (item, labeller), labels in self.given.items():
            answer = answers.by_id.get(item)
            if answer is None or answer.verdicts == SCORED:
                continue
            before = drawn_from.by_id[item].truth_id
            fitting = [label for label in labels if (label.truth or before) == answer.truth_id]
            if fitting:
                self.by_item[item][labeller] = fitting[-1]
            else:
                self.by_item[item][labeller] = labels[-1].model_copy(update={"right": None})
                self.stale.add((item, labeller))

    def check(self, answers: Answers) -> None:
        """Raise `ConfigError` if the draw or a label is for other answers. The message names the line."""
        problem = self.draw.find_problem(answers) if self.draw is not None else None
        if problem is not None:
            raise ConfigError([f"cannot use the draw in {self.place}: {problem}; {_REDRAW}"])
        for item in self.by_item:
            if item not in answers.by_id:
                what = f"the label is for the answer {item!r:.80}, which the results do not contain"
                raise ConfigError([f"{self.places[item] or 'the labels'}: {what}; remove the line"])

    def __iter__(self) -> Iterator[Label]:
        return (label for by_labeller in self.by_item.values() for label in by_labeller.values())

    @property
    def labellers(self) -> list[str]:
        """The names of the labellers, sorted."""
        return sorted({label.labeller for label in self})

    @property
    def known_items(self) -> set[str]:
        """The IDs of the answers with a label for their current ground truth."""
        return {
            item
            for item, by_labeller in self.by_item.items()
            if any((item, labeller) not in self.stale for labeller in by_labeller)
        }

    def missing(self, labeller: str) -> list[str]:
        """Return the IDs of drawn answers that the given labeller has yet to label, in the order of the draw. Labels
        for a different ground truth do not count.
        """
        items = self.draw.items if self.draw is not None else ()
        return [
            item.item
            for item in items
            if labeller not in self.by_item.get(item.item, {}) or (item.item, labeller) in self.stale
        ]


def label_command(command: str, results: str | Path, file: Path | None, *more: str) -> str:
    """Return a command for labelling or calibrating results, for pasting into a shell. The label file is only included
    if it is not the default one. `more` contains further arguments.
    """
    words = ["karenina", command, str(results), *more]
    if file is not None and file != find_labels_file(Path(results)):
        words += [str(file)] if command == "calibrate" else ["--labels", str(file)]
    return shlex.join(words)


def check_labels(labels: Labels, answers: Answers, file: Path, source: str | Path | None = None) -> Answers:
    """Match labels with their answers, and return the answers from which the draw was made. Labels for other ground
    truths are removed from `labels`, except for their extraction labels. If `source` contains rescored results,
    `drawn_as` in `answers` is set to the verdicts of the original run. Raises `ConfigError` if a label or the draw is
    for other answers.

    Labels depend on an answer's ground truth, not on its score. The original run is in the journal next to the results.
    """
    before = _answers_before(answers, labels.draw, source) if labels.draw is not None else None
    if labels.draw is not None and before is None:
        check_draw(labels.draw, answers, file)
    labels.check(before or answers)
    labels.match_truths(answers, before or answers)
    return before or answers


def _answers_before(answers: Answers, draw: Draw, source: str | Path | None) -> Answers | None:
    """Read the answers as they were before the run was rescored, and set `drawn_as` in `answers`. Returns None, without
    setting anything, if the run was not rescored, or if the draw was not made from those answers.
    """
    rescored = source is not None and read_header(Path(source)).get("rescored")
    journal = find_journal(Path(source)) if source is not None and rescored else None
    if journal is None:
        return None
    before = collect_answers(journal_results(journal))
    if draw.digest != before.digest() or not answers.by_id.keys() <= before.by_id.keys():
        return None
    for id, answer in answers.by_id.items():
        answer.drawn_as = before.by_id[id].verdicts
    return before


def read_labels(files: Iterable[Path], *, with_draws: bool = True) -> Labels:
    """Read label files. If several contain a draw, only the last draw is used. Unless `with_draws` is set, draws are
    skipped and may be unreadable. Raises `ConfigError`, with the line, if a file cannot be read or contains anything
    other than draws and labels.
    """
    labels = Labels()
    last: Path | None = None
    for file in files:
        before, drawn = labels.draw, False
        for kind, value, place in _read_lines(file):
            if kind == "draw" and not with_draws:
                continue
            if kind == "draw":
                labels.draw, labels.place, drawn = _parse_draw(value, place), place, True
            else:
                labels.add(value, place)
        if drawn:
            if last is not None and labels.draw != before:
                labels.other_draws.append(str(last))
            last = file
    return labels


def _read_lines(file: Path) -> Iterator[tuple[str, Any, str]]:
    """Yield the kind, value and location of each line. The value is either the JSON of a draw or a label. Raises
    `ConfigError` if the file cannot be read or if a line is something else. The message names the line.
    """
    try:
        records = list(read_records(file, suffix=".jsonl", keep_problems=True))
    except FileError as error:
        raise ConfigError([f"cannot read the labels in {error.path}: {error.what}; {error.cure}"]) from error
    for record in records:
        place = str(record)
        if record.problem is not None:
            raise ConfigError([f"{place} is not a label: {record.problem.what}; remove the line"]) from record.problem
        value = record.value
        kind = next(iter(value), None) if isinstance(value, dict) and len(value) == 1 else None
        if kind == "draw":
            yield kind, value[kind], place
        elif kind == "label":
            try:
                yield kind, Label.model_validate(value[kind]), place
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(map(str, first["loc"]))
                raise ConfigError(
                    [f"{place} is not a valid label ({where}: {first['msg']}); remove the line"]
                ) from error
        else:
            raise ConfigError(
                [f"{place} is neither a draw nor a label; pass a file written by `karenina label` or its page"]
            )


def _parse_draw(value: Any, place: str) -> Draw:
    """Return a draw from its JSON form. Raises `ConfigError` if it is malformed or was written by another version."""
    if isinstance(value, dict) and value.get("format") != FORMAT:
        raise ConfigError([f"the draw in {place} was written by a different version; use that version to read it"])
    try:
        return Draw.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = ": ".join(filter(None, (where, first["msg"].removeprefix("Value error, "))))
        raise ConfigError([f"cannot read the draw in {place}: {what}; {_REDRAW}"]) from error


def append_draw(file: Path, draw: Draw) -> None:
    """Append a draw to a file, creating the file if necessary. Raises `ConfigError` if this fails."""
    _append(file, [f'{{"draw":{draw.model_dump_json()}}}'])


def append_labels(file: Path, labels: Sequence[Label]) -> None:
    """Append labels to a file, creating the file if necessary. Raises `ConfigError` if this fails."""
    _append(file, [label_line(label) for label in labels])


def label_line(label: Label) -> str:
    """Return a label as a line of JSON, without a line break."""
    return f'{{"label":{label.model_dump_json(exclude_defaults=True)}}}'


def _append(file: Path, lines: Sequence[str]) -> None:
    """Append lines to a file, which is created if necessary, in a single write, so that several labellers can use the
    file. Raises `ConfigError` if this fails, and then adds no part of the lines.
    """
    data = "".join(f"{line}\n" for line in lines).encode()
    written = 0
    try:
        handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        before = os.fstat(handle).st_size
        try:
            while written < len(data):  # if the disk is nearly full, a part is written without an error
                written += os.write(handle, data[written:])
        except OSError:
            if os.fstat(handle).st_size == before + written:  # no other process has added to it
                os.ftruncate(handle, before)
            raise
        finally:
            os.close(handle)
    except OSError as error:
        raise ConfigError([f"cannot write the label file {file}: {error.strerror or error}"]) from error


def check_draw(draw: Draw, answers: Answers, file: Path) -> None:
    """Raise `ConfigError` if the draw was made from other results, so that its strata do not apply."""
    if draw.digest != answers.digest():
        raise ConfigError(
            [
                f"the draw in {file} was made from other results, or the results ({draw.results}) have changed "
                f"since the draw; {_REDRAW}. To correct results with the labels of another run, use `karenina "
                "calibrate RESULTS --quality-from OTHER`"
            ]
        )
