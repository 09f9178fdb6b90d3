"""Checks in whole runs: agents that change files over HTTP on loopback, and programs that decide about their work."""

from __future__ import annotations

import asyncio
import json
import shutil
import tarfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from command_runs import CommandResult, run_karenina
from folders import write_files
from servers import RecordingServer, recording_server

import karenina_agentic
from karenina import Benchmark, Question, VerificationResult
from karenina_claude_agent_sdk.agent import ClaudeAgent
from karenina_core import ArtifactKeys, Outcome, VerificationConfig, hookimpl
from karenina_core.errors import ConfigError, RunError
from karenina_core.models.adapters import AdapterSpec, AgentTier
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import Plugins, Selection, installed_plugins, use_plugins
from karenina_sandbox.prepare_sandbox import PrepareSandbox
from karenina_sandbox.providers.bwrap import SANDBOX
from karenina_testing import run_stage

Body = dict[str, Any]

REPORTS = """
import sys
sys.path.insert(0, ".")
import program
tests = {"test_total": lambda: program.total([1, 2]) == 3, "test_empty": lambda: program.total([]) == 0}
cases = ""
for name, holds in tests.items():
    try:
        failed = "" if holds() else "<failure/>"
    except Exception:
        failed = "<error/>"
    cases += f'<testcase classname="tests.test_program" name="{name}">{failed}</testcase>'
open(sys.argv[1], "w").write(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
"""
BROKEN = "def total(numbers):\n    return sum(numbers[1:])\n\nprint('total:', total([40, 2]))\n"
GOOD = BROKEN.replace("[1:]", "")
CHECKS = {
    "tests": {
        "run": ["python", "hidden/report.py", "{report}"],
        "report": "junit",
        "add": "task-tests",
        "passing_before": ["tests/test_program.py::test_empty"],
    },
    "prints": {"run": ["python", "program.py"]},
}
FIXED = {
    "from": "checks.tests.passed",
    "ground_truth": ["tests/test_program.py::test_total"],
    "verify_with": {"type": "SetContainment", "mode": "superset"},
}
TOTAL = {
    "from": "checks.prints.output",
    "ground_truth": "total: 42",
    "verify_with": {"type": "ExactMatch", "normalize": ["strip"]},
}


def call(name: str, **arguments: Any) -> Body:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"c_{name}", "type": "function", "function": function}]}


def agent(*steps: Body) -> Callable[[Body], str | Body]:
    """Return a model that makes these calls one after another, and then answers."""

    def reply(body: Body) -> str | Body:
        done = sum(message["role"] == "assistant" for message in body["messages"])
        return steps[done] if done < len(steps) and "tools" in body else "Done."

    return reply


def writes(**files: str) -> list[Body]:
    return [call("write_file", path=name.replace("_py", ".py"), content=text) for name, text in files.items()]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"task/program.py": BROKEN, "task-tests/hidden/report.py": REPORTS}
    return write_files(tmp_path / "root", files)


def question(**changes: Any) -> Body:
    return {
        "id": "sum",
        "question": "The program prints a wrong total. Correct it.",
        "raw_answer": "total: 42",
        "workspace_path": "task",
        "checks": CHECKS,
        "answer": {"fixed": FIXED, "total": TOTAL},
        **changes,
    }


def load(root: Path, *questions: Body) -> Benchmark:
    file = root.parent / "tasks.yaml"
    asked = list(questions) or [question()]
    file.write_text(json.dumps({"karenina": 1, "name": "tasks", "workspace_root": "root", "questions": asked}))
    return Benchmark.load(file)


