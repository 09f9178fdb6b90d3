"""The content of a benchmark: its questions, and the rubrics and settings they share."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, runtime_checkable
from uuid import NAMESPACE_URL, uuid5

from karenina_benchmark.errors import BenchmarkFileError, suggest_key
from karenina_core.catalog import read_catalog
from karenina_core.data.question import FewShotExample, Question
from karenina_core.data.rubrics import DynamicRubric, Rubric, RubricTrait, check_dynamic_names
from karenina_core.namespaces import flatten, is_owned
from karenina_core.text import compose, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, MutableMapping, Sequence

    from pydantic import JsonValue

    from karenina_benchmark.document import Section
    from karenina_core.models.attachments import Attachment


T = TypeVar("T")

FINISHED: Final = "finished"
"""The checkpoint property that marks a question as finished. Unfinished questions are drafts, which do not run."""


@runtime_checkable
class _TextSearch(Protocol):
    """Questions that can be searched without building all of them."""

    def ids_mentioning(self, words: Collection[str]) -> Iterator[str]:
        """Yield the ids of questions that may contain one of `words`."""


@runtime_checkable
class _Places(Protocol):
    """Questions with their places in the file. Their text can be read without building them."""

    def text_of(self, question_id: str) -> str:
        """Return the text of a question."""

    def place_of(self, question_id: str) -> Section | None:
        """Return a question's place in the file, or None if it is unknown."""


