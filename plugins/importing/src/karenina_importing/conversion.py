"""Converts the rows of other tools to questions and recorded answers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.errors import explain_error
from karenina_benchmark.question_ids import make_question_id
from karenina_benchmark.tables.answer_kinds import Cell, is_error_cell, is_prose
from karenina_benchmark.tables.column_roles import TRUTH
from karenina_benchmark.tables.lettered_options import Options, join_options, letter_of_label, mix_options, read_options
from karenina_benchmark.tables.message_texts import NotText, as_text, as_texts, is_conversation
from karenina_benchmark.tables.question_rows import first_part
from karenina_benchmark.template_declarations import DeclarationError, make_template_source
from karenina_core.data.question import Question
from karenina_core.errors import ConfigError
from karenina_importing.answer_fields import (
    AGREES,
    EXPRESSION,
    NoAnswer,
    declare_answer,
    declare_by_kind,
    declare_graded,
    extract,
    fill_declared,
    show_truths,
)
from karenina_importing.field_mapping import AUTO, GRADED, FieldMapping, as_response, find_first, look_up
from karenina_importing.source_files import SizeLimit, SourceRow
from karenina_importing.verdicts import make_label, settle_scales
from karenina_toolkit.files.bounded_files import max_file_bytes, size_limit_cure
from karenina_toolkit.files.json_values import find_problem
from karenina_toolkit.printable import quantity
from karenina_toolkit.replies.reply_ends import read_end

_MOST_KEYS: Final = 100
_BYTES_PER_ROW: Final = 100
"""The file size limit divided by this is the maximum number of rows, which is a million by default."""
_MIN_ROW_LIMIT: Final = 20_000
_EARLY_ENDS: Final = ("length", "content_filter", "failed")
_FIRST_ROWS: Final = 1000
"""The number of rows whose values are used to choose columns."""
ChooseMapping = Callable[[Sequence[SourceRow], FieldMapping], tuple[FieldMapping, list[str]]]
"""A function that completes a mapping with the first rows of a source. It also returns notes for the user."""


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A row that could not be converted or has no recording, with its place and the reason.

    `of_source` states that the reason is the row itself, which no mapping changes.
    """

    place: str
    what: str
    of_source: bool = False


@dataclass
class Imported:
    """The questions and recordings made from the rows of a source.

    `questions` maps question IDs to the keys of a question in a YAML benchmark, and `origins` maps them to their first
    row. `recordings` contains the lines of a file for `karenina run --recordings`. `labels` contains people's verdicts
    on the recordings, each with the recording's `id`, `replicate` and `model`. `files` are the contents of attachments,
    by path relative to the benchmark. `problems` lists rows that could not be
    converted, and `unanswered` lists rows that became a question without a recording. `repeats` counts the rows that
    repeat an earlier question, and `left_out` counts the unused parts of the source by type. `notes` contains messages
    for the user.
    """

    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    origins: dict[str, SourceRow] = field(default_factory=dict)
    recordings: list[dict[str, Any]] = field(default_factory=list)
    labels: list[dict[str, Any]] = field(default_factory=list)
    problems: list[RowProblem] = field(default_factory=list)
    unanswered: list[RowProblem] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    rows: int = 0
    repeats: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    notes: dict[str, None] = field(default_factory=dict)
    mapping: FieldMapping = field(default_factory=lambda: FieldMapping({}))
    """The mapping that was used."""
    found: set[str] = field(default_factory=set)
    """The mapped names that have a value in at least one row."""
    keys: dict[str, None] = field(default_factory=dict)
    """The keys of the rows. Keys of nested objects are written with a dot."""

    @property
    def models(self) -> list[str]:
        """The models that gave the recorded answers, in the order of their first answer."""
        return list(dict.fromkeys(recording["model"] for recording in self.recordings if "model" in recording))

    @property
    def unchecked(self) -> int:
        """The number of questions that have neither a template nor traits."""
        return sum("answer" not in question and "rubric" not in question for question in self.questions.values())

    @property
    def config(self) -> dict[str, Any]:
        """The settings for a run that scores traits, or an empty dict if there are no traits."""
        if not any("rubric" in question for question in self.questions.values()):
            return {}
        has_templates = any("answer" in question for question in self.questions.values())
        return {"evaluation_mode": "template_and_rubric" if has_templates else "rubric_only"}