def run(root: Path, server: RecordingServer, *questions: Body, **settings: Any) -> list[VerificationResult]:
    model = {"id": "a", "interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
    chosen = {"answering_models": [model], "sandbox": "none", **settings}
    journal = root.parent / "run.journal"
    found = load(root, *questions).run_verification(VerificationConfig(**chosen), trust="all", journal=journal)
    assert sorted(one.name for one in root.iterdir()) == ["task", "task-tests"]
    return list(found)


def answer(root: Path, steps: Sequence[Body], *questions: Body, **settings: Any) -> VerificationResult:
    """Return the result of an agent that makes these calls."""
    with recording_server(agent(*steps)) as server:
        (result,) = run(root, server, *questions, **settings)
        return result


def told(server: RecordingServer) -> str:
    """Return the result of the first tool call, as the model read it."""
    body: Body = json.loads(server.seen[1].rpartition("\n")[2])
    return str(body["messages"][-1]["content"])


def why(result: VerificationResult) -> str:
    assert result.template is not None
    return json.dumps([result.metadata.error, result.template.model_dump(mode="json")])


def test_an_agent_that_corrects_the_program_is_correct(root: Path) -> None:
    result = answer(root, writes(program_py=GOOD))

    assert result.outcome == Outcome.CORRECT
    assert (root / "task/program.py").read_text() == BROKEN
    (changed,) = result.extensions["karenina-sandbox"]["workspace"]["changes"]
    assert changed["path"] == "program.py"
    assert "+    return sum(numbers)\n" in result.extensions["karenina-sandbox"]["workspace"]["patch"]


def test_a_workspace_may_be_an_archive(root: Path) -> None:
    with tarfile.open(root / "packed.tar.gz", "w:gz") as archive:
        archive.add(root / "task", "task-1f2e3d")
    before = sorted(root.iterdir())
    with recording_server(agent(*writes(program_py=GOOD))) as server:
        model = {"id": "a", "interface": "openai", "model_name": "m", "endpoint_base_url": server.url}
        config = VerificationConfig(answering_models=[model], sandbox="none")
        (result,) = load(root, question(workspace_path="packed.tar.gz")).run_verification(config, trust="all")

    assert result.outcome == Outcome.CORRECT
    assert [one["path"] for one in result.extensions["karenina-sandbox"]["workspace"]["changes"]] == ["program.py"]
    assert sorted(root.iterdir()) == before


def test_an_archive_cannot_be_changed_in_place(root: Path) -> None:
    (root / "packed.tar").touch()
    model = {"id": "a", "interface": "openai", "model_name": "m", "endpoint_base_url": "http://127.0.0.1:9"}
    config = VerificationConfig(answering_models=[model], sandbox="none", workspace_copy=False)
    asked = {key: value for key, value in question(workspace_path="packed.tar").items() if key != "checks"}
    asked["answer"] = {"cause": {"description": "What is wrong", "ground_truth": True}}
    judge = [{**model, "id": "j"}]
    (result,) = load(root, asked).run_verification(config.with_values(parsing_models=judge), trust="all")

    assert "is an archive, which agents cannot change; set workspace_copy = true" in str(result.metadata.error)


def test_an_agent_that_changes_nothing_is_wrong(root: Path) -> None:
    result = answer(root, [])

    assert result.outcome == Outcome.WRONG
    assert "test_empty" in why(result)


def test_hidden_tests_are_not_in_the_agents_folder(root: Path) -> None:
    with recording_server(agent(call("list_files"), *writes(program_py=GOOD))) as server:
        run(root, server)
    assert told(server) == f"program.py ({len(BROKEN)} bytes)"


def test_an_agent_runs_commands_in_its_folder(root: Path) -> None:
    edit = (
        "import pathlib; f = pathlib.Path('program.py'); f.write_text(f.read_text().replace('[1:]', '')); print('ok')"
    )
    with recording_server(agent(call("run_command", command=["python", "-c", edit]))) as server:
        (result,) = run(root, server)
    assert told(server) == "exit code 0\noutput:\nok\n"
    assert result.outcome == Outcome.CORRECT


@pytest.mark.parametrize(
    ("program", "reason", "timeouts"),
    [
        pytest.param("import os; os.kill(os.getpid(), 11)", "ended with 139", [60], id="crash"),
        pytest.param("raise SystemExit(0)", "ended with 0, without a report", [60], id="no report"),
        pytest.param("import time; time.sleep(600)", "stopped after", [1, 6, 36], id="time"),
    ],
)
def test_a_program_that_ends_without_a_report_is_wrong(
    root: Path, program: str, reason: str, timeouts: list[float]
) -> None:
    for timeout in timeouts:  # a busy machine takes longer for the untouched folder
        tests = {**CHECKS["tests"], "timeout": timeout}
        result = answer(root, writes(program_py=program), question(checks={"tests": tests}, answer={"fixed": FIXED}))
        if result.outcome == Outcome.WRONG:
            break

    assert result.outcome == Outcome.WRONG
    assert reason in why(result)


def test_output_beyond_the_limit_is_wrong(root: Path) -> None:
    long = "print('x' * 100_000)"
    result = answer(
        root, writes(program_py=long), question(checks={"prints": CHECKS["prints"]}, answer={"total": TOTAL})
    )

    assert result.outcome == Outcome.WRONG
    assert "longer than" in why(result)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"passing_before": ["tests.test_program::test_total"]}, "does not pass", id="fails before"),
        pytest.param(
            {"passing_before": ["tests.test_program::test_totl"]},
            "nearest are: tests.test_program::",
            id="unknown",
        ),
        pytest.param({"run": ["no-such-program", "{report}"]}, "could not be started", id="no command"),
    ],
)
def test_a_broken_environment_is_never_wrong(root: Path, change: Body, reason: str) -> None:
    checks = {"tests": {**CHECKS["tests"], **change}}
    result = answer(root, writes(program_py=GOOD), question(checks=checks, answer={"fixed": FIXED}))

    assert result.outcome == Outcome.STAGE_ERROR
    assert "the environment is broken" in (result.metadata.error or "")
    assert reason in (result.metadata.error or "")


SILENT = "raise SystemExit(3)\n"


