"""The questions of a run, with their rubrics merged.

Also resolves settings whose values come from the benchmark file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, overload

from karenina_core.config import all_settings
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_engine.check.attachments import QuestionFiles
from karenina_toolkit.files.safe_paths import stays_below

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_engine.question_source import QuestionSource

MAX_IN_MEMORY = 20_000
"""The maximum number of questions from a streamed file to keep in memory, which takes some 3 KB for a short one.

If a run has more, its questions are read again each time they are used, which takes a sixth of the computing time of a
run of recorded answers.
"""
_LARGE_FILE: Final = 8_000_000
"""The size in bytes of a file of which at most `_MAX_OF_LARGE_FILE` questions are kept in memory."""
_MAX_OF_LARGE_FILE: Final = 500
_READ_TOGETHER: Final = 32
"""The number of questions that are read in a row, which takes less time than reading each between other work."""


def with_workspace_root(
    benchmark: QuestionSource, config: VerificationConfig, leads: Mapping[str, str] | None = None
) -> VerificationConfig:
    """Return the configuration with links resolved in settings that follow `workspace_root`. They are set to that of
    the benchmark if it has one, even if they have a value, unless it leads out of the benchmark's folder and the user
    has set all of them. Settings that follow the benchmark's folder are set to it if they are unset. `leads` maps paths
    to targets that are already known.

    A root set in a file is relative to that file. If it points outside the file's folder, the user must trust it,
    unless the user's own configuration sets all of these settings. Links are resolved here, once for the whole run.
    `leads` contains the targets found by the trust check.
    """
    root, path, owned = benchmark.workspace_root, benchmark.path, all_settings().items()
    following = {
        name: config.setting(name)
        for name, setting in owned
        if setting.follows == "workspace_root" and config.has(name)
    }
    if path is not None and root is not None and root == benchmark.workspace_root_in_file:
        users = all(value is not None and name not in config.benchmark_names for name, value in following.items())
        root = None if users and not stays_below(path.parent, str(root)) else path.parent.absolute() / root
    roots = {name: root or value for name, value in following.items() if root or value}
    leads = leads or {}
    resolved = {name: leads.get(str(value.absolute())) or os.path.realpath(value) for name, value in roots.items()}
    if path is not None:
        places = [name for name, setting in owned if setting.follows == "folder" and config.has(name)]
        resolved |= {name: os.path.realpath(path.parent) for name in places if config.setting(name) is None}
    return config.with_values(**resolved) if resolved else config


def default_ids(benchmark: QuestionSource) -> Sequence[str]:
    """Return the ids of all questions except drafts, which only run if they are selected by id. Raises `ConfigError` if
    all questions are drafts.
    """
    drafts = set(benchmark.unfinished_ids())
    ids = [id for id in benchmark.ids if id not in drafts] if drafts else benchmark.ids
    if drafts and not ids:
        problem = "every question in the benchmark is a draft (`finished: false`)"
        raise ConfigError(
            [f"{problem}; select the questions to run (--question), or set `finished` to true in the file"]
        )
    return ids


def select_questions(
    benchmark: QuestionSource,
    config: VerificationConfig,
    question_ids: Iterable[str] | None = None,
    *,
    files: QuestionFiles | None = None,
) -> Sequence[Question]:
    """Return the questions of a run, with their rubrics merged and their files looked up: those in `question_ids`, in
    this order, or by default all except drafts. Raises `ConfigError` if an id in `question_ids` or a name in
    `rubric_trait_names` is unknown.

    Files are looked up in `files`, if given. If more than `MAX_IN_MEMORY` questions of a streamed benchmark are
    selected, or more than a few of a large file, they are read again each time they are accessed.
    """
    named = None if question_ids is None else tuple(dict.fromkeys(question_ids))
    unknown = [id for id in named or () if id not in benchmark]
    if unknown:
        raise ConfigError([f"the benchmark has no question {id!r}{did_you_mean(id, benchmark.ids)}" for id in unknown])
    if named is not None:
        named = tuple(dict.fromkeys(map(benchmark.written_id, named)))
    names = config.core.rubric_trait_names or ()
    traits = benchmark.trait_names() if names else ()
    unknown_traits = [name for name in names if name not in traits]
    if unknown_traits:
        raise ConfigError(
            [
                f"rubric_trait_names: the benchmark has no trait {name!r}{did_you_mean(name, traits)}"
                for name in unknown_traits
            ]
        )
    ids = named if named is not None else default_ids(benchmark)
    files = files if files is not None else files_of(benchmark)
    selected = _EffectiveQuestions(benchmark, ids, config.core.rubric_trait_names, files)
    return selected if benchmark.streamed and len(selected) > _max_in_memory(benchmark.path) else list(selected)


def _max_in_memory(file: Path | None) -> int:
    """Return how many questions from a streamed file are kept in memory: fewer if the file is large, or has been
    deleted.
    """
    try:
        size = file.stat().st_size if file is not None else 0
    except OSError:  # it was deleted, but it is open and can still be read
        size = _LARGE_FILE
    return MAX_IN_MEMORY if size < _LARGE_FILE else min(_MAX_OF_LARGE_FILE, MAX_IN_MEMORY)


def files_of(benchmark: QuestionSource, journal: Path | None = None) -> QuestionFiles:
    """Return the attached files of a benchmark. Digests of missing files are taken from `journal`."""
    return QuestionFiles(benchmark.path.parent if benchmark.path is not None else None, journal)


def texts_of(questions: Sequence[Question]) -> Iterator[tuple[str, str]]:
    """Yield the id and text of each question, without building the questions of a streamed file."""
    if isinstance(questions, _EffectiveQuestions):
        return questions.texts()
    return ((question.id, question.question) for question in questions)


class _EffectiveQuestions(Sequence["Question"]):
    """A view of the questions with the given ids, with their rubrics merged.

    A question is built each time it is accessed. This raises `ConfigError` if its traits clash with the benchmark's
    traits.
    """

    def __init__(
        self, benchmark: QuestionSource, ids: Sequence[str], trait_names: Iterable[str] | None, files: QuestionFiles
    ) -> None:
        self._benchmark = benchmark
        self._files = files
        self._ids = ids
        self._trait_names = trait_names

    def texts(self) -> Iterator[tuple[str, str]]:
        """Return an iterator over the ids and texts of the questions."""
        return self._benchmark.texts(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def __iter__(self) -> Iterator[Question]:
        """Yield the questions, reading several of them in a row. An error is raised when its question is reached."""
        for start in range(0, len(self), _READ_TOGETHER):
            read: list[Question] = []
            try:
                read.extend(self[index] for index in range(start, min(start + _READ_TOGETHER, len(self))))
            finally:
                yield from read

    @overload
    def __getitem__(self, index: int) -> Question: ...
    @overload
    def __getitem__(self, index: slice) -> _EffectiveQuestions: ...
    def __getitem__(self, index: int | slice) -> Question | _EffectiveQuestions:
        """Return one question with its merged rubric or, for a slice, a view of several questions. Raises `ConfigError`
        if a question's traits clash with the benchmark's traits.
        """
        if isinstance(index, slice):
            return _EffectiveQuestions(self._benchmark, self._ids[index], self._trait_names, self._files)
        question = self._benchmark.get(self._ids[index])
        try:
            return self._files.resolve(self._benchmark.with_shared_traits(question, self._trait_names))
        except ValueError as error:
            raise ConfigError([f"question {question.id}: {error}"]) from error