_Recorded = tuple[Any, str | None, int | None, Mapping[str, Any] | None, str | None]
"""A response with its model, its replicate, the label that a person gave it, and the reason why it ended early."""


class _RowError(ValueError):
    """Raised if a row cannot be converted."""


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """Convert a `NotText` raised in the block to a `_RowError` that contains `name`."""
    try:
        yield
    except NotText as error:
        raise _RowError(f"{name}: {error}") from error


@dataclass
class _Converter:
    """Converts rows and collects the results in `imported`."""

    mapping: FieldMapping
    imported: Imported = field(default_factory=Imported)
    ids_by_text: dict[str, str] = field(default_factory=dict)
    found: dict[str, tuple[Cell, Options]] = field(default_factory=dict)
    """The correct answers and options of questions that are declared together, by question ID."""
    replicates: dict[tuple[str, str | None], set[int]] = field(default_factory=dict)
    """The recorded replicates, keyed by question and model."""
    question_size: SizeLimit = field(default_factory=SizeLimit)
    recording_size: SizeLimit = field(default_factory=SizeLimit)

    def add(self, row: SourceRow) -> None:
        """Add the question and the recordings in a row, or a problem if the row cannot be converted. A question without
        a recording is added to `unanswered`. Raises `ConfigError` if there are too many rows.
        """
        done = self.imported
        done.rows += 1
        if done.rows * _BYTES_PER_ROW > max_file_bytes() and done.rows > _MIN_ROW_LIMIT:
            cure = f"import fewer rows with --limit, or {size_limit_cure(max_file_bytes())}"
            raise ConfigError([f"{row.place}: the source has more than {done.rows - 1:,} rows; {cure}"])
        done.notes.update(dict.fromkeys(row.notes))
        if row.problem:
            done.problems.append(RowProblem(row.place, row.problem, of_source=True))
            return
        done.keys.update(dict.fromkeys(_paths_of(row.values)) if len(done.keys) < _MOST_KEYS else {})
        try:
            id = self._add_question(row)
        except (_RowError, NoAnswer) as error:
            done.problems.append(RowProblem(row.place, str(error)))
            return
        try:
            self._add_recording(id, row)
        except _RowError as error:
            done.unanswered.append(RowProblem(row.place, str(error)))

    def _value(self, row: SourceRow, name: str) -> Any:
        """Return the first value mapped to `name`, or None. If there is a value, `name` is added to `found`. Raises
        `_RowError` if the value is truncated.
        """
        with _naming(name):
            value = find_first(row.values, self.mapping.of(name))
        if value is not None:
            self.imported.found.add(name)
        return value

    def _texts(self, row: SourceRow, name: str) -> list[str]:
        """Return a mapped value as strings. Raises `_RowError` if it is not text."""
        value = self._value(row, name)
        with _naming(name):
            return as_texts(value) if value is not None else []

    def _truths(self, row: SourceRow) -> list[str]:
        """Return the correct answers in a row, or an empty list. Alternatives in an inner list become one, joined with
        " or ".
        """
        value = self._raw_answer(row)
        with _naming("raw_answer"):
            if isinstance(value, list) and value and all(isinstance(item, list) and item for item in value):
                return [" or ".join(as_texts(alternatives)) for alternatives in value]
            return as_texts(value) if value is not None else []

    def _raw_answer(self, row: SourceRow) -> Any:
        """Return the correct answer in a row, or None. The label of an option, or the name of its column, is replaced
        by the option's letter, unless the mapping states how the correct option is specified, or has a pattern.
        """
        value = self._value(row, "raw_answer")
        if self.mapping.mixes_options or self.mapping.choice_by is not None or self.mapping.answer_pattern is not None:
            return value
        choices = self._value(row, "choices")
        columns = [path.casefold() for path in (*self.mapping.of("choices"), "")[0].split("|")]
        name = str(value).strip().casefold()
        texts = [str(text).strip().casefold() for text in choices or ()]
        if 1 < len(columns) <= len(ascii_uppercase) and name in columns and name not in texts:
            return ascii_uppercase[columns.index(name)]
        return letter_of_label(value, choices)

    def _choices(self, row: SourceRow, question: str) -> list[str]:
        """Return the options in a row, if it has any. They are mixed if their own order gives the correct one away.

        Adds a note if a value contains no options. Raises `_RowError` if an option is not text.
        """
        value: Any
        if self.mapping.mixes_options:
            with _naming("choices"):
                cells = [find_first(row.values, [path]) for path in self.mapping.of("choices")[0].split("|")]
            value = mix_options(question.strip(), cells)
            self.imported.found.add("choices")
        else:
            value = self._value(row, "choices")
        if value is None:
            return []
        with _naming("choices"):
            options = [as_text(option) for option in read_options(value).values()]
        if not options:
            self.imported.notes[f"choices: some values contain no options, such as {str(value)!r:.60}"] = None
        return options

    def _text(self, row: SourceRow, name: str) -> str | None:
        """Return a mapped value as a string, or None if the row has none. Raises `_RowError` if it is not text or is a
        formula error.
        """
        value = self._value(row, name)
        if is_error_cell(value):
            raise _RowError(f"{name}: the cell contains the formula error {value}")
        with _naming(name):
            return as_text(value) if value is not None else None

    def _add_question(self, row: SourceRow) -> str:
        """Add the question in a row, unless it was added before, and return its ID. Raises `_RowError` or `NoAnswer` if
        the question cannot be made, or if a different question has the same ID.

        A question that has already been added is only counted in `repeats`. If no ID is mapped, questions are the same
        if they have the same text and the format sets the same keys for them, apart from metadata.
        """
        try:
            text = self._text(row, "question")
        except _RowError as error:
            path = next(iter(self.mapping.of("question")), "")
            part = first_part(look_up(row.values, path))
            raise _RowError(f"{error}; map a part of it: --map question={path}.{part}" if part else error) from error
        if text is None or not text.strip():
            turns = first_part(row.values.get("turns"))
            cure = "a different path" if turns is None else f"its first turn, with --map question=turns.{turns}"
            raise _RowError(
                f"the row has no question (mapped paths: {_names(self.mapping.of('question'))}); map question to {cure}"
            )
        choices = self._choices(row, text)
        text = join_options(text, dict(zip(ascii_uppercase, map(str.strip, choices), strict=False)))
        done = self.imported
        id = self._text(row, "id")
        if id is None:
            identity = json.dumps([text, {**row.question, "metadata": None}], default=str) if row.question else text
            id = self.ids_by_text.setdefault(identity, make_question_id(len(done.questions) + 1, text))
        data = self._make_question(row, id, text, choices)
        first = done.questions.get(id)
        if first is None:
            _check(data)
            self.question_size.require(data, row.place, "questions")
            done.questions[id] = data
            done.files.update(row.files)
            if self.mapping.answer == AUTO and not {"answer", "rubric"} & data.keys():
                self.found[id] = self._cell(row, text), dict(zip(ascii_uppercase, choices, strict=False))
            done.origins[id] = row
            done.left_out.update(row.left_out)
            return id
        done.repeats += 1
        for key in ("question", "raw_answer", "answer", "strategy", "rubric"):
            if first.get(key) != data.get(key):
                place = done.origins[id].place
                raise _RowError(
                    f"the {key} differs from the one in {place}, which has the same id {id!r:.80}; map id to a "
                    "different path"
                )
        return id

    def _make_question(self, row: SourceRow, id: str, text: str, choices: list[str]) -> dict[str, Any]:
        """Return the keys of a question in a YAML benchmark, from mapped values and those that the format has set. The
        format's keys take precedence, except for its fields if the mapping declares a template or a trait; metadata and
        traits are combined. Raises `_RowError` or `NoAnswer` if a value cannot be used.
        """
        truths = self._truths(row)
        data: dict[str, Any] = {"id": id, "question": text}
        if truths:
            data["raw_answer"] = show_truths(self.mapping, truths, choices)
        if self.mapping.answer == GRADED:
            data["rubric"] = declare_graded(self.mapping, truths)
        elif isinstance(self.mapping.answer, str) and self.mapping.answer != AUTO:
            data["answer"] = declare_answer(self.mapping, truths, choices)
            declared = data["answer"][TRUTH]
            if self.mapping.answer == EXPRESSION != declared["type"]:
                words = f"{declared['ground_truth']!r:.60} ({row.place})"
                self.imported.notes[f"answer: {words} is no expression, and is compared as text or a number"] = None
        keywords = self._texts(row, "keywords")
        if keywords:
            data["keywords"] = keywords
        metadata = self._metadata(row)
        if isinstance(self.mapping.answer, Mapping):
            answers = extract(self.mapping, truths)[:1]
            values = {**metadata, "id": id, "question": text, **({"raw_answer": answers[0]} if answers else {})}
            data["answer"] = fill_declared(self.mapping.answer, values)
        ready = dict(row.question)
        if "answer" in data or "rubric" in data:
            ready = {key: value for key, value in ready.items() if key not in ("answer", "strategy")}
        if metadata or "metadata" in ready:
            ready["metadata"] = {**metadata, **ready.get("metadata", {})}
        if "rubric" in data and "rubric" in ready:
            ready["rubric"] = [*data["rubric"], *ready["rubric"]]
        return {**data, **ready}

    def _cell(self, row: SourceRow, question: str) -> Cell:
        """Return the correct answer to `question` in a row, or the part of it that the mapping's pattern matches, as a
        cell whose value is None if the row has none. Raises `NoAnswer` if the pattern is not found.
        """
        value = self._raw_answer(row)
        if value is not None and self.mapping.answer_pattern is not None:
            texts = extract(self.mapping, as_texts(value))
            value = texts if isinstance(value, list) else texts[0]
        return Cell(value, question, row.place)

    def declare_found(self) -> None:
        """Declare the templates and traits of the questions in `found`, by the kinds of their correct answers, and add
        notes for the user.

        There are notes about invalid templates, and about sentences that the answer type `text` would compare word for
        word.
        """
        done = self.imported
        if self.mapping.answer == "text":
            truths = [str(question["raw_answer"]) for question in done.questions.values() if "raw_answer" in question]
            prose = sum(map(is_prose, truths)) if self.mapping.answer_pattern is None else 0
            if prose:
                done.notes[
                    f"answer: of {quantity(len(truths), 'correct answer')}, {quantity(prose, 'sentence')} will be "
                    "compared word for word, which hardly any response passes; use `karenina draft` to draft "
                    "templates for sentences"
                ] = None
        cells = [cell for cell, _ in self.found.values()]
        decided, notes = declare_by_kind(self.mapping, cells, [options for _, options in self.found.values()])
        done.notes.update(dict.fromkeys(notes))
        for (id, (cell, options)), declared in zip(self.found.items(), decided, strict=True):
            if declared is None:
                continue
            try:
                _check({**done.questions[id], **declared})
            except _RowError as error:
                done.notes[f"{cell.place}: cannot create a template: {error}"] = None
            else:
                done.questions[id] |= declared
                answer = declared.get("answer", {}).get(TRUTH, {})
                needed = answer.get("ground_truth") if answer.get("type") == "list[str]" else cell.value
                if answer and answer.get("type") != "str" and isinstance(needed, list):  # all of them are needed
                    done.questions[id]["raw_answer"] = "; ".join(_show_needed(item, options) for item in needed)

    def _metadata(self, row: SourceRow) -> dict[str, Any]:
        """Return the mapped metadata of a row without empty values, and add the names of these values to
        `imported.found`. Raises `_RowError` if one cannot be JSON.
        """
        metadata = {}
        for key, path in self.mapping.metadata.items():
            with _naming(f"metadata.{key}"):
                value = find_first(row.values, (path,))
            if value is not None:
                _check_json(f"metadata.{key}", value)
                metadata[key] = value
                self.imported.found.add(f"metadata.{key}")
        return metadata

    def _add_recording(self, id: str, row: SourceRow) -> None:
        """Record the answers in a row, and people's verdicts on them as labels. An answer without a replicate gets the
        next free one of its question and model. Raises `_RowError` for no answer or a repeated replicate of these, and
        `ConfigError` if all answers together are larger than files may be.
        """
        recordings = self._mapped_recordings(row) if row.recordings is None else self._given_recordings(row.recordings)
        for response, model, replicate, label, end in recordings:
            replicates = self.replicates.setdefault((id, model), set())
            if replicate in replicates:
                raise _RowError(
                    "replicate: an earlier row for the same question and model already has replicate "
                    f"{replicate}; map replicate to a different path"
                )
            self.recording_size.require(response, row.place, "answers")
            number = replicate or len(replicates) + 1
            while replicate is None and number in replicates:
                number += 1
            replicates.add(number)
            named = {"id": id, "replicate": number, **({"model": model} if model is not None else {})}
            stated = {"finish_reason": end} if end is not None else {}
            self.imported.recordings.append({**named, "response": response, **stated})
            if label is not None:
                self.imported.labels.append({**named, **label})

    def _mapped_recordings(self, row: SourceRow) -> list[_Recorded]:
        """Return the answers that the mapping finds in a row, as tuples of response, model, replicate, label and the
        reason why it ended early. Only a single answer gets the last two. Raises `_RowError` if there is an error
        instead of an answer, or nothing at all.
        """
        value = self._value(row, "response") if self.mapping.of("response") else None
        error = self._value(row, "error") if self.mapping.of("error") else None
        if error is not None:
            self.imported.found.add("response")
            raise _RowError(f"the row has an error instead of an answer: {' '.join(str(error).split())[:200]}")
        if value is None:
            raise _RowError("the row has no answer")
        model = self._text(row, "model")
        several = value if isinstance(value, list) and not is_conversation(value) and _is_several(value) else [value]
        with _naming("response"):
            responses = [as_response(response) for response in several]
        replicate = self._replicate(row, several=len(responses) > 1)
        is_one = len(responses) == 1
        label = self._label(row) if is_one else None
        end = _early_end(self._value(row, "finish_reason")) if is_one else None
        return [(response, model, replicate, label, end) for response in responses]

    def _label(self, row: SourceRow) -> dict[str, Any] | None:
        verdict = self._value(row, "label") if self.mapping.of("label") else None
        return None if verdict is None else make_label(verdict, self._text(row, "labeller"))

    def _given_recordings(self, recordings: Sequence[Mapping[str, Any]]) -> list[_Recorded]:
        """Return the answers that the format found in a row, as tuples of response, model, replicate, label and the
        reason why it ended early, and add `response` to the fields that were found. Raises `_RowError` if there are
        none.
        """
        if not recordings:
            raise _RowError("the row has no answer")
        self.imported.found.add("response")
        with _naming("response"):
            return [
                (
                    as_response(recording["response"]),
                    recording.get("model"),
                    recording.get("replicate"),
                    recording.get("label"),
                    _early_end(recording.get("finish_reason")),
                )
                for recording in recordings
            ]

    def _replicate(self, row: SourceRow, *, several: bool) -> int | None:
        """Return the mapped replicate of an answer, or None if the row has no replicate or `several` answers. Raises
        `_RowError` unless it is a whole number of at least 1.
        """
        value = None if several else self._value(row, "replicate")
        if value is None:
            return None
        text = str(value)
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) > 0):
            raise _RowError(f"replicate must be a positive integer, not {value!r:.40}")
        return int(text)


