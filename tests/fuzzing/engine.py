"""Try inputs of one kind for some time, and keep one small input for each kind of failure."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from hypothesis import strategies as st

from fuzzing.law import Broken, Law, signature

T = TypeVar("T")
Check = Callable[[T], bool]
HOME: Final = "home"
"""A folder beside the files of a kind that is never emptied."""
_BATCH: Final = 400
"""Inputs between two looks at the clock and at what was found; shrinking comes at the end of each batch."""


@dataclass(frozen=True)
class Kind(Generic[T]):
    """One kind of input.

    `opened` makes what the inputs are given to, in a folder of its own, and gives a function that takes one input: it
    returns whether the input was accepted (False: refused with a documented error), and raises for all else. `valid`
    are inputs that have to be accepted, and `regressions` are inputs that broke the law once. `shown` writes an input
    to a file for people.
    """

    name: str
    inputs: st.SearchStrategy[T]
    opened: Callable[[Path], AbstractContextManager[Check[T]]]
    valid: Sequence[T] = ()
    regressions: Sequence[T] = ()
    shown: Callable[[T], bytes] = lambda one: one if isinstance(one, bytes) else repr(one).encode()
    seconds: float = 2.0
    servers: bool = False
    programs: Callable[[Any], bool] = lambda _arguments: False


@dataclass
class Finding(Generic[T]):
    """One way in which the law was broken: by how many inputs, and the smallest of them."""

    signature: str
    example: T
    error: BaseException
    count: int = 1


@dataclass
class Report(Generic[T]):
    """The result of fuzzing for some time."""

    kind: Kind[T]
    tried: int = 0
    accepted: int = 0
    seconds: float = 0.0
    findings: dict[str, Finding[T]] = field(default_factory=dict)

    def add(self, error: BaseException, example: T) -> bool:
        """Note a failure; whether it is a new one."""
        name = signature(error)
        known = self.findings.get(name)
        if known is None:
            self.findings[name] = Finding(name, example, error)
            return True
        known.count += 1
        if len(self.kind.shown(example)) < len(self.kind.shown(known.example)):
            known.example, known.error = example, error
        return False


class Fuzzer(Generic[T]):
    """A kind, opened in a folder of this run: `try_one` gives it one input under the law."""

    def __init__(self, kind: Kind[T], folder: Path, *, patience: float = 1.0) -> None:
        self.kind = kind
        inside, outside = folder / "inside", folder / "outside"
        for place in (inside, outside):
            place.mkdir(parents=True, exist_ok=True)
        (outside / "secret.csv").write_text("question,raw_answer\nWhich secret?,this one\n", "utf-8")
        (outside / "secret.jsonl").write_text(
            '{"question": "Which secret?", "id": "q1", "response": "this"}\n', "utf-8"
        )
        self.law = Law(inside, outside, seconds=kind.seconds * patience, servers=kind.servers, programs=kind.programs)
        self._inside = inside
        self._opened: AbstractContextManager[Check[T]] | None = None
        self._check: Check[T] | None = None

    def __enter__(self) -> Fuzzer[T]:
        self._opened = self.kind.opened(self._inside)
        self._check = self._opened.__enter__()
        for one in self.kind.valid:  # what is imported on first use is no input's fault
            assert self._check(one), f"a valid input of {self.kind.name} was refused: {self.kind.shown(one)!r:.300}"
        return self

    def __exit__(self, *error: Any) -> None:
        assert self._opened is not None
        self._opened.__exit__(*error)

    def try_one(self, one: T) -> bool:
        """Return whether the input was accepted. Raises if it breaks the law."""
        assert self._check is not None
        with self.law.holds():
            return self._check(one)


def fuzz(
    laboratory: Fuzzer[T],
    *,
    seconds: float,
    first_seed: int = 0,
    most: int | None = None,
    about_to: Callable[[T], None] = lambda _one: None,
) -> Report[T]:
    """Try new inputs until the time is over, or `most` of them were tried; at least one.

    Each batch has a seed of its own, so that the same arguments try the same inputs. A failure that is new is made
    smaller; `about_to` sees each input before it is tried, for those that kill the process.
    """
    kind = laboratory.kind
    report: Report[T] = Report(kind)
    began = time.monotonic()

    def over() -> bool:
        if not report.tried:  # on a busy machine, the first input alone may take longer to make
            return False
        return time.monotonic() - began > seconds or (most is not None and report.tried >= most)

    def one_batch(number: int, known: frozenset[str]) -> None:
        @seed(number)
        @settings(
            max_examples=min(_BATCH, most or _BATCH),
            phases=[Phase.generate, Phase.shrink],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            report_multiple_bugs=True,
            verbosity=Verbosity.quiet,
            print_blob=False,
        )
        @given(kind.inputs)
        def batch(one: T) -> None:
            if over():
                return
            report.tried += 1
            about_to(one)
            try:
                report.accepted += laboratory.try_one(one)
            except (Exception, Broken) as error:
                report.add(error, one)
                if signature(error) not in known:
                    raise AssertionError(signature(error)) from error

        with suppress(AssertionError, ExceptionGroup):
            batch()

    number = first_seed
    while not over():
        one_batch(number, frozenset(report.findings))
        number += 1_000_003
        gc.collect()
    report.seconds = time.monotonic() - began
    return report


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a user without any configuration; home and temporary files are in `folder`."""
    home = folder / "inside" / HOME
    homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "KARENINA_CONFIG_HOME", "TMPDIR")
    for name in homes:
        (home / name.lower()).mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KARENINA_", "OTEL_"))}
    return {
        **kept,
        **{name: str(home / name.lower()) for name in homes},
        "HOME": str(home),
        "OPENAI_API_KEY": "sk-canary-0123456789",
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