class BenchmarkContent:
    """The content of a benchmark, as read and written by file formats.

    `Benchmark` adds loading, saving and runs. Two contents are equal if their files would be equal. Their `path`, and
    names and ids derived from it, are ignored, and a template class equals its source.
    """

    def __init__(self, name: str, *, id: str | None = None) -> None:
        """Create an empty benchmark without dates. By default, the id is derived from the name. Raises `ValueError` if
        the name is empty.
        """
        if not name.strip():
            raise ValueError("the benchmark's name is empty")
        self.name = name
        self.id = id or _make_id(name)
        self.description = ""
        self.version = "0.1.0"
        self.creator = ""
        self.date_created: str | None = None
        self.date_modified: str | None = None
        self.global_rubric: Rubric | None = None
        """Traits that are scored for every question."""
        self.dynamic_rubric: DynamicRubric | None = None
        """Traits that are scored for every answer in which their concept occurs."""
        self.workspace_root: Path | None = None
        """The folder with the questions' workspaces; a relative path is kept as written."""
        self.workspace_root_in_file: Path | None = None
        """The workspace root given in the file; without trust, it must be inside the file's folder."""
        self.named_files: tuple[str, ...] = ()
        """The files named in the benchmark file, from which more questions were read."""
        self.run_config: dict[str, JsonValue] = {}
        """Default settings for a run, checked when a run starts."""
        self.metadata: dict[str, JsonValue] = {}
        self.unread: dict[str, JsonValue] = {}
        """Content that this version does not know; it is written back when the benchmark is saved."""
        self.broken: list[BenchmarkFileError] = []
        """The errors in questions that cannot be read."""
        self.problems: list[BenchmarkFileError] = []
        """The other errors in the file; if there are any, the benchmark cannot be used."""
        self.load_warnings: list[str] = []
        """Warnings about the file's content, logged when it is loaded."""
        self.unscorable: list[str] = []
        """A warning that names the traits that cannot be scored; empty if there are none."""
        self.head: Section | None = None
        """The location of all keys except those for questions; None if the file format has no lines."""
        self.origins: dict[str, Section] = {}
        """The location of each question by id; empty if the file format has no lines. See `place_of`."""
        self.path: Path | None = None
        self.named_by_path = False
        """Whether the benchmark is named after the file, because the file contains no name."""
        self.columns: dict[str, str] = {}
        """The column mapping with which the benchmark was read from a table."""
        self.load_notes: list[str] = []
        """What was detected because the file does not state it, such as which column contains the right answers."""
        self.made_templates: set[str] = set()
        """The ids of table questions whose templates were generated from their right answers."""
        self.load_notice = ""
        """A notice for the user about how the file was read; it is not part of the content."""
        self.missing_answers = ""
        """For a table, why no question has a template, and how to fix it; empty if there are answers or templates."""
        self.answer_columns: tuple[str, ...] = ()
        """The columns with the right answers of the table that the benchmark was read from."""
        self._questions: MutableMapping[str, Question] = {}
        self._written_ids: dict[str, str] | None = None
        self._places: _Places | None = None

    @classmethod
    def create(cls, name: str, description: str = "", version: str = "0.1.0", creator: str = "") -> Self:
        """Create an empty benchmark with the current time as its date. Raises `ValueError` if the name is empty."""
        benchmark = cls(name)
        benchmark.description = description
        benchmark.version = version
        benchmark.creator = creator
        benchmark.date_created = benchmark.date_modified = _now()
        return benchmark

    @classmethod
    def of_questions(cls, path: Path, questions: Iterable[Question]) -> Self:
        """Create a benchmark for a file that only contains questions. It has no dates and is named after the file. This
        is meant for file formats. Raises `ValueError` if two questions have the same id.
        """
        benchmark = cls(path.stem or "benchmark")
        benchmark.path, benchmark.named_by_path = path, True
        benchmark.add_questions(questions)
        benchmark.date_modified = None
        return benchmark

    def add_question(
        self,
        question: str | Question,
        raw_answer: str | None = None,
        answer_template: str | type[Any] | None = None,
        *,
        question_id: str | None = None,
        keywords: Iterable[str] = (),
        few_shot_examples: Iterable[FewShotExample | Mapping[str, str]] = (),
        rubric: Rubric | Sequence[RubricTrait] | None = None,
        dynamic_rubric: DynamicRubric | Sequence[RubricTrait] | None = None,
        attachments: Iterable[str | Path | Mapping[str, JsonValue] | Attachment] = (),
        workspace_path: str | None = None,
        author: JsonValue = None,
        sources: JsonValue = None,
        metadata: Mapping[str, JsonValue] | None = None,
        **extra: JsonValue,
    ) -> Question:
        """Append a question, set `date_modified`, and return the question. `question` is either the text, with the
        other arguments as the question's fields, or a complete `Question` without them. Raises `ValueError` for a
        duplicate id, an invalid field, or a trait name that is also in the global rubric, and `TypeError` for a keyword
        argument that no installed plugin owns.

        By default, the id is derived from the text and the paths of attachments. Without `answer_template`, the
        question has no template, even if it has a `raw_answer`. `extra` contains plugin fields, with one table for each
        plugin: `my_package={"level": 3}`.
        """
        if isinstance(question, Question):
            others = (raw_answer, answer_template, question_id, rubric, dynamic_rubric, workspace_path, author, sources)
            if (
                any(value is not None for value in others)
                or keywords
                or few_shot_examples
                or metadata
                or extra
                or attachments
            ):
                raise ValueError(
                    "a Question cannot be combined with other arguments; make the changes with "
                    "question.changed(...) first"
                )
            added = question
        else:
            added = Question.model_validate(
                {
                    "question": question,
                    "raw_answer": raw_answer,
                    "answer_template": answer_template,
                    "id": question_id or "",
                    "keywords": _as_list("keywords", keywords),
                    "few_shot_examples": list(few_shot_examples),
                    "rubric": rubric,
                    "dynamic_rubric": dynamic_rubric,
                    "attachments": _as_list("attachments", attachments),
                    "workspace_path": workspace_path,
                    "author": author,
                    "sources": sources,
                    "metadata": dict(metadata or {}),
                    "extra": self._owned(extra),
                    "date_created": _now(),
                }
            )
        return self.add_questions([added])[0]

    @staticmethod
    def _owned(extra: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Return the plugin fields in `extra`, flattened to their full names. Raises `TypeError` if no plugin owns one
        of them.
        """
        for name in extra:
            if not is_owned(name, "question_fields"):
                near = did_you_mean(name, [*Question.model_fields, *read_catalog()["question_fields"]], "")
                raise TypeError(
                    f"add_question() has no argument {name!r}, and no plugin named {name!r} is installed{near}"
                )
        return flatten(extra)

    def add_questions(self, questions: Iterable[Question]) -> list[Question]:
        """Append questions, set `date_modified`, and return the questions. If one of them cannot be added, none is.
        Raises `ValueError` for a duplicate id, or for a trait name that is also in the global rubric.
        """
        added: dict[str, Question] = {}
        for question in questions:
            id = compose(question.id)
            first = added.get(id) or self._questions.get(self.written_id(question.id))
            if first is not None:
                raise ValueError(
                    f"two questions have the id {question.id!r}: {first.question[:80]!r} and "
                    f"{question.question[:80]!r}; give one of them a different question_id"
                )
            self.rubric_for(question)
            added[id] = question
        self._questions.update({question.id: question for question in added.values()})
        if self._written_ids is not None:
            self._written_ids.update({id: question.id for id, question in added.items()})
        if added:
            self.date_modified = _now()
        return list(added.values())

    @property
    def questions(self) -> tuple[Question, ...]:
        """All questions, loaded into memory. To load them one at a time, iterate over the benchmark instead."""
        return tuple(self._questions.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the questions, in order."""
        return tuple(self._questions)

    @property
    def streamed(self) -> bool:
        """Whether questions stay in the file and are built each time they are accessed. Accessing a question then
        raises `BenchmarkFileError`, with the line, if it cannot be read or the file has changed.
        """
        return not isinstance(self._questions, dict)

    def use_questions(self, questions: MutableMapping[str, Question]) -> None:
        """Replace all questions. The keys of `questions` are ids."""
        self._questions = questions
        self._written_ids = None
        self._places = questions if isinstance(questions, _Places) else None

    def get(self, question_id: str) -> Question:
        """Return the question with the given id. Raises `KeyError`, suggesting a similar id, if there is none."""
        try:
            return self._questions[self.written_id(question_id)]
        except KeyError:
            hint = suggest_key(question_id, self._questions, "")
            raise KeyError(f"no question has the id {question_id!r}{hint and f'; {hint}'}") from None

    def texts(self, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the id and text of each question in `ids`, without building streamed questions."""
        for id in ids:
            yield id, self._places.text_of(id) if self._places is not None else self._questions[id].question

    def place_of(self, question_id: str) -> Section | None:
        """Return a question's place in the file, or None if it is unknown. If questions are streamed, raises `KeyError`
        for an unknown id.
        """
        if self._places is not None:
            return self._places.place_of(self.written_id(question_id))
        return self.origins.get(self.written_id(question_id))

    def leave_out_broken(self) -> None:
        """Build all streamed questions once, and remove those that cannot be read, adding their errors to `broken`.
        Does nothing if the questions are in memory.
        """
        for id in self.ids if self.streamed else ():
            try:
                self._questions[id]
            except BenchmarkFileError as error:
                del self._questions[id]
                self._written_ids = None
                self.broken.append(error)

    def remove(self, question_id: str) -> Question:
        """Remove a question, set `date_modified`, and return the question. Raises `KeyError` if it does not exist."""
        question = self.get(question_id)
        del self._questions[question.id]
        if self._written_ids is not None:
            del self._written_ids[compose(question.id)]
        self.date_modified = _now()
        return question

    def replace(self, question: Question) -> None:
        """Replace the question that has the same id, keeping its position and the spelling of the id, and set
        `date_modified`. Raises `KeyError` if there is none, and `ValueError` for a trait name that is also in the
        global rubric.
        """
        written = self.get(question.id).id
        self.rubric_for(question)
        self._questions[written] = question if question.id == written else question.changed(id=written)
        self.date_modified = _now()

    def rubric_for(self, question: Question) -> Rubric | None:
        """Return the static traits of the benchmark and the question in one rubric, or None if there are none. Raises
        `ValueError` if both have a trait with the same name.
        """
        if self.global_rubric is None and question.rubric is None:
            return None
        return Rubric.merge(self.global_rubric, question.rubric) or None

    def dynamic_rubric_for(self, question: Question) -> DynamicRubric | None:
        """Return the dynamic traits of the benchmark and the question in one rubric, or None if there are none. Raises
        `ValueError` if both have a trait with the same name.
        """
        return DynamicRubric.merge(self.dynamic_rubric, question.dynamic_rubric) or None

    def with_shared_traits(self, question: Question, trait_names: Iterable[str] | None = None) -> Question:
        """Return the question with the benchmark's traits added. With `trait_names`, it keeps only the traits with
        these names. Raises `ValueError` if both have a trait with the same name, or if a trait name is used for a
        static and a dynamic trait.
        """
        shared = self.global_rubric or self.dynamic_rubric
        if trait_names is None and not shared and question.dynamic_rubric is None:
            return question
        names = None if trait_names is None else frozenset(trait_names)
        rubric = self.rubric_for(question)
        dynamic = self.dynamic_rubric_for(question)
        check_dynamic_names(rubric, dynamic)
        if names is not None:
            rubric = Rubric.of(*(trait for trait in rubric.traits if trait.name in names)) if rubric else None
            dynamic = DynamicRubric.of(*(trait for trait in dynamic.traits if trait.name in names)) if dynamic else None
        if (rubric or None) == question.rubric and (dynamic or None) == question.dynamic_rubric:
            return question
        return question.changed(rubric=rubric, dynamic_rubric=dynamic)

    def trait_names(self) -> tuple[str, ...]:
        """Return the names of all traits of the benchmark and its questions, without duplicates."""
        own = [name for rubric in (self.global_rubric, self.dynamic_rubric) if rubric for name in rubric.names]
        return tuple(dict.fromkeys([*own, *(name for question in self for name in question.trait_names())]))

    def __len__(self) -> int:
        return len(self._questions)

    def __bool__(self) -> bool:
        """Return True, even if there are no questions."""
        return True

    def __iter__(self) -> Iterator[Question]:
        """Iterate over the questions. Streamed questions are built one at a time."""
        return iter(self._questions.values())

    def questions_mentioning(self, words: Collection[str]) -> Iterator[Question]:
        """Iterate over the questions that may contain one of `words`. This includes all questions that are in memory,
        whether they do or not. The lines of a streamed file are searched as text, so most of its questions need not be
        built.
        """
        if isinstance(self._questions, _TextSearch):
            return map(self._questions.__getitem__, self._questions.ids_mentioning(words))
        return iter(self)

    def unfinished_ids(self) -> list[str]:
        """Return the ids of drafts, which a checkpoint marks with `finished: false`."""
        return [question.id for question in self.questions_mentioning((FINISHED,)) if _is_unfinished(question.unread)]

    def __contains__(self, question_id: object) -> bool:
        """Return whether there is a question with the given id, in any Unicode spelling (see `written_id`)."""
        return isinstance(question_id, str) and self.written_id(question_id) in self._questions

    def written_id(self, question_id: str) -> str:
        """Return `question_id` as spelled in the benchmark, because Unicode can spell the same characters differently.
        Unknown ids are returned unchanged.
        """
        if question_id.isascii() or question_id in self._questions:
            return question_id
        if self._written_ids is None:
            self._written_ids = {compose(id): id for id in self._questions}
        return self._written_ids.get(compose(question_id), question_id)

    def __eq__(self, other: object) -> bool:
        """Return whether the files of both benchmarks would be equal, apart from names and ids derived from their
        paths.
        """
        if not isinstance(other, BenchmarkContent):
            return NotImplemented
        named = (self.id, self.name) == (other.id, other.name) or (self._nameless and other._nameless)
        return named and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # not hashable, because it is mutable

    def __repr__(self) -> str:
        return f"<Benchmark {self.name[:200]!r}, {len(self)} question{'' if len(self) == 1 else 's'}>"

    @property
    def _nameless(self) -> bool:
        """Whether the file has neither a name nor an id, so that both were derived from its path."""
        named_after = self.named_by_path and self.path is not None and self.name == (self.path.stem or "benchmark")
        return named_after and self.id == _make_id(self.name)

    def _content(self) -> tuple[object, ...]:
        """Return the values compared by `==`, except for name and id."""
        return (
            self.description,
            self.version,
            self.creator,
            self.date_created,
            self.date_modified,
            self.global_rubric or None,
            self.dynamic_rubric or None,
            self.workspace_root,
            self.run_config,
            self.metadata,
            self.unread,
            tuple(map(_as_stored, self)),
        )


def _make_id(name: str) -> str:
    """Return an id that depends only on the benchmark's name."""
    return uuid5(NAMESPACE_URL, f"karenina:benchmark:{name}").urn


def _as_stored(question: Question) -> Question:
    """Return the question as it would be saved, with the source of its template class. If the source is unavailable, it
    is returned unchanged.
    """
    if question.answer_class is None:
        return question
    from karenina_template.question_template import template_source_of
    from karenina_template.templates.errors import TemplateError

    try:
        return question.changed(answer_template=template_source_of(question))
    except TemplateError:  # it cannot be saved
        return question


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _as_list(name: str, texts: Iterable[T]) -> list[T]:
    """Return the values as a list. Raises `ValueError` for a single string, because it would be split."""
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of strings, not a single string; write [{texts!r}]")  # noqa: TRY004
    return list(texts)


def _is_unfinished(unread: Mapping[str, Any]) -> bool:
    """Return whether a question's unknown content contains `finished: false`."""
    properties = unread.get("properties")
    return isinstance(properties, list) and any(
        isinstance(entry, dict) and entry.get("name") == FINISHED and entry.get("value") is False
        for entry in properties
    )


def split_keywords(values: Iterable[Any], separator: str | None = None) -> Iterator[Any]:
    """Yield the keywords in `values`. A string may contain several, which are separated by `separator` or, by default,
    by semicolons if it contains any and otherwise by commas. They are stripped, and empty ones are skipped. Values that
    are not strings are yielded unchanged.
    """
    for value in values:
        if not isinstance(value, str):
            yield value
            continue
        divider = separator or (";" if ";" in value else ",")
        yield from filter(None, map(str.strip, value.split(divider)))
