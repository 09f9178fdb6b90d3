"""The checks of a question: what they need, and their run on what an agent left."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Final, cast

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_core.namespaces import read_owned
from karenina_core.text import did_you_mean
from karenina_sandbox.check_running import NO_REPORT, UNCHANGED, CheckResult, CheckRunner
from karenina_sandbox.diffs.reading import DiffError
from karenina_sandbox.fields import REPORT_LISTS, VALUES, VALUES_OF_REPORTS, Check, CheckFields, is_diff
from karenina_sandbox.junit import nearest_names, plain_test_name, spelled_as
from karenina_sandbox.limits.command_limiter import command_limiter
from karenina_sandbox.patch import WORKSPACE_PATCH, Patch
from karenina_sandbox.settings import SandboxSettings, find_provider, make_policy
from karenina_sandbox.task_files import TaskFiles, find_root
from karenina_sandbox.work import is_recordable
from karenina_template.question_template import known_values_of
from karenina_template.templates.bound_template import ANSWER_CLASS
from karenina_toolkit.agent_work import LEFT_FILES
from karenina_toolkit.files.workspace_copy import WorkspaceError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core import Question, VerificationConfig, VerificationContext
    from karenina_core.models.ports import SourceFolder
    from karenina_core.plugins import Plugins

SERVICE: Final = "check"
"""The name of checks in the journal."""

_BROKEN: Final = "the environment is broken"
_Why = Callable[[CheckResult], Awaitable[str | None]]


async def run_checks(context: VerificationContext, broken: dict[str, str]) -> None:
    """Run the checks, offer what they found as known values, and describe the checks in the result. If a check
    cannot run, the item ends with an error. `broken` contains what the run found to be broken, by the key of the check.
    """
    fields = cast("CheckFields", context.question_settings)
    patch = context.get_artifact(WORKSPACE_PATCH)
    try:
        files = await TaskFiles.find(context.config, context.question).held(context)
        runner = await make_runner(context.config, context.plugins, files, fields)
    except (WorkspaceError, DiffError) as error:
        context.mark_error(str(error))
        return
    described: dict[str, Any] = {}
    for name, check in fields.checks.items():
        try:
            results = await _results(context, runner, broken, name, check, patch)
        except (PortError, WorkspaceError, DiffError) as error:
            is_broken = str(error).startswith(_BROKEN)
            context.mark_error(str(error) if is_broken else f"the check {name!r} could not run: {error}")
            return
        except (ValueError, TypeError, KeyError):  # in a preview, there is only a placeholder
            for value_name in value_names(check):
                why = "the stored result of the check cannot be read"
                context.offer_value(f"checks.{name}.{value_name}", None, why=why)
            continue
        base, *runs = results
        described[name] = _offer(context, name, check, patch, runs)
        if check.report is not None and base.tests is None:
            described[name]["untouched"] = f"{base.how_it_ended()}, {base.without_report}"
    context.set_result_field("checks", described)


async def _results(
    context: VerificationContext,
    runner: CheckRunner,
    broken: dict[str, str],
    name: str,
    check: Check,
    patch: Patch | None,
) -> list[CheckResult]:
    """Return what a check found on the untouched folder, and then with the answer: twice if it is flaky, not at all
    if the patch cannot be used. Raises `PortError` if the check cannot run or the environment is broken.

    The environment is broken if there is no report on the untouched folder, with the answer, or with the solution.
    Like all failures, this is not stored as a result, so a resumed run tries again.
    """

    async def consult(patch: Patch, why: _Why | None = None, repeat: int = 0) -> CheckResult:
        """Return the stored result of the check for a patch and this `repeat`, or run the check and store the
        result. Raises `PortError` if the environment is broken, for which `why` returns a reason; this is never
        stored.
        """
        key = runner.key(check, patch, repeat)

        async def ask() -> str:
            """Run the check and return its result as JSON, or raise `PortError` if the environment is broken."""
            if key not in broken:
                result = await runner.run(check, patch)
                problem = await why(result) if why is not None else None
                if problem is None:
                    return result.to_json()
                broken[key] = f"{_BROKEN}: {problem}"
            raise PortError(broken[key], category=ErrorCategory.PERMANENT)

        return CheckResult.from_json(await context.consult(SERVICE, key, ask, seconds=inf, per_replicate=False))

    async def why_base(result: CheckResult) -> str | None:
        """Return why a result on the untouched folder shows a broken environment, or None if it does not, or the
        solution mends it.
        """
        why = why_broken(check, result)
        solution = await runner.solution() if why and may_be_created(check, result) else None
        if solution and (await consult(solution, repeat=3)).cannot_start is None:
            return None
        return why and f"on the untouched folder, the check {name!r} {why}"

    async def why_solution(result: CheckResult) -> str | None:
        return None if result.tests is not None else f"{why_no_report}, nor with the solution{base.last_words()}"

    async def why_answer(result: CheckResult) -> str | None:
        """Return why the environment is at fault for a missing report, or None if there is a report or other runs
        do not show this.
        """
        if result.tests is not None:
            return None
        solution = await runner.solution()
        if solution:
            await consult(solution, why_solution, 2)
        elif not patch or (await runner.run(check, UNCHANGED)).tests is None:
            return f"{why_no_report}{base.last_words()}"
        return None

    base = await consult(UNCHANGED, why_base)
    reason = f" {NO_REPORT}" if base.without_report == NO_REPORT else f", {base.without_report},"
    why_no_report = f"the check {name!r} {base.how_it_ended()}{reason} on the untouched folder, and gave none here"
    if patch is None or not is_recordable(patch):
        return [base]
    if check.report is not None and base.tests is None:
        answer = await consult(patch, why_answer, 0 if patch else 2)
    else:
        answer = await consult(patch) if patch else base
    return [base, answer, await consult(patch, repeat=1)] if check.flaky else [base, answer]


def _offer(
    context: VerificationContext, name: str, check: Check, patch: Patch | None, results: Sequence[CheckResult]
) -> dict[str, Any]:
    """Offer the known values of a check for the template, and return the check's command and results for the
    result. Without `results`, values are missing and count as wrong. Values that differ between two runs are undecided.
    """
    bound = context.find_artifact(ANSWER_CLASS)
    sources = bound.sources if bound is not None else {}
    truths = bound.expected() if bound is not None and sources else {}
    found = [values_of(check, result) for result in results]
    for value_name in value_names(check):
        source = f"checks.{name}.{value_name}"
        if not found:
            problem = context.get_artifact(LEFT_FILES).problem
            unused = f"the patch does not fit the folder: {problem}" if patch is None else problem
            context.offer_value(source, None, why=unused, counts="wrong")
            continue
        value, why = found[0][value_name]
        if value_name in REPORT_LISTS and value is not None:
            named = [truth for field, of in sources.items() if of == source for truth in strings_in(truths.get(field))]
            value = spelled_as(value, named)
        if len(found) == 2 and value_name != "seconds" and found[1][value_name] != found[0][value_name]:
            context.offer_value(source, None, why="two runs of the flaky check differ")
        else:
            context.offer_value(source, value, why=why, counts="wrong")
    runs = [json.loads(result.to_json()) for result in results]
    return {"run": list(check.run), "results": runs}


def value_names(check: Check) -> list[str]:
    """Return the names of the known values of a check, without its own."""
    return [*VALUES, *(VALUES_OF_REPORTS if check.report is not None else ())]


def values_of(check: Check, result: CheckResult) -> dict[str, tuple[Any, str | None]]:
    """Return the known values that a check offers by name, as pairs of the value and the reason that applies if it is
    None: `output`, `error_output`, `exit`, `seconds`, `stopped_by`, and with a report `ended` and the lists of tests. A
    check that was stopped has no output, and of one that could not start only `ended` is known.
    """
    ended = result.how_it_ended()
    too_long = "it is longer than 64,000 bytes"
    values: dict[str, tuple[Any, str | None]] = {
        "output": (result.output, too_long),
        "error_output": (result.error_output, too_long),
        "exit": (result.exit, ended),
        "seconds": (result.seconds, None),
        "stopped_by": (result.stopped_by or "nothing", None),
    }
    if result.cannot_start is not None:
        values = dict.fromkeys(values, (None, ended))
    elif result.stopped_by is not None:
        values |= dict.fromkeys(("output", "error_output"), (None, ended))
    if check.report is not None:
        tests = result.tests if result.stopped_by is None else None
        why = (
            ended
            if result.stopped_by is not None or result.cannot_start is not None
            else f"{ended}, {result.without_report}"
        )
        values["ended"] = (tests is not None, None)
        values |= {name: (getattr(tests, name) if tests is not None else None, why) for name in REPORT_LISTS}
    return values


def why_broken(check: Check, base: CheckResult) -> str | None:
    """Return why the result on the untouched folder shows a broken environment, because the command cannot be started
    or a test of `passing_before` does not pass, or None.
    """
    if base.cannot_start is not None:
        program = check.run[0]
        created = "/" in program and not program.startswith("/")
        cure = "; if the agent has to create it, set `solution`, or run it as sh -c" if created else ""
        return f"{base.how_it_ended()}{cure}"
    if not check.passing_before:
        return None
    if base.tests is None:
        return f"{base.how_it_ended()}, {base.report}{base.last_words()}"
    passed = set(base.tests.passed)
    missing = [name for name in check.passing_before if plain_test_name(name) not in passed]
    if not missing:
        return None
    all_names = base.tests.names()
    shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
    near = nearest_names(missing[0], all_names) if plain_test_name(missing[0]) not in all_names else []
    hint = f"; the report has no test {missing[0]!r}, the nearest are: {', '.join(near)}" if near else ""
    return f"does not pass {shown}, which passing_before requires{hint}"


def may_be_created(check: Check, base: CheckResult) -> bool:
    """Return whether a command that cannot be started on the untouched folder may be one that the agent creates."""
    return base.cannot_start is not None and not check.passing_before


async def make_runner(
    config: VerificationConfig, plugins: Plugins, files: TaskFiles, fields: CheckFields
) -> CheckRunner:
    """Return a runner for the checks of a question, in the chosen sandbox or by default in `none`, after reading the
    files that they add. Raises `WorkspaceError` if a folder is missing, and `DiffError` if a patch that is added does
    not fit it.
    """
    settings = config.section(SandboxSettings)
    runner = CheckRunner(
        files,
        find_provider(plugins, settings.sandbox or "none"),
        make_policy(settings),
        command_limiter(settings.sandbox_concurrency),
        files.digest(),
        fields.solution,
    )
    for check in fields.checks.values():
        await runner.load(check)
    return runner


def strings_in(value: object) -> list[str]:
    """Return the strings in a truth."""
    if isinstance(value, str):
        return [value]
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def restore_problems(files: TaskFiles, fields: CheckFields, question: Question) -> Iterable[str]:
    """Yield a message for each check that restores a file that does not exist. Archives and patches are not checked.
    Raises `WorkspaceError` if what a check adds cannot be found.
    """
    for name, check in fields.checks.items():
        added: list[str] = []
        if not files.source.is_dir() or is_diff(check.add or ""):
            continue
        if check.add is not None:
            folder = files.beside(check.add)
            if not folder.is_dir():
                continue
            added = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
        if missing := files.missing_restored(check.restore, added):
            yield f"the check {name!r} of question {question.id!r}: {missing}"


def checked_folders(config: VerificationConfig, question: Question) -> Sequence[SourceFolder]:
    """Return the question's folder and what its checks add, except patches that are part of the question, or nothing if
    one cannot be found.
    """
    try:
        files = TaskFiles.find(config, question)
        checks = read_owned(CheckFields, question.extra).checks.values()
        return [
            files.folder(),
            *(files.folder(path) for path in sorted({c.add for c in checks if c.add and not is_diff(c.add)})),
        ]
    except (WorkspaceError, ValueError):
        return ()  # reported before the run


def find_problems(config: VerificationConfig, questions: Sequence[Question]) -> list[str]:
    """Return a message for each reason why the checks of `questions` cannot run."""
    try:
        if questions:
            find_root(config)  # once, not for each question
        problems = [problem for question in questions for problem in _problems_of(config, question)]
    except WorkspaceError as error:
        problems = [f"{quantity(len(questions), 'question')} with checks cannot be judged: {error}"]
    if questions and config.has("workspace_copy") and not config.setting("workspace_copy"):
        problems.append("checks compare an agent's copy of a folder with the folder itself; set workspace_copy = true")
    return problems


def _problems_of(config: VerificationConfig, question: Question) -> Iterable[str]:
    """Yield a message for each reason why the checks of a question cannot run, and for each value that its template
    reads but no check offers.
    """
    try:
        files = TaskFiles.find(config, question)
        fields = read_owned(CheckFields, question.extra)
        for check in fields.checks.values():
            if check.add is not None and not is_diff(check.add):
                files.beside(check.add)
        yield from restore_problems(files, fields, question)
    except WorkspaceError as error:
        yield f"question {question.id!r}: {error}"
        return
    offered = {f"checks.{name}.{value}" for name, check in fields.checks.items() for value in value_names(check)}
    for source in known_values_of(question):
        if source.startswith("checks.") and source not in offered:
            name, _, value = source.removeprefix("checks.").rpartition(".")
            lists = value in VALUES_OF_REPORTS and name in fields.checks
            cure = f"; set `report: junit` for the check {name!r}" if lists else did_you_mean(source, offered)
            yield f"no check of question {question.id!r} offers {source!r}{cure}"
