"""Running a check, and what its command did."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from karenina_sandbox.fields import REPORT, Check
from karenina_sandbox.junit import MOST_READ, BadReport, TestReport, read_junit
from karenina_sandbox.patch import Patch, printable_name
from karenina_sandbox.sandbox import CannotStart, Policy, Sandbox, SandboxError
from karenina_sandbox.steering import ALWAYS_IMPORTED, LIST_MODULES, OWN_NAMES
from karenina_toolkit.files.workspace_copy import WorkspaceError

if TYPE_CHECKING:
    from karenina_sandbox.limits.command_limiter import CommandLimiter
    from karenina_sandbox.sandbox import SandboxProvider, Stop
    from karenina_sandbox.task_files import TaskFiles

UNCHANGED: Final = Patch()
MOST_LISTED: Final = 1_000
"""The maximum number of changed files that a result lists."""
NO_REPORT: Final = "without a report"
_PYTHON: Final = re.compile(r"(python|pypy)[0-9.]*")
_UNREADABLE: Final = {
    "directory": "the report is a folder; join the files in it into one",
    "link": "the report is a link, which is not followed",
}
_INSTALLED: Final[dict[tuple[object, ...], frozenset[str]]] = {}
"""The names of installed modules, by sandbox and interpreter."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What the command of a check did.

    `exit` is None if a limit ended it (`stopped_by`), or if it could not be started (`cannot_start` states why).
    `output` and `error_output` are None if they are too long. `report` contains the tests, or the reason why there is
    no report. It is None if the check has none. `not_used` lists changes of the agent that the check did not use, and
    `may_steer` those that it used and that Python runs when it imports tests.
    """

    exit: int | None = None
    output: str | None = ""
    error_output: str | None = ""
    seconds: float = 0.0
    stopped_by: Stop | None = None
    cannot_start: str | None = None
    report: TestReport | str | None = None
    not_used: list[str] = field(default_factory=list)
    may_steer: list[str] = field(default_factory=list)

    def to_json(self) -> str:
        """Return the result as a JSON string."""
        values = {name: getattr(self, name) for name in self.__slots__}
        if isinstance(self.report, TestReport):
            values["report"] = asdict(self.report)
        return json.dumps(values, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> CheckResult:
        """Return the result that `to_json` wrote. Raises `ValueError`, `TypeError` or `KeyError` for any other text."""
        values: dict[str, Any] = json.loads(text)
        if isinstance(values["report"], Mapping):
            values["report"] = TestReport(**values["report"])
        return cls(**values)

    @property
    def tests(self) -> TestReport | None:
        """The tests in the report, if there is one."""
        return self.report if isinstance(self.report, TestReport) else None

    @property
    def without_report(self) -> str:
        """The reason why there are no tests."""
        return self.report if isinstance(self.report, str) else NO_REPORT

    def how_it_ended(self) -> str:
        """Return how the command ended, as in "stopped after 60 s" or "ended with 1", for messages."""
        if self.cannot_start is not None:
            return f"could not be started: {self.cannot_start}"
        if self.stopped_by is not None:
            limit = f"after {self.seconds:.3g} s" if self.stopped_by == "time" else f"at the limit of {self.stopped_by}"
            return f"stopped {limit}"
        return f"ended with {self.exit}"

    def last_words(self) -> str:
        """Return the last lines of the error output, or else of the output, for the end of a message."""
        lines = [line for text in (self.error_output, self.output) if text for line in [text.strip()[-300:]] if line]
        return f"; its last output was: {lines[0]}" if lines else ""


@dataclass(frozen=True, slots=True)
class CheckRunner:
    """Runs the checks of one question in a sandbox.

    `solved_by` is the question's solution, a path or the text of a patch. `additions` contains what the checks add, by
    path.
    """

    files: TaskFiles
    provider: SandboxProvider
    policy: Policy
    limiter: CommandLimiter
    source: str
    solved_by: str | None = None
    additions: dict[str, tuple[str, Patch]] = field(default_factory=dict)

    async def load(self, check: Check) -> None:
        """Read the files that a check adds, and keep them for all checks that add the same files. Raises
        `WorkspaceError` or `DiffError` if they cannot be used, or if `restore` names a file that does not exist.
        """
        if check.add is not None and check.add not in self.additions:
            self.additions[check.add] = (self.files.digest(check.add), await self.files.additions(check.add))
        added = [one.path for one in self.additions[check.add][1].entries] if check.add is not None else []
        if missing := self.files.missing_restored(check.restore, added):
            raise WorkspaceError(missing)

    async def solution(self) -> Patch | None:
        """Return the changes that the question's solution makes to its folder, or None if it has no solution. Raises
        `WorkspaceError` if it cannot be read, and `DiffError` if it does not fit the folder.
        """
        return None if self.solved_by is None else await self.files.read_diff(self.files.diff(self.solved_by))

    def key(self, check: Check, patch: Patch, repeat: int = 0) -> str:
        """Return everything that determines the result of a check, as JSON: the key of its stored result. `repeat`
        distinguishes further runs of the same check.
        """
        policy = self._policy(check)
        return json.dumps(
            {
                "source": self.source,
                "patch": patch.digest,
                "run": check.run,
                "report": check.report,
                "add": self.additions[check.add][0] if check.add is not None else None,
                "restore": check.restore,
                "timeout": check.timeout,
                "limits": policy.limits._asdict(),
                "mounts": [str(path) for path in policy.mounts],
                "python": str(policy.python),
                "environment": dict(policy.environment),
                "sandbox": self.provider.identity(policy),
                "repeat": repeat,
            },
            sort_keys=True,
        )

    async def run(self, check: Check, patch: Patch) -> CheckResult:
        """Run a check on the question's folder with its own additions and those changes of a patch that it may use. The
        result lists the other changes. A command that runs out of time is repeated once alone. Raises `SandboxError` if
        the sandbox fails, and `WorkspaceError` if the folder cannot be made.
        """
        added = self.additions[check.add][1] if check.add is not None else UNCHANGED
        installed = await self._installed(check) if self.files.new_modules(patch) else ALWAYS_IMPORTED
        changes = await asyncio.to_thread(self.files.used_changes, patch, check, added, installed)
        async with self.files.check_folder(changes, added) as folder:
            result = await self._run(check, folder, alone=False)
            if result.stopped_by == "time":
                result = await self._run(check, folder, alone=True)
        return replace(
            result,
            not_used=[printable_name(path) for path in changes.not_used[:MOST_LISTED]],
            may_steer=[printable_name(path) for path in changes.may_steer[:MOST_LISTED]],
        )

    async def _installed(self, check: Check) -> frozenset[str]:
        """Return the names of the modules that a check's interpreter can import, by running it in the sandbox once. If
        it cannot be run, they are those that tests usually import. Raises `SandboxError` if it is stopped.
        """
        policy = self._policy(check)
        policy = replace(policy, limits=policy.limits._replace(seconds=60.0, output=2_000_000))
        python = check.run[0] if _PYTHON.fullmatch(Path(check.run[0]).name) else "python"
        own = self.source if "/" in python else ""  # it may be in the workspace
        key = (self.provider.identity(policy), str(policy.python), policy.mounts, policy.image, python, own)
        if key not in _INSTALLED:
            async with self.limiter.slot(), self.provider.open(self.files.source, policy) as sandbox:
                try:
                    listed = await sandbox.run([python, "-I", "-c", LIST_MODULES], seconds=60.0)
                    names = listed.output.decode("utf-8", "replace").split() if listed.exit == 0 else []
                except CannotStart:
                    names = []
                else:
                    if listed.stopped_by is not None:
                        raise SandboxError(
                            f"{python} reached the limit of {listed.stopped_by} while listing its modules"
                        )
            _INSTALLED[key] = ALWAYS_IMPORTED | frozenset(names) - OWN_NAMES
        return _INSTALLED[key]

    def _policy(self, check: Check) -> Policy:
        limits = self.policy.limits._replace(seconds=check.timeout)
        return replace(self.policy, limits=limits)

    async def _run(self, check: Check, folder: Path, *, alone: bool) -> CheckResult:
        """Run a check's command in a folder, and return what it did, or why it cannot be started. With `alone`, no
        other command runs meanwhile.
        """
        # The name is random: an agent cannot put a report in its place that its tests do not overwrite.
        report = f".karenina-report-{secrets.token_hex(8)}.xml"
        command = [word.replace(REPORT, report) for word in check.run]
        async with self.limiter.slot(alone=alone), self.provider.open(folder, self._policy(check)) as sandbox:
            try:
                result = await sandbox.run(command, seconds=check.timeout)
            except CannotStart as error:
                return CheckResult(cannot_start=str(error))
            content = await self._read(sandbox, report) if check.report is not None else None
        return CheckResult(
            result.exit,
            _text(result.output, result.output_cut),
            _text(result.error_output, result.error_cut),
            round(result.seconds, 3),
            result.stopped_by,
            report=content,
        )

    @staticmethod
    async def _read(sandbox: Sandbox, report: str) -> TestReport | str:
        """Read a JUnit report from the sandbox, and return its tests, or the reason why they cannot be read."""
        try:
            content = await sandbox.read(report, MOST_READ)
        except SandboxError:
            return f"the report is larger than {MOST_READ:,} bytes"
        if content is None:
            kinds = {one.path: one.kind for one in (await sandbox.patch()).entries}
            return _UNREADABLE.get(kinds.get(report, ""), NO_REPORT)
        try:
            return read_junit(content)
        except BadReport as error:
            return str(error)


def _text(content: bytes, cut: bool) -> str | None:
    """Return an output as text, or None if it was cut."""
    return None if cut else content.decode("utf-8", "replace")