@pytest.mark.parametrize(
    ("program", "solution", "outcome"),
    [
        pytest.param(SILENT, None, Outcome.STAGE_ERROR, id="no report with the answer"),
        pytest.param(SILENT, SILENT, Outcome.STAGE_ERROR, id="nor with the solution"),
        pytest.param(SILENT, GOOD, Outcome.WRONG, id="but with the solution"),
        pytest.param(GOOD, None, Outcome.CORRECT, id="but with the answer"),
    ],
)
def test_without_any_report_the_environment_is_broken(
    root: Path, program: str, solution: str | None, outcome: Outcome
) -> None:
    (root / "task/program.py").write_text("raise SystemExit(2)\n")
    lines = "".join(f"+{line}\n" for line in (solution or "").splitlines())
    diff = f"--- a/program.py\n+++ b/program.py\n@@ -1 +1,{lines.count(chr(10))} @@\n-raise SystemExit(2)\n{lines}"
    tests = {**CHECKS["tests"], "passing_before": []}
    asked = question(checks={"tests": tests}, answer={"fixed": FIXED}, **({"solution": diff} if solution else {}))
    result = answer(root, writes(program_py=program), asked)

    assert result.outcome == outcome, why(result)
    assert ("'tests' ended with 2 without a report on the" in why(result)) is (outcome == Outcome.STAGE_ERROR)


@pytest.mark.parametrize(
    ("writes_report", "reason"),
    [
        ("f.mkdir(); (f / 'TEST-a.xml').write_text('<testsuite/>')", "the report is a folder; join the files in it"),
        ("f.write_text('<testsuite>')", "the report is not well-formed XML"),
        ("f.symlink_to('program.py')", "the report is a link, which is not followed"),
        ("f.open('wb').truncate(30_000_000)", "the report is larger than 20,000,000 bytes"),
    ],
)
def test_why_a_report_is_not_used_is_told(root: Path, writes_report: str, reason: str) -> None:
    run = ["python", "-c", f"import pathlib, sys; f = pathlib.Path(sys.argv[1]); {writes_report}", "{report}"]
    asked = question(checks={"tests": {"run": run, "report": "junit"}}, answer={"fixed": FIXED})
    assert f"'tests' ended with 0, {reason}" in why(answer(root, [], asked))


def test_pytest_runs_without_our_own_plugin(root: Path) -> None:
    asks = "def test_plugin(request):\n    assert not request.config.pluginmanager.has_plugin('karenina')\n"
    write_files(root / "task", {"test_plugins.py": asks})
    run = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={report}", "test_plugins.py"]
    fixed = {**FIXED, "ground_truth": ["test_plugins.py::test_plugin"]}
    asked = question(checks={"tests": {"run": run, "report": "junit"}}, answer={"fixed": fixed})

    assert answer(root, [], asked).outcome == Outcome.CORRECT


