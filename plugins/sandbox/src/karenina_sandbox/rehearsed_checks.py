"""Runs the checks of a question on the untouched folder, and with its solution, for `karenina check --run-checks`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from karenina_core.data.sections import KnownValue
from karenina_core.namespaces import read_owned
from karenina_sandbox.check_running import UNCHANGED, CheckResult, CheckRunner
from karenina_sandbox.diffs.reading import DiffError
from karenina_sandbox.fields import REPORT_LISTS, CheckFields, is_diff
from karenina_sandbox.junit import nearest_names, plain_test_name, spelled_as
from karenina_sandbox.leaks import LARGEST, MOST_FILES, LeakSearch, Message
from karenina_sandbox.question_checks import (
    make_runner,
    may_be_created,
    restore_problems,
    strings_in,
    values_of,
    why_broken,
)
from karenina_sandbox.sandbox import SandboxError
from karenina_sandbox.settings import sandbox_problem
from karenina_sandbox.task_files import TaskFiles, find_root
from karenina_template.question_template import template_of
from karenina_toolkit.files.workspace_copy import WorkspaceError
from karenina_toolkit.plugin_lookup import plugins_of
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig
    from karenina_core.data.trust import Trust
    from karenina_template.templates.bound_template import BoundTemplate


def inspect_checks(
    config: VerificationConfig, questions: Collection[Question], trust: Trust
) -> Iterator[tuple[Message, str]]:
    """Yield what agents can see of hidden tests, solutions and ground truths, and `restore` of what does not exist,
    without running a check. Each message comes with the question's id.

    What was not searched is a note, without a question.
    """
    for question in questions:
        try:
            fields = read_owned(CheckFields, question.extra)
            problems = list(restore_problems(TaskFiles.find(config, question), fields, question))
        except (WorkspaceError, ValueError):
            continue  # a folder may be on another machine, and values are checked elsewhere
        yield from ((("error", problem), question.id) for problem in problems)
    search = LeakSearch(config, trust)
    yield from search.messages(questions)
    if search.missing:
        whose = f"the workspaces of {quantity(len(search.missing), 'question')} were not searched"
        yield ("note", f"{whose} for hidden tests and ground truths: {search.missing[0]}"), ""
    if search.unread:
        count = len(search.unread)
        what = f"{count} files of workspaces and checks were" if count > 1 else f"{search.unread[0]} was"
        first = f" (the first is {search.unread[0]})" if count > 1 else ""
        why = f"unreadable, above {LARGEST // 10**6} MB, or after the first {MOST_FILES:,} files of a folder"
        yield ("note", f"{what} not searched for hidden tests and ground truths{first}: {why}"), ""


def why_unavailable(config: VerificationConfig) -> str | None:
    """Return why the workspace root or the sandbox cannot be used, or None."""
    try:
        find_root(config)
    except WorkspaceError as error:
        return str(error)
    return sandbox_problem(config, plugins_of(config))


async def rehearse_checks(config: VerificationConfig, question: Question, trust: Trust) -> Sequence[Message]:
    """Run the checks on the untouched folder and with the solution, and return the problems as errors and warnings,
    and the verdicts as notes.

    Failures of folders, patches and the sandbox are returned as errors, too.
    """
    fields = read_owned(CheckFields, question.extra)
    template = template_of(question, trust)
    bound = template.for_question(question.id) if template is not None else None
    try:
        with TaskFiles.find(config, question).opened() as files:
            runner = await make_runner(config, plugins_of(config), files, fields)
            return await _try_checks(runner, fields, bound, question.id)
    except (WorkspaceError, DiffError, SandboxError) as error:
        return [("error", str(error))]


async def _try_checks(runner: CheckRunner, fields: CheckFields, bound: BoundTemplate | None, id: str) -> list[Message]:
    """Run the checks on the untouched folder and with the solution, and return errors, warnings and notes as in
    `rehearse_checks`. Raises `WorkspaceError`, `DiffError` or `SandboxError` if a check cannot be run.
    """
    found: list[Message] = []
    solution = await runner.solution()
    base = {name: await runner.run(check, UNCHANGED) for name, check in fields.checks.items()}
    solved = {}
    if solution is not None:
        solved = {name: await runner.run(check, solution) for name, check in fields.checks.items()}
    for name, check in fields.checks.items():
        created = name in solved and solved[name].cannot_start is None and may_be_created(check, base[name])
        if created:
            found.append(("note", f"{id}: the check {name!r} can only be started with the solution"))
        elif broken := why_broken(check, base[name]):
            found.append(("error", f"the environment is broken: the check {name!r} {broken}"))
        elif check.report is not None and base[name].tests is None:
            found.append(("warning", f"on the untouched folder, {_describe_missing(name, base[name])}"))
    wrong = _wrong_fields(fields, bound, base)
    found.append(("note", f"{id}: on the untouched folder, {_verdict(wrong)}"))
    if wrong is not None and not wrong:
        found.append(("warning", "all fields with checks are right on the untouched folder"))
    if solution is not None:
        found += _try_solution(fields, bound, solved, id)
    return found


def _try_solution(
    fields: CheckFields, bound: BoundTemplate | None, results: dict[str, CheckResult], id: str
) -> list[Message]:
    """Return a note with the verdict on the solution, and messages about what is wrong with it."""
    named = "the solution" if is_diff(fields.solution or "") else fields.solution
    wrong = _wrong_fields(fields, bound, results)
    found: list[Message] = [("note", f"{id}: with {named}, {_verdict(wrong)}")]
    restored = sorted({path for result in results.values() for path in result.not_used})
    if restored:
        found.append(("warning", f"{named} changes files that checks do not use: {', '.join(restored[:3])}"))
    for name, check in fields.checks.items():
        if check.report is not None and results[name].tests is None:
            found.append(("error", f"with {named}, {_describe_missing(name, results[name])}"))
    for field, why in (wrong or {}).items():
        found.append(("error", f"with {named}, the field {field!r} is wrong: {why}"))
    return found


def _verdict(wrong: dict[str, str] | None) -> str:
    """Describe which fields are wrong."""
    if wrong is None:
        return "no field of the template reads a check"
    return f"wrong: {', '.join(wrong)}" if wrong else "all fields with checks are right"


def _describe_missing(name: str, result: CheckResult) -> str:
    """Describe how a check ended that wrote no usable report."""
    return f"the check {name!r} {result.how_it_ended()}, {result.without_report}{result.last_words()}"


def _wrong_fields(
    fields: CheckFields, bound: BoundTemplate | None, results: dict[str, CheckResult]
) -> dict[str, str] | None:
    """Return the fields that the results of checks make wrong, each with the reason. Returns None without a template,
    or if no field reads one of these checks.
    """
    if bound is None:
        return None
    truths = bound.expected()
    known: dict[str, KnownValue] = {}
    reasons: dict[str, str] = {}
    for field, source in bound.sources.items():
        _, _, rest = source.partition("checks.")
        name, _, value_name = rest.rpartition(".")
        if not source.startswith("checks.") or name not in results:
            continue
        value, why_none = values_of(fields.checks[name], results[name])[value_name]
        why = why_none if value is None else None
        if value_name in REPORT_LISTS and value is not None:
            named = strings_in(truths.get(field))
            value = spelled_as(value, named)
            tests = results[name].tests
            names = tests.names() if tests is not None else []
            missing = [truth for truth in named if plain_test_name(truth) not in names]
            if missing:
                near = nearest_names(missing[0], names)
                why = f"the report has no test {missing[0]!r}" + (
                    f"; the nearest are: {', '.join(near)}" if near else ""
                )
        known[source] = KnownValue(value=value, why=why if value is None else None, counts="wrong")
        reasons[field] = why or f"it is {value!r:.200}"
    if not reasons:
        return None
    answer = bound.bind(dict.fromkeys(bound.judge_fields), "", known)
    verdicts = answer.field_results()
    return {field: why for field, why in reasons.items() if not verdicts.get(field)}
