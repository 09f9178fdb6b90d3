"""Start a run from a benchmark: choose the questions, collect the results, and keep them on disk as they end."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from karenina_core.config import plugins_of, settings
from karenina_core.errors import ConfigError, RunError, told
from karenina_core.models.from_files import stays_below
from karenina_core.outside import from_outside
from karenina_core.wording import nearest
from karenina_engine.scheduling.admission import admit
from karenina_engine.scheduling.collecting import rarely_collected
from karenina_engine.scheduling.judges import check_judges
from karenina_engine.scheduling.loops import run_in_loop
from karenina_engine.scheduling.offered_executors import executor_of
from karenina_engine.scheduling.preparation import prepared_run
from karenina_engine.scheduling.prepared import PreparedRun
from karenina_engine.scheduling.recorded import check_recordings
from karenina_engine.scheduling.session import RunSession
from karenina_engine.scheduling.settings import EngineSettings

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_engine.journal.journal import Journal
    from karenina_engine.journal.question_source import QuestionSource
    from karenina_engine.journal.request import RunRequest
    from karenina_engine.scheduling.executors import Executor

T = TypeVar("T")

logger = logging.getLogger("karenina")

MOST_HELD = 500
"""How many questions of a file of lines are held: fewer are read once, more are read whenever they are wanted."""


@contextmanager
def open_run(request: RunRequest) -> Iterator[RunSession]:
    """Prepare a run, and hold its journal, if it has one, while the block lasts.

    The journal is made, opened or put aside after all checks: a run that cannot begin leaves it as it is. Raises
    `RestrictedValues`, `JournalError`, `ConfigError` and `PlanError`.
    """
    if request.replay and request.journal is None:
        raise ConfigError(["replay asks a journal instead of models: say which (journal, --journal)"])
    admitted = replace(request, trust=admitting(request.benchmark, request.config, request.trust))
    prepared, executor = _ready(admitted, offline=request.replay, admitted=True)
    with _journal_of(admitted) as (journal, command):
        yield RunSession(prepared, executor=executor, journal=journal, command=command)


def prepare(
    request: RunRequest,
    *,
    journal: Journal | None = None,
    command: Mapping[str, Any] | None = None,
    admitted: bool = False,
) -> RunSession:
    """Return a run, checked and ready. Raises `ConfigError` and `PlanError`.

    With an open `journal` the run keeps its replies and results there, and goes on where an earlier one stopped;
    `command` is what the journal notes of how the run was started (`karenina_engine.journal.command`). `admitted` says
    that `karenina_engine.scheduling.admission.admit` was called before. `open_run` does all of it.
    """
    prepared, executor = _ready(request, offline=journal is not None and journal.replaying, admitted=admitted)
    return RunSession(prepared, executor=executor, journal=journal, command=command)


def _ready(request: RunRequest, *, offline: bool, admitted: bool) -> tuple[PreparedRun, Executor]:
    """Return the run after all checks, and what executes it."""
    prepared = checked(request, offline=offline, admitted=admitted)
    if not offline:
        check_recordings(prepared, request.benchmark)
    return prepared, executor_of(prepared)


def checked(request: RunRequest, *, offline: bool = False, admitted: bool = False) -> PreparedRun:
    """Return the run that was requested, after all checks; `offline` says that no model may be called.

    Raises `ConfigError` and `PlanError`.
    """
    benchmark = request.benchmark
    trust = _trust(request.trust) if admitted else admitting(benchmark, request.config, request.trust)
    config = with_own_settings(benchmark, request.config)
    questions = chosen_questions(benchmark, config, request.question_ids)
    prepared = prepared_run(questions, config, plugins_of(config), trust=trust, policy=request.policy, offline=offline)
    if not offline or not config.core.parsing_models:
        check_judges(prepared, questions)
    return prepared


def admitting(benchmark: QuestionSource, config: VerificationConfig, trust: Trust | Literal["all"] | None) -> Trust:
    """Return the trust that `trust` stands for, if all values of the benchmark that take effect have it.

    Raises `RestrictedValues`.
    """
    chosen = _trust(trust)
    admit(benchmark, config, chosen)
    return chosen


def _trust(trust: Trust | Literal["all"] | None) -> Trust:
    from karenina_core.data.trust import Trust
    from karenina_engine.journal.trust_store import stored_trust

    if trust is None:
        return stored_trust()
    return Trust.all() if trust == "all" else trust


def with_own_settings(benchmark: QuestionSource, config: VerificationConfig) -> VerificationConfig:
    """Return the configuration with the benchmark's own `workspace_root`, for the settings that follow it.

    A root that a file names is relative to that file. If it leads out of the file's folder, it has no effect where the
    user's configuration sets the settings; else the user trusts it, which `admit` has made sure of.
    """
    root = benchmark.workspace_root
    owned = settings().items()
    following = [name for name, setting in owned if setting.follows == "workspace_root" and config.has(name)]
    if root is None or not following:
        return config
    if benchmark.path is not None and root == benchmark.workspace_root_in_file:
        if not stays_below(benchmark.path.parent, str(root)) and all(
            config.setting(name) is not None and name not in config.benchmark_names for name in following
        ):
            return config
        root = (benchmark.path.resolve().parent / root).resolve()
    return config.with_values(**dict.fromkeys(following, root))


def chosen_questions(
    benchmark: QuestionSource, config: VerificationConfig, question_ids: Iterable[str] | None = None
) -> Sequence[Question]:
    """The questions to ask, each with its merged rubric. Raises `ConfigError` for an id that the benchmark lacks."""
    wanted = None if question_ids is None else tuple(dict.fromkeys(question_ids))
    unknown = [id for id in wanted or () if id not in benchmark]
    if unknown:
        raise ConfigError([f"the benchmark has no question {id!r}{nearest(id, benchmark.ids)}" for id in unknown])
    names = config.core.rubric_trait_names or ()
    traits = benchmark.trait_names() if names else ()
    strangers = [name for name in names if name not in traits]
    if strangers:
        raise ConfigError(
            [f"rubric_trait_names: the benchmark has no trait {name!r}{nearest(name, traits)}" for name in strangers]
        )
    chosen = Effective(benchmark, wanted if wanted is not None else benchmark.ids, config.core.rubric_trait_names)
    return chosen if benchmark.streamed and len(chosen) > MOST_HELD else list(chosen)


class Effective(Sequence["Question"]):
    """The questions of a benchmark with these ids as a run takes them, each made when it is asked for, and anew.

    Raises `ConfigError` for a question whose traits clash with those of the benchmark.
    """

    def __init__(self, benchmark: QuestionSource, ids: Sequence[str], trait_names: Iterable[str] | None) -> None:
        self._benchmark = benchmark
        self._ids = ids
        self._trait_names = trait_names

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, place: int) -> Question: ...
    @overload
    def __getitem__(self, place: slice) -> Effective: ...
    def __getitem__(self, place: int | slice) -> Question | Effective:
        if isinstance(place, slice):
            return Effective(self._benchmark, self._ids[place], self._trait_names)
        question = self._benchmark.get(self._ids[place])
        try:
            return self._benchmark.with_shared_traits(question, self._trait_names)
        except ValueError as error:
            raise ConfigError([f"question {question.id}: {error}"]) from error


@contextmanager
def _journal_of(request: RunRequest) -> Iterator[tuple[Journal | None, Mapping[str, Any]]]:
    """Hold the journal of a run while the block lasts, and return it with what it notes of the command."""
    from karenina_engine.journal.command import command_of
    from karenina_engine.journal.journal import Journal

    if request.journal is None:
        yield None, {}
        return
    sync = request.config.section(EngineSettings).journal_sync
    with Journal.open(request.journal, fresh=request.fresh, replaying=request.replay, sync=sync) as journal:
        yield journal, command_of(request)


@contextmanager
def _nobody_ending_it() -> Iterator[None]:
    """Make an error of what ends a program, where no signal and no user asked for it: a plugin's task let it out."""
    try:
        yield
    except (SystemExit, KeyboardInterrupt, GeneratorExit) as error:
        if from_outside(error, None):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise RunError(
            f"something in the run tried to end the program: {told(error)}, raised in {where.name} ({where.filename}, "
            f"line {where.lineno}); what was finished is kept, and the run goes on when that is mended"
        ) from error


def _has_running_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_blocking(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of a coroutine, also where an event loop runs already (a notebook): then in a thread of its own."""
    if not _has_running_loop():
        with rarely_collected(), _nobody_ending_it():
            return run_in_loop(work)
    context = contextvars.copy_context()
    outcome: list[T] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            with rarely_collected(), _nobody_ending_it():
                outcome.append(context.run(run_in_loop, work))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=target, name="karenina-run")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]
