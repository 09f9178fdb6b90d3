"""The check, before a run, that recorded answers match the questions."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from karenina_core.config import find_adapter
from karenina_core.errors import ConfigError
from karenina_core.models.ports import CallInfo
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.plugins import Plugins
    from karenina_engine.question_source import QuestionSource

logger = logging.getLogger("karenina")

_CURE = (
    "give every question a recording, with the question's id or text; or run with the recordings that match: "
    "--partial (partial_recordings = true)"
)


def check_recordings(
    plugins: Plugins, config: VerificationConfig, questions: Sequence[Question], benchmark: QuestionSource
) -> None:
    """Check that every question has a recorded answer, and every recording a question.

    Raises `ConfigError` with the mismatches; with `partial_recordings`, logs them as warnings.
    """
    problems: list[str] = []
    for model in config.core.answering_models:
        mismatches = find_adapter(plugins, model.interface).spec.mismatches
        if mismatches is not None:
            problems += mismatches(
                model, _call_infos(questions, config.core.replicate_count), _unselected(benchmark, questions)
            )
    if not problems:
        return
    if not config.section(EngineSettings).partial_recordings:
        raise ConfigError([*problems, _CURE])
    for problem in problems:
        logger.warning("%s", problem)


def _call_infos(questions: Iterable[Question], replicates: int = 1) -> Iterator[CallInfo]:
    for question in questions:
        for replicate in range(1, replicates + 1):
            yield CallInfo(question_id=question.id, question=question.question, replicate=replicate)


def _unselected(benchmark: QuestionSource, questions: Sequence[Question]) -> Iterator[CallInfo]:
    return _call_infos(benchmark) if len(questions) < len(benchmark) else iter(())