def test_a_sandbox_that_dies_is_not_judged(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = root.parent / "no-folder"
    monkeypatch.setattr("tempfile.tempdir", str(full))  # the sandbox has no place for its files
    result = answer(root, writes(program_py=GOOD))

    assert result.outcome == Outcome.STAGE_ERROR


def test_a_flaky_check_is_undecided(root: Path) -> None:
    flaky = "import secrets; print(secrets.token_hex())"
    checks = {"prints": {"run": ["python", "program.py"], "flaky": True}}
    result = answer(root, writes(program_py=flaky), question(checks=checks, answer={"total": TOTAL}))

    assert result.outcome == Outcome.UNDECIDED
    assert "two runs of the flaky check differ" in why(result)


def test_a_run_with_checks_needs_a_sandbox(root: Path) -> None:
    with pytest.raises((ConfigError, RunError), match="no sandbox is chosen"):
        answer(root, [], sandbox=None)


def test_a_benchmark_cannot_choose_to_have_no_sandbox(root: Path) -> None:
    file = root.parent / "tasks.yaml"
    load(root)
    file.write_text(json.dumps({**json.loads(file.read_text()), "config": {"sandbox": "none"}}))
    made = Benchmark.load(file)
    model = {"id": "a", "interface": "openai", "model_name": "m", "endpoint_base_url": "http://127.0.0.1:1"}
    config = VerificationConfig(answering_models=[model], sandbox="none").with_benchmark_names({"sandbox"})
    with pytest.raises(ConfigError, match="which only you may choose"):
        made.run_verification(config, trust="all")


@pytest.mark.parametrize("outside", [False, True])
def test_trust_covers_what_checks_add(root: Path, monkeypatch: pytest.MonkeyPatch, outside: bool) -> None:
    monkeypatch.setenv("KARENINA_CONFIG_HOME", str(root.parent / "config"))
    file = root.parent / "given/tasks.yaml" if outside else root.parent / "tasks.yaml"
    file.parent.mkdir(exist_ok=True)
    where = "../root" if outside else "root"
    file.write_text(json.dumps({"karenina": 1, "name": "t", "workspace_root": where, "questions": [question()]}))

    def trust(*options: str) -> str:
        return run_karenina("trust", str(file), *options, plugins=Plugins.discover()).out

    assert "task-tests has SHA-256 " in trust("--yes")
    assert "(already trusted)" in trust()
    (root / "task-tests/hidden/report.py").write_text("import os\n")
    assert "(already trusted)" not in trust()
    shutil.rmtree(root / "task-tests")
    assert f"task-tests was not read: there is no such file or folder in {file.parent / where}" in trust()
    file.write_text(file.read_text().replace(f'"workspace_root": "{where}", ', ""))
    assert "task-tests was not read, because the file sets no workspace_root" in trust()


@pytest.mark.parametrize("origin", ["file", "environment"])
def test_only_the_command_line_can_choose_no_sandbox(root: Path, monkeypatch: pytest.MonkeyPatch, origin: str) -> None:
    monkeypatch.chdir(root.parent)
    load(root)
    given: list[str] = []
    if origin == "file":
        Path("own.toml").write_text('sandbox = "none"\n')
        given = ["-c", "own.toml"]
    else:
        monkeypatch.setenv("KARENINA_SANDBOX", "none")

    def check(*options: str) -> CommandResult:
        command = ("check", "tasks.yaml", *given, "--run-checks", "--trust-all", *options)
        return run_karenina(*command, plugins=Plugins.discover())

    refused = check()
    assert refused.code == 2
    cure = "sets sandbox = none, which only takes effect on the command line; remove it there, and add --sandbox none"
    assert cure in " ".join((refused.out + refused.err).split())
    assert check("--sandbox", "none").code == check("--set", "sandbox=none").code == 0


@pytest.mark.parametrize(
    ("source", "problem"),
    [("checks.print.output", "did you mean 'checks.prints.output'"), ("checks.prints.passed", "set `report: junit`")],
)
def test_a_field_that_no_check_fills_is_refused(root: Path, source: str, problem: str) -> None:
    checks = {"prints": CHECKS["prints"]}
    field = {"from": source, "ground_truth": ["x"] if source.endswith("passed") else "x"}
    with pytest.raises(ConfigError, match=problem):
        answer(root, [], question(checks=checks, answer={"total": field}))


@pytest.mark.parametrize("missing", [[], ["progam.py"]])
def test_a_restored_path_that_does_not_exist_is_an_error(root: Path, missing: list[str]) -> None:
    restore = ["./program.py", "*.py", "hidden/", "hidden/report.py", "Makefile", *missing]
    checks = {"tests": {**CHECKS["tests"], "restore": restore}}
    load(root, question(checks=checks, answer={"fixed": FIXED}))
    checked = run_karenina("check", str(root.parent / "tasks.yaml"), "--trust-all", plugins=Plugins.discover())

    assert checked.code == (2 if missing else 0), checked.out
    shown = " ".join(checked.out.split())
    assert ("`restore` names 'progam.py', which is neither in" in shown) is bool(missing)
    assert ("did you mean 'program.py'?" in shown) is bool(missing)


def test_settings_that_a_sandbox_does_not_use_are_reported(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    answer(root, [], question(checks={"prints": CHECKS["prints"]}, answer={"total": TOTAL}), sandbox_image="python:3")
    assert "sandbox_image has no effect" in caplog.text


@pytest.mark.parametrize(
    ("interface", "sandbox", "reported"),
    [("shell", "bwrap", True), ("shell", "none", False), ("shell", None, False), ("claude_agent_sdk", "bwrap", False)],
)
def test_agents_with_tools_outside_the_sandbox_are_reported(
    interface: str, sandbox: str | None, reported: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Shell:
        @hookimpl
        def karenina_adapters(self) -> list[AdapterSpec]:
            tier = AgentTier.DEEP_AGENT
            return [AdapterSpec(interface="shell", description="An agent.", tier=tier, agent=ClaudeAgent)]

    plugins = installed_plugins(Selection())
    plugins.register(Shell())
    own_tools = ModelConfig(id="cli", interface=interface, model_name="m")
    with use_plugins(plugins):
        PrepareSandbox().before_any_run(VerificationConfig(answering_models=[own_tools], sandbox=sandbox))
    assert ("model 'cli': the sandbox does not confine the agent's own tools (shell)" in caplog.text) is reported


def test_an_agent_without_the_folder_of_its_question_is_an_error(root: Path) -> None:
    (root / "task.zip").write_bytes(b"not an archive")
    (root / "copy").mkdir()
    run = asyncio.run(
        run_stage(
            PrepareSandbox,
            question=Question(question="Fix it.", workspace_path="task.zip"),
            artifacts={ArtifactKeys.WORKSPACE_PATH: root / "copy"},
            plugins=[karenina_agentic.plugin],
            workspace_root=str(root),
        )
    )
    assert run.error is not None
    assert "task.zip" in run.error.message


def test_judges_run_commands_in_their_own_copies(root: Path) -> None:
    look = call("run_command", command=["sh", "-c", "cat program.py; echo broken > program.py; cat program.py"])
    works, investigates = agent(*writes(program_py=GOOD)), agent(look)
    seen: list[str] = []

    def reply(body: Body) -> str | Body:
        if "response_format" in body:
            return json.dumps({"explains": True})
        if "You investigate" not in json.dumps(body["messages"][0]):
            return works(body)
        seen.extend(message["content"] for message in body["messages"] if message["role"] == "tool")
        return investigates(body)

    explains = {"description": "Whether the program is right", "ground_truth": True}
    with recording_server(reply) as server:
        judges = [
            {"id": id, "interface": "openai", "model_name": id, "endpoint_base_url": server.url} for id in ("b", "c")
        ]
        settings = {"parsing_models": judges, "agentic_parsing": True, "agentic_judge_context": "workspace_only"}
        sandbox = "none" if SANDBOX.unavailable() else "bwrap"
        asked = question(answer={"total": TOTAL, "explains": explains}, checks={"prints": CHECKS["prints"]})
        results = run(root, server, asked, sandbox=sandbox, **settings)
    assert [result.outcome for result in results] == [Outcome.CORRECT] * 2
    assert seen == [f"exit code 0\noutput:\n{GOOD}broken\n"] * 2
    for result in results:
        (changed,) = result.extensions["karenina-sandbox"]["workspace"]["changes"]
        assert changed["size"] == len(GOOD)
    assert (root / "task/program.py").read_text() == BROKEN


def test_one_base_check_serves_all_repetitions(root: Path, tmp_path: Path) -> None:
    counter = tmp_path / "runs"
    program = f"open({str(counter)!r}, 'a').write('.')\n"
    (root / "task/program.py").write_text(program)
    checks = {"prints": {"run": ["python", "program.py"]}}
    with recording_server(agent(*writes(program_py=program + "print('total: 42')\n"))) as server:
        results = run(root, server, question(checks=checks, answer={"total": TOTAL}), replicate_count=3)

    assert [one.outcome for one in results] == [Outcome.CORRECT] * 3
    assert counter.read_text() == ".."


PATCH = """--- a/program.py
+++ b/program.py
@@ -1,4 +1,4 @@
 def total(numbers):
-    return sum(numbers[1:])
+    return sum(numbers)
\x20
 print('total:', total([40, 2]))
"""


def judge_recording(root: Path, row: Body, *, replay: bool = False, sandbox: str | None = "none") -> VerificationResult:
    """Return the result of a recorded answer."""
    file = root.parent / "recorded.jsonl"
    file.write_text(json.dumps({"id": "sum", **row}))
    model = {"id": "r", "interface": "manual", "model_name": "r", "manual_traces": file}
    config = VerificationConfig(answering_models=[model], **({} if sandbox is None else {"sandbox": sandbox}))
    journal = root.parent / "run.journal"
    (result,) = load(root).run_verification(config, trust="all", journal=journal, replay=replay)
    return result


def test_a_replay_writes_the_same_bytes_without_running_anything(root: Path) -> None:
    ran = root.parent / "ran"
    checks = {"prints": {"run": ["sh", "-c", f'echo >> "{ran}"; python program.py']}}
    benchmark = {"karenina": 1, "name": "t", "workspace_root": str(root)}
    asked = question(checks=checks, answer={"total": TOTAL})
    (root.parent / "tasks.yaml").write_text(json.dumps({**benchmark, "questions": [asked]}))
    (root.parent / "recorded.jsonl").write_text(json.dumps({"id": asked["id"], "response": "Done.", "patch": PATCH}))
    command = ["run", str(root.parent / "tasks.yaml"), "--recordings", str(root.parent / "recorded.jsonl")]
    command += ["--sandbox", "none", "--trust-all", "--journal", str(root.parent / "run.journal")]
    for name, options in (("first", ()), ("second", ("--replay",))):
        output = str(root.parent / f"{name}.results.jsonl")
        done = run_karenina(*command, *options, "--output", output, plugins=Plugins.discover())
        assert done.code == 0, done.out + done.err

    first, second = ((root.parent / f"{name}.results.jsonl").read_bytes() for name in ("first", "second"))
    assert first == second
    assert len(ran.read_text().splitlines()) == 2, "on the untouched folder, and on the work"


def test_a_replay_names_the_sandbox_that_it_lacks(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert judge_recording(root, {"response": "Done.", "patch": PATCH}).outcome == Outcome.CORRECT
    judge_recording(root, {"response": "Done.", "patch": PATCH}, replay=True, sandbox=None)
    assert "settings that this replay does not have" in caplog.text
    assert caplog.text.rstrip().endswith("add --set sandbox=none")
    caplog.clear()
    assert judge_recording(root, {"response": "Done.", "patch": PATCH}, replay=True).outcome == Outcome.CORRECT
    assert not caplog.text


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"response": "Done.", "patch": PATCH}, Outcome.CORRECT),
        ({"model_patch": PATCH}, Outcome.CORRECT),
        ({"response": "Done.", "patch": ""}, Outcome.WRONG),
        ({"response": "Done."}, Outcome.WRONG),
        ({"response": "Done.", "patch": PATCH.replace("numbers[1:]", "other")}, Outcome.WRONG),
    ],
)
def test_the_patch_of_a_recording_is_checked(root: Path, row: Body, outcome: Outcome) -> None:
    result = judge_recording(root, row)

    assert result.outcome == outcome, why(result)


