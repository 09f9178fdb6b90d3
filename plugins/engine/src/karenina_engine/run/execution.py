"""The execution of a run session: writing results to a file as items end, and counting or collecting them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from karenina_core.data.result import VerificationResult
from karenina_engine.journal.command import is_same_run
from karenina_engine.results.aggregate import Totals
from karenina_engine.results.header import header_line
from karenina_engine.results.result_file import ResultFile, prepare_output
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.run.precompute import precompute_results

if TYPE_CHECKING:
    from karenina_engine.run.session import PrecomputedPart, RunSession

OnResult = Callable[[VerificationResult], None]
OnIndexedResult = Callable[[int, VerificationResult], None]
"""Called with an item's index in the matrix and its result."""

logger = logging.getLogger("karenina")


async def execute_session(
    session: RunSession,
    *,
    output: str | Path | None = None,
    on_result: OnIndexedResult | None = None,
    computed: PrecomputedPart | None = None,
) -> Totals:
    """Execute the run and return its totals; results are not kept in memory.

    With `output`, each result is written to that JSONL file when its item ends; at the end of the run, the lines are
    sorted in matrix order. The first line is a header that names the run's distributions
    (`karenina_engine.results.header`). An existing file is renamed, unless the run that wrote it is resumed: then it is
    replaced, and its results are written again. `computed` is what `precompute_results` yielded, if the caller has
    already entered it. Raises `ConfigError` if the file cannot be written.
    """
    totals = Totals(per_question=session.config.core.replicate_count)
    with (
        precompute_results(session) if computed is None else nullcontext(computed) as ready,
        _result_file(session, Path(output)) if output is not None else nullcontext() as file,
    ):
        begun = False
        async with aclosing(session.indexed_results(ready)) as results:
            async for index, result, line in results:
                totals.add(result)
                if file is not None and not begun:
                    begun = True
                    file.write(-1, _header(session))
                if file is not None:
                    file.write(index, line if line is not None else result.model_dump_json())
                if on_result is not None:
                    on_result(index, result)
        if file is not None:
            if not begun:
                file.write(-1, _header(session))
            file.sort_lines()
    return totals


async def collect_results(
    session: RunSession, *, output: str | Path | None = None, on_result: OnResult | None = None
) -> VerificationResultSet:
    """Return all results of a run in matrix order. The arguments are as for `execute_session`."""
    found: list[tuple[int, VerificationResult]] = []

    def keep(index: int, result: VerificationResult) -> None:
        found.append((index, result))
        if on_result is not None:
            on_result(result)

    await execute_session(session, output=output, on_result=keep)
    found.sort(key=lambda one: one[0])
    return VerificationResultSet(result for _, result in found)


def _header(session: RunSession) -> str:
    """Return the header for a run's result file. The run must have begun, since its journal does not know it before."""
    journal = session.journal
    if journal is None:
        return header_line(session.distributions, free=session.ledger.free)
    last, place = journal.last_command() or {}, dict.fromkeys(("folder", "output", "config_file", "benchmark"))
    rescored = journal.replaying and not is_same_run({**last, **place}, {**session.command, **place})
    return header_line(session.distributions, journal.run_digest(), rescored=rescored, free=session.ledger.free)


def _result_file(session: RunSession, path: Path) -> ResultFile:
    """Return a file, opened for the run's results; an existing one is renamed unless this run continues it."""
    last = session.journal.last_command() if session.journal is not None else None
    goes_on = last is not None and is_same_run(last, session.command)
    moved = prepare_output(
        path, ours=session.journal.holds_all_lines if goes_on and session.journal is not None else None
    )
    if moved is not None:
        logger.warning("%s held earlier results: they are kept in %s", path, moved)
    return ResultFile(path)
