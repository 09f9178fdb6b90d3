"""Support for CI: conditions that make a run fail, JUnit XML, and a Markdown summary."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

import typer

from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.result import VerificationResult
    from karenina_engine.results.aggregate import GroupSummary, Summary
    from karenina_terminal.screen import Screen

STEP_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""The environment variable with the path of the file for a step's summary on GitHub."""
_NO_RATE: Final = "There is no pass rate{} to compare with --fail-under, because no item has a verdict."
Number = TypeVar("Number", int, float)
_OURS: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="karenina"'


@dataclass(frozen=True, slots=True)
class Limits(Generic[Number]):
    """The limits given for an option: one for all groups, and others by model or group.

    A group is the results of one answering model and judge.
    """

    of_all: Number | None = None
    by_name: Mapping[str, Number] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Sequence[str] | None, read: Callable[[str], Number]) -> Limits[Number]:
        """Parse limits written as `LIMIT` or `NAME=LIMIT`. `read` converts a limit. Raises `typer.BadParameter` if a
        limit is invalid or two limits have the same name.
        """
        limits: dict[str, Number] = {}
        for text in texts or ():
            name, _, limit = text.rpartition("=")
            if name in limits:
                raise typer.BadParameter(
                    f"two limits were given {f'for {name!r}' if name else 'without a model'}; keep only one"
                )
            limits[name] = read(limit if name else text)
        return cls(limits.pop("", None), limits)

    def of(self, group: GroupSummary) -> Number | None:
        """Return the most specific limit, or None if there is none: that of the group, of its answering model, or of
        all groups.
        """
        for name in (group_name(group.answering, group.judge), group.answering):
            if name in self.by_name:
                return self.by_name[name]
        return self.of_all


def group_name(answering: str, judge: str) -> str:
    """Return the name of the group with the given models."""
    return f"{answering} judged by {judge}"


def read_share(text: str) -> float:
    """Parse a pass rate between 0 and 1. Raises `typer.BadParameter` for anything else."""
    try:
        share = float(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a valid pass rate; use a number from 0 to 1, or MODEL=NUMBER"
        ) from None
    if not 0 <= share <= 1:
        hint = f"; use {share / 100:g} for {share:g}%" if 1 < share <= 100 else ""
        raise typer.BadParameter(f"a pass rate must be between 0 and 1, not {share:g}{hint}")
    return share


def read_count(text: str) -> int:
    """Parse a number of items, 0 or more. Raises `typer.BadParameter` for anything else."""
    if not text.isascii() or not text.isdigit():
        raise typer.BadParameter(
            f"{text!r} is not a valid number of items; use an integer of 0 or more, or MODEL=NUMBER"
        )
    return int(text)


class Conditions(NamedTuple):
    """Conditions for each group of a run: a minimum pass rate and a maximum number of unjudged items."""

    fail_under: Limits[float]
    max_unjudged: Limits[int]

    @classmethod
    def parse(cls, fail_under: Sequence[str] | None, max_unjudged: Sequence[str] | None) -> Conditions:
        """Parse the conditions given with `--fail-under` and `--max-unjudged`. Raises `typer.BadParameter` if a limit
        is invalid.
        """
        return cls(Limits.parse(fail_under, read_share), Limits.parse(max_unjudged, read_count))

    def check(self, config: VerificationConfig) -> None:
        """Raise `ConfigError` if a limit names a model or judge that the run does not have."""
        from karenina_core import plugins
        from karenina_engine.run.matrix import judges_of
        from karenina_engine.run.plugin_offers import configured_panel

        if not self.fail_under.by_name and not self.max_unjudged.by_name:
            return
        ids = [model.id for model in config.core.answering_models]
        judges = judges_of(config, configured_panel(plugins.active_plugins(), config))
        names = {*ids, *(group_name(id, judge.id if judge is not None else id) for id in ids for judge in judges)}
        problems = [
            f"{option} {name}=...: no answering model has the id {name!r}{did_you_mean(name, ids)}"
            if not any(name.startswith(group_name(id, "")) for id in ids)
            else f"{option} {name}=...: the run has no such judge{did_you_mean(name, names)}"
            for option, limits in (("--fail-under", self.fail_under), ("--max-unjudged", self.max_unjudged))
            for name in limits.by_name
            if name not in names
        ]
        if problems:
            raise ConfigError(problems)

    def unmet(self, summary: Summary, missing: int) -> Iterator[str]:
        """Yield a message for each condition that a group does not meet, for each named group without results, and for
        a limit on all pass rates if there are no groups. The `missing` items that did not run count as unjudged in
        every group.
        """
        names = {group_name(entry.answering, entry.judge) for entry in summary.groups} | {
            entry.answering for entry in summary.groups
        }
        for option, limits in (("--fail-under", self.fail_under), ("--max-unjudged", self.max_unjudged)):
            for name in limits.by_name:
                if name not in names:
                    yield f"There are no results for {name}, which {option} refers to."
        if not summary.groups and self.fail_under.of_all is not None:
            yield _NO_RATE.format("")
        for group in summary.groups:
            of = f" of {group.name}" if len(summary.groups) > 1 else ""
            yield from self._low(group, of)
            unjudged, most = group.not_judged + missing, self.max_unjudged.of(group)
            if most is not None and unjudged > most:
                yield (
                    f"{quantity(unjudged, 'item')}{of} {'was' if unjudged == 1 else 'were'} not judged, which is "
                    f"more than --max-unjudged {most}."
                )

    def _low(self, group: GroupSummary, of: str) -> Iterator[str]:
        """Yield a message if the group's pass rate is below its limit, or missing although it has one. Undecided items
        count as wrong. `of` follows *the pass rate* in the message: empty, or *of* and the group's name.
        """
        limit, rate, undecided = (
            self.fail_under.of(group),
            group.pass_rate.if_undecided_wrong,
            group.pass_rate.undecided,
        )
        if limit is not None and rate is None:
            yield _NO_RATE.format(of)
        elif limit is not None and rate is not None and rate < limit:
            text = _format_rate_below(rate, limit)
            if undecided:
                text += f" if the {quantity(undecided, 'undecided item')} {'is' if undecided == 1 else 'are'} wrong"
            yield f"The pass rate{of}, {text}, is below --fail-under {limit:g}."


