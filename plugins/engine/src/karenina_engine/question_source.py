"""The part of a benchmark that a run needs, independent of the file or object that contains it."""

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
        """The file that the questions were loaded from, or None."""

    @property
    def workspace_root(self) -> Path | None:
        """The folder that contains the questions' workspaces, or None if it is not set."""

    @property
    def workspace_root_in_file(self) -> Path | None:
        """The workspace root as the benchmark file states it, or None if it states none."""

    @property
    def named_files(self) -> Sequence[str]:
        """The files named in the benchmark file, from which more questions were read."""

    @property
    def run_config(self) -> Mapping[str, JsonValue]:
        """The settings in the benchmark file, which are defaults for its runs."""

    @property
    def global_rubric(self) -> Rubric | None:
        """Traits that every question has."""

    @property
    def dynamic_rubric(self) -> DynamicRubric | None:
        """Traits that apply to every answer in which their concept is present."""

    @property
    def ids(self) -> Sequence[str]:
        """The question ids, in order."""

    @property
    def streamed(self) -> bool:
        """Whether the questions are read again on every iteration."""

    def __len__(self) -> int:
        """Return the number of questions."""

    def __iter__(self) -> Iterator[Question]:
        """Iterate over the questions in order."""

    def __contains__(self, question_id: object) -> bool:
        """Return whether there is a question with this id."""

    def get(self, question_id: str) -> Question:
        """Return the question with this id. Raises `KeyError` if there is none."""

    def written_id(self, question_id: str) -> str:
        """Return the id of a question as the benchmark writes it, which may differ in its normal form."""

    def texts(self, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yield the id and the text of each of these questions, which may be faster than `get`."""

    def unfinished_ids(self) -> Collection[str]:
        """Return the ids of draft questions, which a run includes only if they are named."""

    def with_shared_traits(self, question: Question, trait_names: Iterable[str] | None = None) -> Question:
        """Return the question with the shared traits added.

        `trait_names` selects traits (None: all). Raises `ValueError` if a trait of the question has the same name as a
        shared one.
        """

    def trait_names(self) -> Sequence[str]:
        """Return the names of all traits, without duplicates."""

    def questions_mentioning(self, words: Collection[str]) -> Iterator[Question]:
        """Yield the questions in which one of `words` may occur: every such question, and possibly others."""
