"""Load a benchmark for a command that runs or plans it, after the checks of `karenina check`."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.config import VerificationConfig
    from karenina_core.data.trust import Trust

logger = logging.getLogger("karenina")


def load_checked(
    file: Path,
    trust: Trust | Literal["all"] | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    skip_broken: bool = False,
) -> Benchmark:
    """Load a benchmark. Raises `BenchmarkErrors` with all errors of the file if one of them prevents it."""
    from karenina_benchmark import Benchmark, CheckpointError
    from karenina_benchmark.checking import check_file

    try:
        return Benchmark.load(file, trust, skip_broken=skip_broken, columns=columns)
    except CheckpointError:
        check_file(file, trust, columns)[1].raise_errors()
        raise


def select_usable(
    benchmark: Benchmark,
    trust: Trust | Literal["all"] | None,
    config: VerificationConfig,
    ids: Iterable[str],
    *,
    skip_broken: bool = False,
) -> list[str]:
    """Return the ids of the questions to run: `ids` without those that have errors.

    Raises `BenchmarkErrors` for errors, unless `skip_broken` says that questions with errors are left out. It lists the
    values that need trust too, so that one error does not hide what the file would do.
    """
    from karenina_benchmark.checking import BenchmarkErrors, check_content, find_untrusted_values

    wanted = list(ids)
    errors = [one for one in check_content(benchmark, trust, config, wanted) if one.level == "error"]
    broken = {one.question for one in errors}
    if errors and (not skip_broken or None in broken):
        raise BenchmarkErrors([*errors, *find_untrusted_values(benchmark, trust)])
    for error in errors:
        logger.warning("left out: %s", error)
    return [id for id in wanted if id not in broken]
