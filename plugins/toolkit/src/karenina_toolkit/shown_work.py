"""The work of an agent and the checks of a question, as results describe them for people.

They are in the extensions of karenina-sandbox. A result file may have been written by anyone, so anything may be there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

T = TypeVar("T")

OWNER: Final = "karenina-sandbox"
"""The distribution whose result fields `workspace` and `checks` describe the work and the checks."""

FIELDS: Final = ("workspace", "checks")
FORGEABLE: Final = (
    "The code under test runs in the same process as the tests and could forge their report; checks of its output, and "
    "hidden tests, are harder to deceive."
)
_LISTS: Final = ("passed", "failed", "errors", "skipped")
_NAMED: Final = 10


@dataclass(frozen=True, slots=True)
class ShownCheck:
    """A run of a check: its `name`, a line that says how it ended, and its `output`."""

    name: str
    ended: str
    output: str
    has_report: bool


def shown_patch(result: VerificationResult) -> str | None:
    """Return the patch of an answer as text, or `(no changes)`, with notes on files that were restored or left out or
    may steer tests. If the patch could not be applied, return the reason instead. Without a workspace, return None.
    """
    workspace = _fields(result).get("workspace")
    if not isinstance(workspace, Mapping):
        return None
    if isinstance(workspace.get("problem"), str):
        return f"(not used: {workspace['problem']})"
    left_out, changes = _items(workspace.get("left_out"), str), _items(workspace.get("changes"), dict)
    notes = [
        f"({one.get('path')} was taken from the source, because it steers tests)"
        for one in changes
        if one.get("restored")
    ]
    notes += [f"({one.get('path')} was used, and may steer tests)" for one in changes if one.get("may_steer")]
    notes += [f"({one})" for one in left_out]
    patch = workspace.get("patch")
    return "\n".join([patch if isinstance(patch, str) and patch else "(no changes)", *notes])


def shown_checks(result: VerificationResult) -> Iterator[ShownCheck]:
    """Yield each run of a check in a result, in order. Malformed entries are omitted."""
    checks = _fields(result).get("checks")
    for name, check in checks.items() if isinstance(checks, Mapping) else ():
        for run in _items(check.get("results"), dict) if isinstance(check, Mapping) else ():
            yield _show_run(str(name), run)


def check_troubles(result: VerificationResult) -> Iterator[tuple[str, str]]:
    """Yield the problems with the work and checks of an answer that the summary of a run counts: pairs of a noun and a
    text, such as "patch" and "could not be applied".
    """
    fields = _fields(result)
    workspace, checks = fields.get("workspace"), fields.get("checks")
    if isinstance(workspace, Mapping) and workspace.get("problem"):
        yield "patch", "could not be applied"
    for check in checks.values() if isinstance(checks, Mapping) else ():
        if isinstance(check, Mapping) and check.get("untouched") and check.get("results"):
            yield "answer", "judged by a check without a report on the untouched folder"
            return


def _show_run(name: str, run: Mapping[str, Any]) -> ShownCheck:
    """Return a description of a run of a check: how it ended, its tests, changes that it did not use or that may steer
    tests, and its output.
    """
    if run.get("cannot_start"):
        ended = f"could not be started: {run['cannot_start']}"
    elif run.get("stopped_by"):
        ended = f"stopped at the limit of {run['stopped_by']} after {run.get('seconds')} s"
    else:
        ended = f"ended with {run.get('exit')} after {run.get('seconds')} s"
    report = run.get("report")
    if isinstance(report, Mapping):
        found = {kind: _items(report.get(kind), str) for kind in _LISTS}
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in found.items() if names)
        bad = [*found["failed"], *found["errors"]]
        more = f" and {len(bad) - _NAMED} more" if len(bad) > _NAMED else ""
        ended += f"; {counts or 'no tests'}" + (f" ({', '.join(bad[:_NAMED])}{more})" if bad else "")
    elif isinstance(report, str):
        ended += f"; {report}"
    for key, what in (("not_used", "did not use"), ("may_steer", "used, and that may steer tests")):
        paths = _items(run.get(key), str)
        if paths:
            more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
            ended += f"; changes that it {what}: {', '.join(paths[:_NAMED])}{more}"
    output = "\n".join(text for key in ("output", "error_output") if isinstance(text := run.get(key), str) and text)
    return ShownCheck(name, ended, output, isinstance(report, Mapping))


def _items(value: object, kind: type[T]) -> list[T]:
    """Return the items of a list that have the type `kind`. Anything but a list has none."""
    return [one for one in value if isinstance(one, kind)] if isinstance(value, list) else []


def _fields(result: VerificationResult) -> Mapping[str, Any]:
    """Return the result fields of karenina-sandbox."""
    values = result.extensions.get(OWNER)
    return values if isinstance(values, Mapping) else {}
