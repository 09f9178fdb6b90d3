"""Support for CI servers: conditions that fail a run, JUnit XML, and a summary in Markdown."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_cli.screen import Screen
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.aggregate import Summary

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""The environment variable with the file in which GitHub collects the summary of a step."""
_OURS: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="karenina"'


@dataclass(frozen=True, slots=True)
class Conditions:
    """Conditions of the command line that a run must meet: a least pass rate, and the most items not judged."""

    fail_under: float | None = None
    max_unjudged: int | None = None

    def unmet(self, summary: Summary, missing: int) -> Iterator[str]:
        """Yield a message for each condition that the run does not meet; `missing` items did not run."""
        rate, undecided = summary.pass_rate.if_undecided_wrong, summary.pass_rate.undecided
        if self.fail_under is not None and rate is None:
            yield "There is no pass rate to compare with --fail-under, because no item has a verdict."
        elif self.fail_under is not None and rate is not None and rate < self.fail_under:
            found = _format_rate_below(rate, self.fail_under)
            if undecided:
                found += f" if the {quantity(undecided, 'undecided item')} {'is' if undecided == 1 else 'are'} wrong"
            yield f"The pass rate, {found}, is below --fail-under {self.fail_under:g}."
        unjudged = summary.not_judged + missing
        if self.max_unjudged is not None and unjudged > self.max_unjudged:
            yield f"{quantity(unjudged, 'item')} not judged, more than --max-unjudged {self.max_unjudged}."


@dataclass(frozen=True, slots=True)
class CIReports:
    """Reports to write after a run: a file for JUnit XML, and whether to write a summary in Markdown."""

    junit: Path | None = None
    markdown: bool = False

    def check(self, *, as_json: bool) -> None:
        """Raise `ConfigError` if the reports cannot be written, before any call is made."""
        if self.junit is not None:
            _check_junit(self.junit)
        if self.markdown and as_json and not os.environ.get(STEP_SUMMARY):
            raise ConfigError(
                [f"--summary-markdown and --json both print: set {STEP_SUMMARY} to a file, or use only one of them"]
            )

    def write(self, screen: Screen, results: Iterable[VerificationResult]) -> None:
        """Write the reports. An earlier JUnit file of Karenina is replaced. Raises `ConfigError`."""
        from karenina_report.exports.junit import junit_xml
        from karenina_report.exports.markdown import summary_lines

        if self.junit is not None:
            _write(self.junit, junit_xml(results), "wb")
        if self.markdown:
            text = "\n".join(summary_lines(results)) + "\n"
            collected = os.environ.get(STEP_SUMMARY)
            if collected:
                _write(Path(collected), text.encode(), "ab")
            else:
                screen.out.print(text, markup=False, highlight=False, soft_wrap=True)


def _format_rate_below(rate: float, limit: float) -> str:
    """Return a rate below the limit with as many digits as tell the two apart."""
    return next((text for digits in range(2, 17) if float(text := f"{rate:.{digits}g}") < limit), repr(rate))


def _check_junit(path: Path) -> None:
    """Raise `ConfigError` for a file that is not JUnit XML of Karenina, which is never replaced."""
    try:
        with path.open("rb") as file:
            begins = file.read(len(_OURS))
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError([f"--junit {path} cannot be written: {error.strerror or error}"]) from error
    if begins not in (b"", _OURS):
        raise ConfigError(
            [f"--junit {path} exists and is not JUnit XML of Karenina, so it is not replaced: name another file"]
        )


def _write(path: Path, data: bytes, mode: str) -> None:
    try:
        with path.open(mode) as file:
            file.write(data)
    except OSError as error:
        raise ConfigError([f"{path} cannot be written: {error.strerror or error}"]) from error
