"""`BenchmarkContent`: what a file holds, questions in order with the rubrics and settings that they share."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable
from uuid import NAMESPACE_URL, uuid5

from karenina_benchmark.errors import CheckpointError
from karenina_core.data.question import FewShotExample, Question
from karenina_core.data.rubrics import DynamicRubric, Rubric, RubricTrait, check_dynamic_names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence

    from pydantic import JsonValue


@runtime_checkable
class _TextSearch(Protocol):
    """Questions that can be searched without making each of them."""

    def ids_mentioning(self, words: Collection[str]) -> Iterator[str]:
        """Return the ids of the questions in which one of `words` may occur."""


class BenchmarkContent:
    """The content of a benchmark, apart from the files and runs that `karenina_benchmark.Benchmark` adds.

    File formats read and write it. Two are equal when a file would hold the same for both: a template class and its
    source are the same. `path`, and a name and an id that only come from it, do not count.
    """

    def __init__(self, name: str, *, id: str | None = None) -> None:
        if not name.strip():
            raise ValueError("a benchmark needs a name")
        self.name = name
        self.id = id or _id_for(name)
        self.description = ""
        self.version = "0.1.0"
        self.creator = ""
        self.date_created: str | None = None
        self.date_modified: str | None = None
        self.global_rubric: Rubric | None = None
        """Traits that every question has."""
        self.dynamic_rubric: DynamicRubric | None = None
        """Traits that every answer has in which their concept is present."""
        self.workspace_root: Path | None = None
        """Folder of the questions' workspaces; a relative one is kept as it was written."""
        self.workspace_root_in_file: Path | None = None
        """The workspace root that the file named: what a stranger's file may not lead out of its own folder."""
        self.run_config: dict[str, JsonValue] = {}
        """Defaults for a run, as the file gives them; checked when a run begins."""
        self.metadata: dict[str, JsonValue] = {}
        self.unread: dict[str, JsonValue] = {}
        """What a file said that this version does not know; written back."""
        self.broken: list[CheckpointError] = []
        """The questions of its file that cannot be read, and are not among its questions."""
        self.path: Path | None = None
        self.named_by_path = False
        """Whether the file states no name, so that its own is used."""
        self.columns: dict[str, str] = {}
        """How the columns of the table that it was read from were mapped, if they have other names."""
        self.load_notice = ""
        """What a user should know of how the file was read; no part of the content."""
        self._questions: MutableMapping[str, Question] = {}

    @classmethod
    def create(cls, name: str, description: str = "", version: str = "0.1.0", creator: str = "") -> Self:
        """An empty benchmark. Raises `ValueError` for an empty name."""
        benchmark = cls(name)
        benchmark.description = description
        benchmark.version = version
        benchmark.creator = creator
        benchmark.date_created = benchmark.date_modified = _now()
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
        workspace_path: str | None = None,
        author: JsonValue = None,
        sources: JsonValue = None,
        metadata: Mapping[str, JsonValue] | None = None,
    ) -> Question:
        """Add a question at the end and return it as it is kept.

        `question` is its text, described by the other arguments, or a whole `Question`, and then stands alone.
        Raises `ValueError` for an id that is taken, for a trait name that the global rubric has too, and for fields
        that do not fit.
        """
        if isinstance(question, Question):
            others = (raw_answer, answer_template, question_id, rubric, dynamic_rubric, workspace_path, author, sources)
            if any(value is not None for value in others) or keywords or few_shot_examples or metadata:
                raise ValueError("a Question stands alone: change it with question.changed(...) before it is added")
            made = question
        else:
            made = Question.model_validate(
                {
                    "question": question,
                    "raw_answer": raw_answer,
                    "answer_template": answer_template,
                    "id": question_id or "",
                    "keywords": _listed("keywords", keywords),
                    "few_shot_examples": list(few_shot_examples),
                    "rubric": rubric,
                    "dynamic_rubric": dynamic_rubric,
                    "workspace_path": workspace_path,
                    "author": author,
                    "sources": sources,
                    "metadata": dict(metadata or {}),
                    "date_created": _now(),
                }
            )
        return self.add_questions([made])[0]

    def add_questions(self, questions: Iterable[Question]) -> list[Question]:
        """Add several questions at the end: all of them, or none where one raises (see `add_question`)."""
        added: dict[str, Question] = {}
        for question in questions:
            if question.id in self._questions or question.id in added:
                first = self._questions.get(question.id) or added[question.id]
                raise ValueError(
                    f"two questions have the id {question.id!r}: {first.question[:80]!r} and "
                    f"{question.question[:80]!r}; give one of them another question_id"
                )
            self.rubric_for(question)
            added[question.id] = question
        self._questions.update(added)
        if added:
            self.date_modified = _now()
        return list(added.values())

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions in their order, all of them at once; iterating over the benchmark holds one at a time."""
        return tuple(self._questions.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the questions in their order."""
        return tuple(self._questions)

    @property
    def streamed(self) -> bool:
        """Whether the questions stay in the file and are made when they are asked for, each time anew.

        Then a question that cannot be read raises `CheckpointError` when it is asked for, with the line.
        """
        return not isinstance(self._questions, dict)

    def use_questions(self, questions: MutableMapping[str, Question]) -> None:
        """Hold `questions`, by id, in place of those that there are."""
        self._questions = questions

    def get(self, question_id: str) -> Question:
        """The question with this id. Raises `KeyError`, naming the nearest id."""
        try:
            return self._questions[question_id]
        except KeyError:
            from difflib import get_close_matches

            near = get_close_matches(question_id, self._questions, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise KeyError(f"no question has the id {question_id!r}{hint}") from None

    def leave_out_broken(self) -> None:
        """Move questions that are read when they are wanted, and cannot be read, to `broken`. It reads all of them."""
        for id in self.ids if self.streamed else ():
            try:
                self._questions[id]
            except CheckpointError as error:
                del self._questions[id]
                self.broken.append(error)

    def remove(self, question_id: str) -> Question:
        """Take a question out and return it. Raises `KeyError` as `get` does."""
        question = self.get(question_id)
        del self._questions[question_id]
        self.date_modified = _now()
        return question

    def replace(self, question: Question) -> None:
        """Put `question` in the place of the one with its id. Raises `KeyError` as `get` does."""
        self.get(question.id)
        self.rubric_for(question)
        self._questions[question.id] = question
        self.date_modified = _now()

    def rubric_for(self, question: Question) -> Rubric | None:
        """The benchmark's static traits and the question's in one rubric; None where there are none.

        Raises `ValueError` for a trait name that both have.
        """
        return Rubric.merge(self.global_rubric, question.rubric) or None

    def dynamic_rubric_for(self, question: Question) -> DynamicRubric | None:
        """The benchmark's dynamic traits and the question's in one; None where there are none."""
        return DynamicRubric.merge(self.dynamic_rubric, question.dynamic_rubric) or None

    def with_shared_traits(self, question: Question, trait_names: Iterable[str] | None = None) -> Question:
        """The question as a run takes it: with the benchmark's traits beside its own, only those of `trait_names`
        where they are given.

        Raises `ValueError` for a trait name that both have, or that is static and dynamic.
        """
        shared = self.global_rubric or self.dynamic_rubric
        if trait_names is None and not shared and question.dynamic_rubric is None:
            return question
        wanted = None if trait_names is None else frozenset(trait_names)
        rubric = self.rubric_for(question)
        dynamic = self.dynamic_rubric_for(question)
        check_dynamic_names(rubric, dynamic)
        if wanted is not None:
            rubric = Rubric.of(*(trait for trait in rubric.traits if trait.name in wanted)) if rubric else None
            dynamic = DynamicRubric.of(*(one for one in dynamic.traits if one.name in wanted)) if dynamic else None
        if (rubric or None) == question.rubric and (dynamic or None) == question.dynamic_rubric:
            return question
        return question.changed(rubric=rubric, dynamic_rubric=dynamic)

    def trait_names(self) -> tuple[str, ...]:
        """The names of all traits, the benchmark's own and those of its questions, each once."""
        own = [name for rubric in (self.global_rubric, self.dynamic_rubric) if rubric for name in rubric.names]
        return tuple(dict.fromkeys([*own, *(name for question in self for name in question.trait_names())]))

    def __len__(self) -> int:
        return len(self._questions)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Question]:
        return iter(self._questions.values())

    def questions_mentioning(self, words: Collection[str]) -> Iterator[Question]:
        """Iterate over the questions in which one of `words` may occur; over all of them if they are in memory.

        Of a streamed file only the lines are searched, so that most questions need not be made.
        """
        if isinstance(self._questions, _TextSearch):
            return map(self._questions.__getitem__, self._questions.ids_mentioning(words))
        return iter(self)

    def __contains__(self, question_id: object) -> bool:
        return question_id in self._questions

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BenchmarkContent):
            return NotImplemented
        named = (self.id, self.name) == (other.id, other.name) or (self._nameless and other._nameless)
        return named and self._content() == other._content()

    __hash__ = None  # type: ignore[assignment]  # it changes, and Python spells "not hashable" so

    def __repr__(self) -> str:
        return f"<Benchmark {self.name!r}, {len(self)} question{'' if len(self) == 1 else 's'}>"

    @property
    def _nameless(self) -> bool:
        """Whether its file has neither a name nor an id for it, so that it is called after the file."""
        named_after = self.named_by_path and self.path is not None and self.name == (self.path.stem or "benchmark")
        return named_after and self.id == _id_for(self.name)

    def _content(self) -> tuple[object, ...]:
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


def _id_for(name: str) -> str:
    return uuid5(NAMESPACE_URL, f"karenina:benchmark:{name}").urn


def _as_stored(question: Question) -> Question:
    """Return the question with the source of its template class, as a file would hold it."""
    if question.answer_class is None:
        return question
    from karenina_template.question_template import template_source_of
    from karenina_template.templates.errors import TemplateError

    try:
        return question.changed(answer_template=template_source_of(question))
    except TemplateError:  # no file can hold it
        return question


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _listed(name: str, given: Iterable[str]) -> list[str]:
    if isinstance(given, str):
        raise ValueError(f"{name} is a list of texts, not one text: write [{given!r}]")  # noqa: TRY004
    return list(given)
