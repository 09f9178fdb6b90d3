"""Prepare a run: check the request, open the journal, and make the session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from karenina_core.config import plugins_of
from karenina_core.errors import ConfigError
from karenina_engine.scheduling.judge_checks import check_judges
from karenina_engine.scheduling.questions import select_questions, with_workspace_root
from karenina_engine.scheduling.recording_checks import check_recordings
from karenina_engine.scheduling.restricted_values import describe_named_files, require_trust, resolve_trust
from karenina_engine.scheduling.run_checks import make_session
from karenina_engine.scheduling.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_engine.journal.journal import Journal
    from karenina_engine.journal.question_source import QuestionSource
    from karenina_engine.journal.request import RunRequest
    from karenina_engine.scheduling.session import RunSession

logger = logging.getLogger("karenina")
_MOST_COMPARED: Final = 100


@contextmanager
def open_run(request: RunRequest) -> Iterator[RunSession]:
    """Prepare a run, and hold its journal, if it has one, inside the `with` block.

    The journal is created, opened or set aside after all checks, so a run that cannot begin leaves it unchanged. Raises
    `RestrictedValues`, `JournalError`, `ConfigError` and `PlanError`.
    """
    from karenina_engine.journal.command import make_command
    from karenina_engine.journal.journal import Journal

    if request.replay and request.journal is None:
        raise ConfigError(["a replay needs a journal, which replaces the models: give one (journal, --journal)"])
    session = prepare_run(request, offline=request.replay)
    benchmark, config = request.benchmark, request.config
    if not request.replay:
        check_recordings(session, benchmark)
    if request.journal is None:
        yield session
        return
    with Journal.open(
        request.journal,
        fresh=request.fresh,
        replaying=request.replay,
        sync=config.section(EngineSettings).journal_sync,
        limits=session.limits,
    ) as journal:
        _warn_of_other_questions(benchmark, journal)
        yield session.with_journal(journal, {**make_command(request), **describe_named_files(benchmark, config)})


def prepare_session(
    request: RunRequest, *, journal: Journal | None = None, command: Mapping[str, Any] | None = None
) -> RunSession:
    """Return a session that has passed all checks. Raises `ConfigError` and `PlanError`.

    With an open `journal`, the run stores its replies and results there, and resumes what an earlier run left.
    `command` is what the journal stores of how the run was started (`karenina_engine.journal.command`). `open_run` does
    all of this.
    """
    offline = journal is not None and journal.replaying
    session = prepare_run(request, offline=offline)
    if not offline:
        check_recordings(session, request.benchmark)
    return session if journal is None else session.with_journal(journal, command)


def prepare_run(request: RunRequest, *, offline: bool = False, trust_checked: bool = False) -> RunSession:
    """Return the session of the requested run after all checks; `offline` says that no model may be called.

    `trust_checked` says that `require_trust` was called before. Raises `ConfigError` and `PlanError`.
    """
    benchmark = request.benchmark
    trust = resolve_trust(request.trust) if trust_checked else require_trust(benchmark, request.config, request.trust)
    config = with_workspace_root(benchmark, request.config)
    questions = select_questions(benchmark, config, request.question_ids)
    session = make_session(
        questions,
        config,
        plugins_of(config),
        trust=trust,
        policy=request.policy,
        offline=offline,
        observers=request.observers,
    )
    if not offline or not config.core.parsing_models:
        check_judges(session, questions)
    return session


def _warn_of_other_questions(benchmark: QuestionSource, journal: Journal) -> None:
    """Warn if the journal is that of another benchmark: its last run has no question of this one, which is a file."""
    from karenina_engine.journal.view import JournalView

    if benchmark.path is None or not journal.had_results:
        return
    with JournalView(journal.path) as view:
        ids = view.first_questions(_MOST_COMPARED)
    if ids and not any(id in benchmark for id in ids):
        logger.warning(
            "the journal %s is of another benchmark: %s has none of its questions (the first is %r), so no result is "
            "taken from it, and this run is added to it; to keep the runs apart, name another file with --journal (in "
            "Python: journal)",
            *(journal.path, benchmark.path, ids[0]),
        )
