"""Preparing a run: checking the request, opening the journal, and creating the session."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from karenina_core.config import all_settings
from karenina_core.errors import ConfigError, KareninaError
from karenina_engine.check.attachments import AttachmentCheck, QuestionFiles
from karenina_engine.check.judge_needs import JudgeNeeds
from karenina_engine.check.planner import Planner
from karenina_engine.check.plugin_checks import warn_about_plugins
from karenina_engine.check.questions import files_of, select_questions
from karenina_engine.check.restricted_values import check_restricted_values, describe_named_files, resolve_trust
from karenina_engine.check.run_checks import (
    check_budget,
    check_configured_models,
    check_questions,
    check_recordings,
    check_request,
)
from karenina_engine.cost.budget import Budget
from karenina_engine.cost.ledger import Ledger, PriceTable
from karenina_engine.model_settings import configured_models, model_settings
from karenina_engine.results.kept_files import FileStore, files_folder
from karenina_engine.results.result_file import default_journal
from karenina_engine.run.executor import AsyncioExecutor
from karenina_engine.run.matrix import Matrix
from karenina_engine.run.needed_files import refuse_missing_files
from karenina_engine.run.plugin_offers import configured_executor, configured_panel, find_observers
from karenina_engine.run.port_factory import RunParts, limit_calls
from karenina_engine.run.request import make_command
from karenina_engine.run.session import RunSession
from karenina_engine.settings import EngineSettings
from karenina_template.rules import RuleLines
from karenina_toolkit.plugin_lookup import plugins_of

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.plugins import Plugins
    from karenina_engine.calls.retry import RetryPolicy
    from karenina_engine.journal.journal import Journal
    from karenina_engine.question_source import QuestionCheck, QuestionSource
    from karenina_engine.run.request import RunRequest


logger = logging.getLogger("karenina")
_MOST_COMPARED: Final = 100


@contextmanager
def open_run(request: RunRequest) -> Iterator[RunSession]:
    """Check a request, and yield the session of its run, whose journal is locked inside the `with` block. Nothing is
    run yet. If a check fails, raises its error and leaves the journal as it is.

    Raises `RestrictedValues` if the benchmark needs the user's trust, `PlanError` if a question has no valid plan,
    `JournalError` if the journal cannot be used, and `ConfigError` for other problems.
    """
    from karenina_engine.journal.journal import Journal

    if request.replay and request.journal is None:
        raise ConfigError(
            [
                "a replay reads replies from a journal instead of calling models; set a journal (--journal; in Python: "
                "journal)"
            ]
        )
    session = prepare_run(request, offline=request.replay)
    benchmark, config = request.benchmark, request.config
    if not request.replay:
        check_recordings(session.parts.plugins, session.config, session.matrix.questions, benchmark)
    if request.journal is None:
        refuse_missing_files(session)
        yield session
        return
    if request.fresh:  # no reply will be reused, so every file is needed; the journal is not moved before it is there
        refuse_missing_files(session)
    with Journal.open(
        request.journal,
        fresh=request.fresh,
        replaying=request.replay,
        sync=config.section(EngineSettings).journal_sync,
        limits=session.limits,
    ) as journal:
        _warn_of_other_questions(benchmark, journal)
        command = make_command(request)
        if request.replay:
            _warn_of_missing_settings(command, journal)
        session = session.with_journal(journal, {**command, **describe_named_files(benchmark, config)})
        refuse_missing_files(session)
        yield session


def prepare_session(
    request: RunRequest, *, journal: Journal | None = None, command: Mapping[str, Any] | None = None
) -> RunSession:
    """Check a request, and return a session for it that uses the open `journal`, if given, and continues an earlier run
    for the same request. `command` describes how the run was started (see `karenina_engine.journal.command`). Raises
    `PlanError` if a question has no valid plan, and `ConfigError` for other problems.

    To open the journal as well, use `open_run`.
    """
    offline = journal is not None and journal.replaying
    if journal is not None:
        request = replace(request, journal=journal.path)
    session = prepare_run(request, offline=offline)
    if not offline:
        check_recordings(session.parts.plugins, session.config, session.matrix.questions, request.benchmark)
    session = session if journal is None else session.with_journal(journal, command)
    refuse_missing_files(session)
    return session


def prepare_run(
    request: RunRequest,
    *,
    offline: bool = False,
    trust_checked: bool = False,
    files: FileStore | None = None,
    attached: QuestionFiles | None = None,
) -> RunSession:
    """Return the session for a run, without a journal, after all checks except `check_recordings`. For `offline`, see
    `make_session`. Set `trust_checked` if `require_trust` has already been called. `files` replaces the store next to
    the journal, and `attached` the files that the benchmark's questions attach. Raises the errors of
    `request.question_check`, `PlanError` if a question has no valid plan, and `ConfigError` for any other problem with
    the request.
    """
    benchmark, question_check = request.benchmark, request.question_check
    trust, config = resolve_trust(request.trust), request.config
    attached = attached if attached is not None else files_of(benchmark, request.journal)
    try:
        if not trust_checked:
            config = check_restricted_values(benchmark, config, trust)
        return make_session(
            select_questions(benchmark, config, request.question_ids, files=attached),
            config,
            plugins_of(config),
            trust=trust,
            policy=request.policy,
            offline=offline,
            judged=not offline or not config.core.parsing_models,
            observers=request.observers,
            question_check=question_check,
            files=files if files is not None else _file_store(request.journal, request.output, config),
            attached=attached,
            rules=RuleLines() if request.journal is not None and not offline else None,
        )
    except KareninaError:
        if question_check is not None:
            question_check.raise_errors()
        raise


def make_session(
    questions: Sequence[Question],
    config: VerificationConfig,
    plugins: Plugins,
    *,
    trust: Trust,
    policy: RetryPolicy | None = None,
    offline: bool = False,
    judged: bool = False,
    observers: Sequence[object] = (),
    question_check: QuestionCheck | None = None,
    files: FileStore | None = None,
    attached: QuestionFiles | None = None,
    rules: RuleLines | None = None,
) -> RunSession:
    """Check a run over the given questions, and return its session, without a journal. If `offline` is set, no calls
    will be made: keys may be missing, the budget is ignored, and the items run in this process. If `judged` is set, the
    judges that stages call must be configured. Raises the error of `question_check`, `PlanError` if a question has no
    valid plan, and `ConfigError` for any other problem.

    `policy` replaces the retry settings. `observers` are called in addition to those from plugins, and `question_check`
    is called for each question. `files` stores the files of items; by default, no files are stored. `attached` are the
    files that the questions attach. The rules of templates are added to `rules`. Logs warnings about unusable plugins
    and settings that have no effect.
    """
    settings = config.section(EngineSettings)
    check_request(plugins, config, questions)
    executor = configured_executor(plugins, config)  # before the models: a wrong name is quicker to fix than a key
    check_configured_models(plugins, config, offline=offline)
    all_observers = find_observers(plugins, config, observers)
    planner = Planner(config, plugins, all_observers)
    judging = JudgeNeeds(plugins, config, trust)
    attachments = AttachmentCheck(plugins, config, attached or QuestionFiles(None), offline=offline)
    survey, named = check_questions(
        plugins,
        config,
        questions,
        trust,
        planner,
        judging,
        attachments,
        offline=offline,
        question_check=question_check,
        rules=rules,
    )
    models = [*(model for _, model in configured_models(config)), *named]
    ledger = Ledger(PriceTable(plugins, settings.prices))
    ledger.free = all(map(ledger.prices.is_free, models))
    budget = None
    if offline:  # without calls, other processes gain nothing; in this one, the error names every missing reply
        executor = AsyncioExecutor()
    else:
        limit = check_budget(settings, ledger.prices, models)
        attachments.check(has_budget=limit is not None and not ledger.free)
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
            all_observers,
            files=files if files is not None else FileStore(None, 0, 0),
            offline=offline,
        ),
        Matrix(
            questions,
            config,
            survey.pipelines,
            configured_panel(plugins, config),
            attachments,
            rules,
            survey.repeated,
        ),
        ledger=ledger,
        budget=budget,
        executor=executor,
    )
    executor.check(session)
    warn_about_plugins(plugins)
    if settings.budget is not None and not executor.keeps_budgets:
        why = f"the executor {settings.executor!r} does not support a budget"
        raise ConfigError([f'{why}; remove the budget, or set executor = "{AsyncioExecutor.name}"'])
    if judged:
        judging.check()
    return session


def _file_store(journal: Path | None, output: Path | None, config: VerificationConfig) -> FileStore:
    """Return the store for items' files. Its folder is next to the journal, or next to where the journal would be. If
    there is neither a journal nor an output, no files are stored.
    """
    settings = config.section(EngineSettings)
    journal = journal or (default_journal(output) if output is not None else None)
    folder = files_folder(journal) if journal is not None else None
    return FileStore(folder, settings.kept_file_bytes, settings.kept_files_bytes)


def _warn_of_other_questions(benchmark: QuestionSource, journal: Journal) -> None:
    """Log a warning if none of the journal's first results belongs to a question in the benchmark."""
    from karenina_engine.journal.view import JournalView

    if benchmark.path is None or not journal.had_results:
        return
    with JournalView(journal.path) as view:
        ids = view.first_questions(_MOST_COMPARED)
    if ids and not any(id in benchmark for id in ids):
        logger.warning(
            "the journal %s belongs to another benchmark: %s contains none of its questions (the first is %r). No "
            "results are taken from the journal, and this run is added to it; to keep the runs apart, set --journal "
            "to another file (in Python: journal)",
            *(journal.path, benchmark.path, ids[0]),
        )


def _warn_of_missing_settings(command: Mapping[str, Any], journal: Journal) -> None:
    """Log a warning if the run in the journal had settings, such as a sandbox, that its replay does not have, so that
    replies may not be found.
    """
    last = journal.last_command() or {}
    then = last.get("config")
    of_results = {name for name, setting in all_settings().items() if setting.changes_results}
    missing = [
        f"--set {quote(f'{name}={value if isinstance(value, str) else json.dumps(value)}')}"
        for name, value in (then.items() if isinstance(then, Mapping) else ())
        if name in of_results - model_settings().keys() - command["config"].keys()
    ]
    if missing:
        logger.warning(
            "the run in %s had settings that this replay does not have, and replies that need them are not found; "
            "add %s",
            *(journal.path, " ".join(missing)),
        )