@pytest.mark.parametrize(("patch", "outcome"), [(PATCH, Outcome.CORRECT), ("", Outcome.WRONG)])
def test_a_link_in_place_of_hidden_tests_changes_no_verdict(root: Path, patch: str, outcome: Outcome) -> None:
    link = "diff --git a/hidden b/hidden\nnew file mode 120000\n--- /dev/null\n+++ b/hidden\n@@ -0,0 +1 @@\n+.\n"
    result = judge_recording(root, {"response": "Done.", "patch": patch + link})
    assert result.outcome == outcome, why(result)


def test_an_export_leaves_out_answers_without_their_work(root: Path) -> None:
    assert answer(root, writes(program_py=GOOD)).outcome == Outcome.CORRECT
    out = root.parent / "answers.jsonl"
    done = run_karenina(
        *("export", root.parent / "run.journal", "--format", "recording", "-o", out), plugins=Plugins.discover()
    )
    assert (
        "1 answer is left out (answers judged by the files that they changed, which only --replay has: 1)" in done.err
    )
    assert out.read_text() == ""


def test_why_a_patch_is_not_used_is_told(root: Path) -> None:
    other = PATCH.replace("\n-", "\n-not ", 1)
    result = judge_recording(root, {"response": "Done.", "patch": other})
    assert result.outcome == Outcome.WRONG
    assert "the patch does not fit the folder: " in why(result)


