"""The part of a benchmark that a run needs, whatever file or object it comes from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pydantic import JsonValue

    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import DynamicRubric, Rubric


class QuestionSource(Protocol):
    """Questions in order, with their shared rubrics and settings."""

    @property
    def path(self) -> Path | None:
        """The file from which it was loaded; None if there is none."""

    @property
    def workspace_root(self) -> Path | None:
        """The folder of the questions' workspaces."""

    @property
    def workspace_root_in_file(self) -> Path | None:
        """The workspace root that the file named."""

    @property
    def named_files(self) -> Sequence[str]:
        """The files that the file named, from which more questions were read."""

    @property
    def run_config(self) -> Mapping[str, JsonValue]:
        """Defaults for a run, as the file gives them."""

    @property
    def global_rubric(self) -> Rubric | None:
        """Traits that every question has."""

    @property
    def dynamic_rubric(self) -> DynamicRubric | None:
        """Traits that every answer has in which their concept is present."""

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the questions in their order."""

    @property
    def streamed(self) -> bool:
        """Whether questions are read anew each time they are used."""

    def __len__(self) -> int:
        """Return the number of questions."""

    def __iter__(self) -> Iterator[Question]:
        """Iterate over the questions in their order."""

    def __contains__(self, question_id: object) -> bool:
        """Return whether there is a question with this id."""

    def get(self, question_id: str) -> Question:
        """Return the question with this id. Raises `KeyError`."""

    def unfinished_ids(self) -> Collection[str]:
        """Return the ids of the questions that are drafts, which a run takes only if they are named."""

    def with_shared_traits(self, question: Question, trait_names: Iterable[str] | None = None) -> Question:
        """Return the question with the shared traits, or only those of `trait_names`. Raises `ValueError`."""

    def trait_names(self) -> Sequence[str]:
        """Return the names of all traits, each once."""

    def questions_mentioning(self, words: Collection[str]) -> Iterator[Question]:
        """Iterate over the questions in which one of `words` may occur."""
