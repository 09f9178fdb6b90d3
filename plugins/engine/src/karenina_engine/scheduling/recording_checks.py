"""Compare recorded answers with the questions of a run, before it begins."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo
from karenina_engine.scheduling.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_engine.journal.question_source import QuestionSource
    from karenina_engine.scheduling.prepared_run import PreparedRun

logger = logging.getLogger("karenina")

_CURE = (
    "give recordings the id or the text of their question; or run with what there is: --partial "
    "(partial_recordings = true)"
)


def check_recordings(prepared: PreparedRun, benchmark: QuestionSource) -> None:
    """Compare the recorded answers of a run with its questions.

    Raises `ConfigError` if questions have no recording, or recordings no question; with `partial_recordings`, warns.
    """
    config, questions = prepared.config, prepared.matrix.questions
    problems: list[str] = []
    for model in config.core.answering_models:
        mismatches = find_adapter(prepared.plugins, model.interface).spec.mismatches
        if mismatches is not None:
            problems += mismatches(model, _infos(questions, config.core.replicate_count), _others(benchmark, questions))
    if not problems:
        return
    if not config.section(EngineSettings).partial_recordings:
        raise ConfigError([*problems, _CURE])
    for problem in problems:
        logger.warning("%s", problem)


def _infos(questions: Iterable[Question], replicates: int = 1) -> Iterator[CallInfo]:
    for question in questions:
        for replicate in range(1, replicates + 1):
            yield CallInfo(question_id=question.id, question=question.question, replicate=replicate)


def _others(benchmark: QuestionSource, questions: Sequence[Question]) -> Iterator[CallInfo]:
    return _infos(benchmark) if len(questions) < len(benchmark) else iter(())