DAMAGED = f"{PATCH}diff --git a/other.py b/other.py\n--- a/other.py\n+++ b/other.py\n@@\n-old\n+new\n"


def test_a_patch_that_is_damaged_in_part_is_not_used(root: Path) -> None:
    result = judge_recording(root, {"response": "Done.", "patch": DAMAGED})
    assert result.outcome == Outcome.WRONG
    assert "the patch does not fit the folder: the patch for 'other.py' is damaged: " in why(result)


CREATED = """diff --git a/new.sh b/new.sh
new file mode 100755
--- /dev/null
+++ b/new.sh
@@ -0,0 +1,2 @@
+#!/bin/sh
+echo total: 42
"""


@pytest.mark.parametrize(
    ("creates", "solution", "outcome", "reason"),
    [
        (True, None, Outcome.STAGE_ERROR, "there is no file './new.sh' in the workspace; if the agent has to create"),
        (True, CREATED.replace("755", "644"), Outcome.STAGE_ERROR, "no file './new.sh'"),
        (True, CREATED, Outcome.CORRECT, ""),
        (False, CREATED, Outcome.WRONG, "could not be started: there is no file './new.sh' in the workspace"),
    ],
)
def test_a_solution_shows_that_agents_create_a_command(
    root: Path, creates: bool, solution: str | None, outcome: Outcome, reason: str
) -> None:
    script = r"printf '#!/bin/sh\necho total: 42\n' > new.sh; chmod +x new.sh"
    steps = [call("run_command", command=["sh", "-c", script])] if creates else []
    solved = {} if solution is None else {"solution": solution}
    asked = question(checks={"prints": {"run": ["./new.sh"]}}, answer={"total": TOTAL}, **solved)
    result = answer(root, steps, asked)

    assert (result.outcome, reason in why(result)) == (outcome, True), why(result)
    if outcome == Outcome.CORRECT:
        file = root.parent / "tasks.yaml"
        options = ("--run-checks", "--sandbox", "none", "--trust-all")
        checked = run_karenina("check", str(file), *options, plugins=Plugins.discover())
        assert checked.code == 0, checked.out
        assert "the check 'prints' can only be started with the solution" in checked.err


def test_a_patch_that_cannot_be_read_is_not_judged(root: Path) -> None:
    patch = "diff --git a/new.png b/new.png\nnew file mode 100644\nBinary files /dev/null and b/new.png differ\n"
    result = judge_recording(root, {"response": "Done.", "patch": patch})

    assert result.outcome == Outcome.STAGE_ERROR
    assert "git diff --binary" in why(result)


def test_a_patch_file_may_contain_any_bytes(root: Path) -> None:
    added = "--- /dev/null\n+++ b/latin.txt\n@@ -0,0 +1 @@\n+caf\u00e9\n".encode("latin-1")
    (root.parent / "work.patch").write_bytes(PATCH.encode() + added)
    result = judge_recording(root, {"response": "Done.", "patch_file": "work.patch"})
    assert result.outcome == Outcome.CORRECT, why(result)
    assert (
        judge_recording(root, {"response": "Done.", "patch_file": "work.patch"}, replay=True).outcome == result.outcome
    )


def test_the_submission_of_a_trajectory_is_the_recorded_work(root: Path) -> None:
    patch = f"\ndiff --git a/program.py b/program.py\n{PATCH}"
    for status, outcome in (("submitted", Outcome.CORRECT), ("exit_environment_error", Outcome.MODEL_ERROR)):
        run = {"info": {"exit_status": status, "submission": patch}, "history": [], "trajectory": []}
        assert judge_recording(root, {"response": run}).outcome == outcome


def test_a_changed_patch_file_is_judged_again(root: Path) -> None:
    (root.parent / "work.patch").write_text("")
    assert judge_recording(root, {"response": "Done.", "patch_file": "work.patch"}).outcome == Outcome.WRONG
    (root.parent / "work.patch").write_text(PATCH)
    assert judge_recording(root, {"response": "Done.", "patch_file": "work.patch"}).outcome == Outcome.CORRECT