class CIReports(NamedTuple):
    """The reports to write after a run: a JUnit XML file and a Markdown summary."""

    junit: Path | None = None
    markdown: bool = False

    def check(self, *, as_json: bool, files: Iterable[Path]) -> None:
        """Raise `ConfigError` if the reports cannot be written or would replace one of the run's `files`, or if with
        `as_json` both JSON and the Markdown summary would go to standard output. The file named by `STEP_SUMMARY`, to
        which the summary goes if it is set, and the folder of the JUnit file are created if necessary. Call this before
        the run, which may cost money.
        """
        if self.junit is not None:
            if os.path.realpath(self.junit) in map(os.path.realpath, files):
                problem = "would replace the result file or the journal of the run"
                raise ConfigError([f"--junit {self.junit} {problem}; choose another file"])
            _check_junit(self.junit)
        collected = os.environ.get(STEP_SUMMARY) if self.markdown else None
        if collected:
            _write(Path(collected), b"", "ab")
        elif self.markdown and as_json:
            raise ConfigError(
                [
                    f"--summary-markdown and --json both write to standard output; set {STEP_SUMMARY} to a file, "
                    "or use only one of the two options"
                ]
            )

    def write(self, screen: Screen, results: Iterable[VerificationResult], failures: Sequence[str] = ()) -> None:
        """Write the reports. An existing JUnit file is replaced, and the summary, which lists `failures` as the reasons
        why the run fails, is appended to the file named by `STEP_SUMMARY`, or printed if that is not set. Raises
        `ConfigError` if writing fails.

        `check` makes sure that no file other than a JUnit file of Karenina is replaced.
        """
        from karenina_report.exports.junit import junit_xml
        from karenina_report.exports.markdown import summary_lines

        if self.junit is not None:
            _write(self.junit, junit_xml(results), "wb")
        if self.markdown:
            text = "\n".join(summary_lines(results, failures)) + "\n"
            collected = os.environ.get(STEP_SUMMARY)
            if collected:
                _write(Path(collected), text.encode(), "ab")
            else:
                screen.out.print(text, markup=False, highlight=False, soft_wrap=True)


def _format_rate_below(rate: float, limit: float) -> str:
    """Format a rate with enough digits to show that it is below the limit."""
    return next((text for digits in range(2, 17) if float(text := f"{rate:.{digits}g}") < limit), repr(rate))


def _check_junit(path: Path) -> None:
    """Raise `ConfigError` if the file cannot be read and written, or is not JUnit XML written by Karenina. A missing or
    empty file is accepted, and a missing folder is created.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        begins = b""
        if path.exists():
            with path.open("rb") as file:
                begins = file.read(len(_OURS))
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise ConfigError([f"--junit {path} cannot be written: {error.strerror or error}"]) from error
    if begins not in (b"", _OURS):
        raise ConfigError(
            [
                f"--junit {path} was not replaced because the file is not JUnit XML written by Karenina; choose "
                "another file"
            ]
        )


def _write(path: Path, data: bytes, mode: str) -> None:
    """Write data to a file opened in `mode`. Raises `ConfigError` if writing fails."""
    try:
        with path.open(mode) as file:
            file.write(data)
    except OSError as error:
        raise ConfigError([f"{path} cannot be written: {error.strerror or error}"]) from error
