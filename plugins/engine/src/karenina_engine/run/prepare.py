"""The preparation of a run: checking the request, opening the journal, and creating the session."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from karenina_core.config import plugins_of
from karenina_core.errors import ConfigError
from karenina_engine.check.planner import Planner
from karenina_engine.check.plugin_checks import warn_about_plugins
from karenina_engine.check.questions import select_questions
from karenina_engine.check.restricted_values import check_restricted_values, describe_named_files, resolve_trust
from karenina_engine.check.run_checks import (
    check_budget,
    check_configured_models,
    check_questions,
    check_recordings,
    check_request,
)
from karenina_engine.check.stage_checks import check_judges
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger
from karenina_engine.cost.price_table import PriceTable
from karenina_engine.results.kept_files import FileStore, files_folder
from karenina_engine.results.result_file import default_journal
from karenina_engine.run.executor import AsyncioExecutor
from karenina_engine.run.matrix import Matrix
from karenina_engine.run.plugin_offers import configured_executor, configured_panel, find_observers
from karenina_engine.run.request import make_command
from karenina_engine.run.run_parts import RunParts, limit_calls
from karenina_engine.run.session import RunSession
from karenina_engine.settings import EngineSettings

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.journal.journal import Journal
    from karenina_engine.question_source import QuestionSource
    from karenina_engine.run.request import RunRequest

logger = logging.getLogger("karenina")
_MOST_COMPARED: Final = 100


@contextmanager
def open_run(request: RunRequest) -> Iterator[RunSession]:
    """Prepare a run, and hold its journal, if it has one, inside the `with` block.

    The journal is created, opened or renamed only after all checks, so a run that cannot start leaves it unchanged.
    Raises `RestrictedValues`, `JournalError`, `ConfigError` and `PlanError`.
    """
    from karenina_engine.journal.journal import Journal

    if request.replay and request.journal is None:
        raise ConfigError(["a replay needs a journal, which replaces the models: give one (journal, --journal)"])
    session = prepare_run(request, offline=request.replay)
    benchmark, config = request.benchmark, request.config
    if not request.replay:
        check_recordings(session.parts.plugins, session.config, session.matrix.questions, benchmark)
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

    With an open `journal`, the run stores its replies and results there, and resumes an earlier run of the same
    request. `command` is what the journal stores about how the run was started (`karenina_engine.journal.command`).
    `open_run` does all of this.
    """
    offline = journal is not None and journal.replaying
    if journal is not None:
        request = replace(request, journal=journal.path)
    session = prepare_run(request, offline=offline)
    if not offline:
        check_recordings(session.parts.plugins, session.config, session.matrix.questions, request.benchmark)
    return session if journal is None else session.with_journal(journal, command)


def prepare_run(
    request: RunRequest, *, offline: bool = False, trust_checked: bool = False, files: FileStore | None = None
) -> RunSession:
    """Return the session of the requested run after all checks; `offline` says that no model may be called.

    `trust_checked` says that `require_trust` was called before. `files` replaces the store beside the journal.
    Raises `ConfigError` and `PlanError`.
    """
    benchmark = request.benchmark
    trust, config = resolve_trust(request.trust), request.config
    if not trust_checked:
        config = check_restricted_values(benchmark, config, trust)
    questions = select_questions(benchmark, config, request.question_ids)
    session = make_session(
        questions,
        config,
        plugins_of(config),
        trust=trust,
        policy=request.policy,
        offline=offline,
        observers=request.observers,
        files=files if files is not None else _file_store(request.journal, request.output, config),
    )
    if not offline or not config.core.parsing_models:
        check_judges(session.parts.plugins, config, questions, trust, session.matrix.planner)
    return session


def make_session(
    questions: Sequence[Question],
    config: VerificationConfig,
    plugins: Plugins,
    *,
    trust: Trust,
    policy: RetryPolicy | None = None,
    offline: bool = False,
    observers: Sequence[object] = (),
    files: FileStore | None = None,
) -> RunSession:
    """Check a run over these questions for everything that would fail every item, and return its session.

    `observers` are called in addition to those of plugins, and `files` stores the files of items.

    Raises `ConfigError` if a model cannot be used, and
    `PlanError` if a question has no plan.
    """
    core, settings = config.core, config.section(EngineSettings)
    check_request(plugins, config, questions)
    executor = configured_executor(plugins, config)  # before the models: a wrong name is quicker to fix than a key
    check_configured_models(plugins, config, offline=offline)
    found = find_observers(plugins, config, observers)
    planner = Planner(config, plugins, found)
    named = check_questions(plugins, config, questions, trust, planner, offline=offline)
    ledger = Ledger(PriceTable(plugins, settings.prices))
    budget = None
    if offline:  # without calls, other processes gain nothing; in this one, the error names every missing reply
        executor = AsyncioExecutor()
    else:
        models = [*core.answering_models, *core.parsing_models, *named]
        ledger.free = all(map(ledger.prices.is_free, models))
        limit = check_budget(settings, ledger.prices, models)
        budget = Budget(limit, ledger) if limit is not None else None
    policy = policy or settings.retry_policy()
    limits = limit_calls(plugins, settings.concurrency(), policy.patience)
    session = RunSession(
        RunParts(
            plugins,
            config,
            trust,
            policy,
            limits,
            found,
            files=files if files is not None else FileStore(None, 0, 0),
            offline=offline,
        ),
        Matrix(questions, config, planner, configured_panel(plugins, config)),
        ledger=ledger,
        budget=budget,
        executor=executor,
    )
    executor.check(session)
    warn_about_plugins(plugins)
    if settings.budget is not None and not executor.keeps_budgets:
        why = f"the executor {settings.executor!r} does not support a budget"
        raise ConfigError([f'{why}: remove the budget, or set executor = "{AsyncioExecutor.name}"'])
    return session


def _file_store(journal: Path | None, output: Path | None, config: VerificationConfig) -> FileStore:
    """Return the store of the files of items: beside the journal, or without one where the default journal would be."""
    settings = config.section(EngineSettings)
    journal = journal or (default_journal(output) if output is not None else None)
    folder = files_folder(journal) if journal is not None else None
    return FileStore(folder, settings.kept_file_bytes, settings.kept_files_bytes)


def _warn_of_other_questions(benchmark: QuestionSource, journal: Journal) -> None:
    """Log a warning if the journal belongs to another benchmark: none of its first results is of a question in it."""
    from karenina_engine.journal.view import JournalView

    if benchmark.path is None or not journal.had_results:
        return
    with JournalView(journal.path) as view:
        ids = view.first_questions(_MOST_COMPARED)
    if ids and not any(id in benchmark for id in ids):
        logger.warning(
            "the journal %s belongs to another benchmark: %s has none of its questions (the first is %r), so no result "
            "is taken from it, and this run is added to it; to keep the runs apart, name another file with --journal "
            "(in Python: journal)",
            *(journal.path, benchmark.path, ids[0]),
        )