def convert(rows: Iterable[SourceRow], mapping: FieldMapping, choose: ChooseMapping | None = None) -> Imported:
    """Convert rows to questions and recordings, after `choose`, if given, has completed the mapping with the first
    1,000 rows. The result contains the completed mapping. Rows that cannot be converted are listed in `problems`, and
    rows without an answer in `unanswered`, unless no row has one.
    """
    notes: list[str] = []
    if choose is not None:
        source = iter(rows)
        first = list(islice(source, _FIRST_ROWS))
        mapping, notes = choose(first, mapping)
        rows = chain(first, source)
    converter = _Converter(mapping, Imported(mapping=mapping))
    for row in rows:
        converter.add(row)
    converter.declare_found()
    done = converter.imported
    done.notes.update(dict.fromkeys((*notes, *settle_scales(done.labels), *_describe_uncompared(done))))
    if "response" not in done.found:  # a source without answers: no row lacks one
        done.unanswered.clear()
    return done


def _describe_uncompared(done: Imported) -> Iterator[str]:
    """Yield a note if there are questions with traits but without a template, whose correct answers no trait compares
    with responses.
    """
    compared = done.mapping.answer == GRADED
    left = [
        id
        for id, question in done.questions.items()
        if "raw_answer" in question
        and "answer" not in question
        and "rubric" in question
        and not compared
        and not any(_compares(str(trait.get("description")), question["raw_answer"]) for trait in question["rubric"])
    ]
    if left:
        yield (
            f"the correct answers to {quantity(len(left), 'question')} are not compared with responses "
            "because the source scores the responses in other ways; --map answer=graded adds a trait "
            "that compares them"
        )