def test_what_results_keep_of_the_work_is_a_setting(root: Path) -> None:
    kept = {
        keep: answer(root, writes(program_py=GOOD), workspace_keep=keep, run_name=keep)
        for keep in ("none", "patch", "all")
    }

    assert {keep: "workspace" in one.extensions["karenina-sandbox"] for keep, one in kept.items()} == {
        "none": False,
        "patch": True,
        "all": True,
    }
    assert [len(one.metadata.files or ()) for one in kept.values()] == [0, 0, 1]


def test_python_is_the_interpreter_of_the_setting(root: Path, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho total: 42\n")
    python.chmod(0o755)
    checks = {"prints": CHECKS["prints"]}

    result = answer(root, [], question(checks=checks, answer={"total": TOTAL}), sandbox_python=python)
    assert result.outcome == Outcome.CORRECT


@pytest.mark.parametrize(("most", "together", "seconds"), [(1, False, 2), (2, True, 120)])
def test_commands_run_at_the_same_time_up_to_a_number(
    root: Path, tmp_path: Path, most: int, together: bool, seconds: int
) -> None:
    meets = (
        "import os, time\n"
        f"place = {str(tmp_path)!r} + '/now-' + str(os.getpid())\n"
        "open(place, 'w').close()\n"
        f"end = time.monotonic() + {seconds}\n"
        f"others = lambda: [name for name in os.listdir({str(tmp_path)!r}) if name.startswith('now-')]\n"
        "while len(others()) < 2 and time.monotonic() < end:\n"
        "    time.sleep(0.05)\n"
        "met = len(others()) > 1\n"
        "if met:\n"
        "    open(place + '-met', 'w').close()  # the other one sees this if it comes later\n"
        "os.remove(place)\n"
        "print('met' if met else 'alone')\n"
    )
    met = {"from": "checks.prints.output", "ground_truth": "met\n", "verify_with": "ExactMatch"}
    asked = []
    for number in range(2):
        write_files(root / f"task{number}", {"program.py": meets + f"# {number}\n"})
        checks = {"prints": CHECKS["prints"]}
        asked.append(question(id=f"q{number}", workspace_path=f"task{number}", checks=checks, answer={"met": met}))
    model = {"id": "a", "interface": "manual", "model_name": "a", "manual_traces": {"q0": "Done.", "q1": "Done."}}
    config = VerificationConfig(answering_models=[model], sandbox="none", sandbox_concurrency=most)

    results = load(root, *asked).run_verification(config, trust="all")
    assert [one.outcome == Outcome.CORRECT for one in results] == [together] * 2


NO_BWRAP = SANDBOX.unavailable()


@pytest.mark.skipif(NO_BWRAP is not None, reason=NO_BWRAP or "")
@pytest.mark.parametrize("mounted", [True, False])
def test_a_mounted_file_can_be_read_in_a_sandbox(root: Path, tmp_path: Path, mounted: bool) -> None:
    data = tmp_path / "data.txt"
    data.write_text("total: 42")
    checks = {"prints": {"run": ["cat", str(data)]}}

    result = answer(
        root,
        [],
        question(checks=checks, answer={"total": TOTAL}),
        sandbox="bwrap",
        sandbox_mounts=[data] if mounted else [],
    )
    assert result.outcome == (Outcome.CORRECT if mounted else Outcome.WRONG)


def test_a_container_needs_an_image(root: Path) -> None:
    with pytest.raises((ConfigError, RunError), match="podman"):
        answer(root, [], sandbox="podman", sandbox_image=None)


def test_unused_patches_and_missing_reports_are_in_the_summary(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root.parent)
    for number in "12":
        write_files(root / f"task{number}", {"program.py": "raise SystemExit(2)\n"})
    checks = {"tests": {**CHECKS["tests"], "passing_before": []}}
    same = {"checks": checks, "answer": {"fixed": FIXED}}
    load(root, question(id="a", workspace_path="task1", **same), question(id="b", workspace_path="task2", **same))
    good = "".join(f"+{line}\n" for line in GOOD.splitlines())
    fits = f"--- a/program.py\n+++ b/program.py\n@@ -1 +1,4 @@\n-raise SystemExit(2)\n{good}"
    rows = [{"id": "a", "response": "Done.", "patch": fits}, {"id": "b", "response": "Done.", "patch": PATCH}]
    Path("answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    done = run_karenina(
        *("run", "tasks.yaml", "--recordings", "answers.jsonl", "--sandbox", "none", "--trust-all", "-o", "r.jsonl"),
        plugins=Plugins.discover(),
    )
    shown = " ".join(done.out.split())
    assert "1 patch could not be applied" in shown
    assert "1 answer judged by a check without a report on the untouched folder" in shown
    assert "not known: the patch does not fit the folder: " in shown


def test_a_sandbox_that_is_missing_is_named_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(root))
    with pytest.raises((ConfigError, RunError)) as refused:
        answer(root, [], sandbox="podman", sandbox_image="python:3")
    assert str(refused.value).count("cannot be used") == 1


