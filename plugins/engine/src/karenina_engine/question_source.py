"""The interface that a run needs from a benchmark, whatever file or object it comes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic import JsonValue

    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import DynamicRubric, Rubric


class QuestionSource(Protocol):
    """Questions in order, with the rubrics and settings that they share."""

    @property
    def path(self) -> Path | None:
        """The file from which the questions were loaded, or None if there is none."""

    @property
    def workspace_root(self) -> Path | None:
        """The folder with the questions' workspaces, or None if it is not set."""

    @property
    def workspace_root_in_file(self) -> Path | None:
        """The workspace root as written in the benchmark file, or None if it is not set there."""

    @property
    def named_files(self) -> Sequence[str]:
        """The other files that the benchmark file names and from which questions were read."""

    @property
    def run_config(self) -> Mapping[str, JsonValue]:
        """The settings in the benchmark file. They are the defaults for its runs."""

    @property
    def global_rubric(self) -> Rubric | None:
        """The traits that every question has."""

    @property
    def dynamic_rubric(self) -> DynamicRubric | None:
        """The traits that only apply to answers in which their concept is present."""

    @property
    def ids(self) -> Sequence[str]:
        """The question ids, in order."""

    @property
    def streamed(self) -> bool:
        """Whether the questions are read from the file again on every iteration."""

    def __len__(self) -> int:
        """Return the number of questions."""

    def __iter__(self) -> Iterator[Question]:
        """Iterate over the questions in order."""

    def __contains__(self, question_id: object) -> bool:
        """Return whether there is a question with the given id."""

    def get(self, question_id: str) -> Question:
        """Return the question with the given id. Raises `KeyError` if there is none."""

    def written_id(self, question_id: str) -> str:
        """Return a question's id as written in the benchmark, where its Unicode normalization may be different."""

    def texts(self, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the id and text of each question in `ids`. This may be faster than `get`."""

    def unfinished_ids(self) -> Collection[str]:
        """Return the ids of drafts. Drafts only run if they are selected by id."""

    def with_shared_traits(self, question: Question, trait_names: Iterable[str] | None = None) -> Question:
        """Return the question with the shared traits added, or only those in `trait_names`. Raises `ValueError` if the
        question has a trait with the same name.
        """

    def trait_names(self) -> Sequence[str]:
        """Return the names of all traits, without duplicates."""

    def questions_mentioning(self, words: Collection[str]) -> Iterator[Question]:
        """Yield all questions that contain any of `words`. Other questions may be included."""


class QuestionCheck(Protocol):
    """An additional check of a run's questions.

    It is made while each question is read to prepare the run.
    """

    def check(self, question: Question) -> None:
        """Raise `KareninaError` if the question has an error. The question's rubric is already merged."""

    def raise_errors(self) -> None:
        """Raise a single `KareninaError` with the errors of all questions, if there are any."""