def _compares(description: str, raw_answer: str) -> bool:
    """Return whether a trait with this description compares a response with the correct answer."""
    return raw_answer in description or description.startswith(AGREES.removesuffix("{}"))


def _check(data: Mapping[str, Any]) -> None:
    """Raise `_RowError` if the question or its template would be invalid in a benchmark."""
    try:
        values = question_values(data)
        if "answer_template" in values:
            from karenina_template.templates import load_template

            load_template(values["answer_template"])
        Question.model_validate(values)
    except DeclarationError as error:
        raise _RowError(f"answer: {error}") from error
    except ValueError as error:
        raise _RowError(explain_error(error)) from error


def _check_json(name: str, value: Any) -> None:
    """Raise `_RowError`, with `name`, if the value cannot be stored as JSON."""
    problem = find_problem(value)
    if problem is not None:
        raise _RowError(f"{name}: {problem.what}")
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _RowError(f"{name}: {error}") from error


def question_values(data: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the keys of a question in a YAML benchmark to the values of a `Question`: `answer` and `strategy` become
    the source code in `answer_template`, and keys that `Question` does not have become `extra`. Raises
    `DeclarationError` if the declared fields are invalid.
    """
    values = {key: value for key, value in data.items() if key not in ("answer", "strategy")}
    own = {key: values.pop(key) for key in [*values] if key not in Question.model_fields}
    if own:
        values["extra"] = {**values.get("extra", {}), **own}
    if "answer" in data:
        values["answer_template"] = make_template_source(data["answer"], data.get("strategy"))
    return values


def _show_needed(item: Any, options: Options) -> str:
    """Return one of several answers that are all needed as a string: a letter with its option, alternatives joined with
    " or ", or the answer itself.
    """
    if isinstance(item, list):
        return " or ".join(map(str, item))
    return f"{item}. {options[item]}" if item in options else str(item)


def _early_end(reason: Any) -> str | None:
    """Return the reason why an answer ended if that was early, such as at a token limit, or None if it was not, or if
    the reason is not text.
    """
    return reason if isinstance(reason, str) and read_end(reason)[0] in _EARLY_ENDS else None


def _is_several(value: list[Any]) -> bool:
    """Return whether a list contains several answers, not the content parts of one. An empty list does not."""
    return bool(value) and not all(isinstance(part, Mapping) and "type" in part for part in value)


def _paths_of(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the paths of a row's values: its keys, and up to 100 of each nested object (`doc.question`)."""
    for key, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from (f"{key}.{inner}" for inner in islice(value, _MOST_KEYS))
        else:
            yield str(key)


def _names(paths: Iterable[str]) -> str:
    """Join the mapped paths with commas for a message, or return "none"."""
    return ", ".join(paths) or "none"