@pytest.mark.parametrize(
    ("patch", "solution", "passing"),
    [
        pytest.param(PATCH, None, ["tests/test_program.py::test_empty"], id="broken on the untouched folder"),
        pytest.param(PATCH, None, [], id="no report"),
        pytest.param(PATCH, PATCH, [], id="no report with the solution"),
        pytest.param("", None, [], id="no report and no change"),
    ],
)
def test_a_broken_environment_is_tried_again_by_the_next_run(
    root: Path, tmp_path: Path, patch: str, solution: str | None, passing: list[str]
) -> None:
    mended, ran = tmp_path / "mended", tmp_path / "ran"
    script = f'echo >> "{ran}"; test -e "{mended}" && exec python hidden/report.py "$0"'
    tests = {**CHECKS["tests"], "run": ["sh", "-c", script, "{report}"], "passing_before": passing}
    (tmp_path / "recorded.jsonl").write_text(json.dumps({"id": "sum", "response": "Done.", "patch": patch}))
    models = [
        {"id": id, "interface": "manual", "model_name": id, "manual_traces": tmp_path / "recorded.jsonl"} for id in "rs"
    ]
    config = VerificationConfig(answering_models=models, sandbox="none")
    changes = {"solution": solution} if solution else {}
    tasks = load(root, question(checks={"tests": tests}, answer={"fixed": FIXED}, **changes))

    def outcomes(*, replay: bool = False) -> tuple[set[Outcome], int]:
        """Return the outcomes of a run, and how many commands it ran."""
        ran.write_text("")
        found = tasks.run_verification(config, trust="all", journal=tmp_path / "run.journal", replay=replay)
        return {one.outcome for one in found}, len(ran.read_text())

    broken, count = outcomes()
    assert broken == {Outcome.STAGE_ERROR}
    assert count == 1 or not passing
    assert outcomes(replay=True) == (broken, 0)
    mended.touch()
    judged, _ = outcomes()
    assert judged == {Outcome.CORRECT if patch else Outcome.WRONG}
    assert outcomes() == outcomes(replay=True) == (judged, 0)


CODES = {
    "the last block": (f"I correct it:\n\n~~~\nold\n~~~\n\n```python\n{GOOD}```\nIt now adds all.", Outcome.CORRECT),
    "a block that is not closed": (f"Here:\n```python\n{GOOD}", Outcome.CORRECT),
    "no block": (GOOD, Outcome.CORRECT),
    "fences in the code": (f"````python\n{GOOD}'''\n```\n'''\n````", Outcome.CORRECT),
    "a block in a list": (
        "1. Here:\n\n   ~~~\n" + "".join(f"   {line}" for line in GOOD.splitlines(keepends=True)) + "   ~~~\n",
        Outcome.CORRECT,
    ),
    "a fence that nothing follows": (f"```python\n{GOOD}```\nDone.\n```\n", Outcome.CORRECT),
    "code in a line": (f"```x``` is no block:\n\n```python\n{GOOD}```\n", Outcome.CORRECT),
    "wrong code": (f"```python\n{BROKEN}# still```", Outcome.WRONG),
    "a refusal": ("I cannot help with that.", Outcome.WRONG),
}


@pytest.mark.parametrize("name", CODES)
def test_the_code_of_an_answer_is_checked_in_its_file(root: Path, name: str) -> None:
    text, outcome = CODES[name]
    asked = question(answer_file="program.py", checks={"prints": CHECKS["prints"]}, answer={"total": TOTAL})
    with recording_server(lambda _: text) as server:
        (result,) = run(root, server, asked)
    assert result.outcome == outcome, why(result)
    assert result.extensions["karenina-sandbox"]["workspace"]["changes"][0]["path"] == "program.py"


def test_what_an_agent_changed_comes_before_the_code_of_its_answer(root: Path) -> None:
    asked = question(answer_file="src/other.py", checks={"prints": CHECKS["prints"]}, answer={"total": TOTAL})
    result = answer(root, writes(program_py=GOOD), asked)
    assert result.outcome == Outcome.CORRECT
    (changed,) = result.extensions["karenina-sandbox"]["workspace"]["changes"]
    assert changed["path"] == "program.py"


def test_the_code_of_an_answer_may_be_a_new_file(root: Path) -> None:
    asked = question(answer_file="src/other.py", checks={"prints": CHECKS["prints"]}, answer={"total": TOTAL})
    result = answer(root, [], asked)
    assert result.outcome == Outcome.WRONG
    assert "+++ b/src/other.py" in result.extensions["karenina-sandbox"]["workspace"]["patch"]


def test_a_short_wrong_output_is_not_called_too_long(root: Path) -> None:
    load(root, question(checks={"prints": CHECKS["prints"]}, answer={"total": TOTAL}, solution="solution.patch"))
    (root / "solution.patch").write_text("--- /dev/null\n+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n")
    options = ("--run-checks", "--sandbox", "none", "--trust-all")
    checked = run_karenina("check", str(root.parent / "tasks.yaml"), *options, plugins=Plugins.discover())
    assert checked.code == 2
    assert "the field 'total' is wrong: it is 'total: 2\\n'" in checked.out
