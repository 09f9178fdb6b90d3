"""The command as a separate process: its imports, interruption and exit codes."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile

import preloaded
import pytest
from conftest import SCRIPTS, Environment
from gene_questions import TWO_GENES
from servers import RecordingServer, recording_server

HEAVY = (
    *("numpy", "torch", "pandas", "sentence_transformers", "transformers", "xllamacpp", "huggingface_hub"),
    *("aiohttp", "pyreqwest", "httpx", "httpx2", "requests"),
    *("openai", "anthropic", "langchain_core", "mcp", "claude_agent_sdk"),
    "opentelemetry",
)
IN_THE_ANSWER = "verify_with: {type: TraceContains, substring: BCL2}"
PATIENT = """from karenina_cli import main
from karenina_engine.run import session
session.GRACE = 600
main()"""
"""The command, with so much time for calls under way that no slow machine runs out of it."""


def reply(body: Mapping[str, object]) -> str:
    """Return the reply of a model that answers BCL2 to everything; as a judge it extracts the word from the answer."""
    return json.dumps({"gene": "BCL2"}) if "response_format" in body else "I think that it is BCL2."


@pytest.fixture
def silent() -> Iterator[RecordingServer]:
    """A server that answers nothing until the test is over."""
    release = threading.Event()

    def never(_body: Mapping[str, object]) -> str:
        release.wait(200)
        return "too late"

    with recording_server(never) as server:
        yield server
        release.set()


@contextmanager
def started(site: Environment, *command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Yield a running command, which is killed where it is not over at the end of the block."""
    running = subprocess.Popen(
        command,
        cwd=site.folder,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under nohup it is ignored
    )
    try:
        yield running
    finally:
        running.kill()


@pytest.mark.parametrize("arguments", [["--help"], ["plugins"], ["--version"], ["config"], ["plan"]])
def test_listing_commands_import_no_sdk_http_client_or_numpy(site: Environment, arguments: list[str]) -> None:
    found = site.python(
        "import json, sys\n"
        f"sys.argv = ['karenina', *{arguments!r}]\n"
        "import contextlib, io\n"
        "from karenina_cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        "    try:\n        main()\n    except SystemExit as end:\n        code = end.code\n"
        f"print(json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]))",
        script=True,
    )

    assert found == [0, []]


def test_the_core_imports_no_command_library(site: Environment) -> None:
    heavy = (*HEAVY, "typer", "rich", "yaml")
    program = "import json, sys, karenina_core\nprint(json.dumps([name for name in {} if name in sys.modules]))"

    assert site.python(program.format(repr(heavy)), script=True) == []


def test_help_lists_the_commands_of_the_core_and_of_plugins(site: Environment) -> None:
    printed = site.karenina("--help", script=True).stdout

    for command in ("run", "show", "plan", "plugins", "config", "trust", "model"):
        assert f" {command} " in printed


def test_a_model_answers_and_a_model_judges_through_a_server(site: Environment) -> None:
    file = site.write("genes.yaml", TWO_GENES)
    with recording_server(reply) as server:
        model = f"openai:m@{server.url}"
        done = site.karenina("run", file, "-a", model, "-j", model, "--json", "--fail-under", "0.6", script=True)

    assert done.returncode == 1, done.stderr
    found = json.loads(done.stdout)
    assert [(one["question_id"], one["outcome"]) for one in found["results"]] == [
        ("first", "correct"),
        ("second", "wrong"),
    ]
    assert found["results"][1]["template"]["parsed_llm_response"] == {"gene": "BCL2"}
    assert found["summary"]["pass_rate"]["value"] == 0.5
    assert found["summary"]["usage"]["calls"] == 4
    shown = site.karenina("show", site.folder / found["output"])
    for words in ("I think that it is BCL2.", "TP53", "gene differs from the ground truth", "1 of 2 judged"):
        assert words in shown.stdout


@pytest.mark.parametrize("places", ["1", "2"])
def test_results_removed_during_the_run_are_written_again(site: Environment, places: str) -> None:
    file = site.write("genes.yaml", TWO_GENES)

    def removing(body: Mapping[str, object]) -> str:
        (site.folder / "genes.results.jsonl").unlink(missing_ok=True)
        return reply(body)

    with recording_server(removing) as server:
        model = f"openai:m@{server.url}"
        command = ("run", file, "-a", model, "-j", model, "--set", f"max_concurrency={places}")
        removed = site.karenina(*command)
        calls = len(server.requests)
        again = site.karenina(*command)
        assert len(server.requests) == calls

    assert removed.returncode == 70
    assert "the results so far are in the journal genes.journal, and the same command continues" in removed.stderr
    assert again.returncode == 0
    assert len(site.printed("show", "genes.results.jsonl")["results"]) == 2


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_ctrl_c_keeps_finished_results_and_prints_the_next_command(
    site: Environment, silent: RecordingServer, more: tuple[str, ...]
) -> None:
    file = site.write("genes.yaml", TWO_GENES.replace("ground_truth: BCL2", "ground_truth: true, " + IN_THE_ANSWER))
    recorded = site.write("answers.jsonl", json.dumps({"id": "first", "answer": "BCL2"}) + "\n")
    model = f"openai:slow@{silent.url}"
    models = ("-a", model, "-j", model, "--recordings", recorded, "--partial")
    command = (preloaded.scripts() if more else SCRIPTS) / "karenina"
    with started(site, command, "run", file, *models, "-o", "out.jsonl", *more) as running:
        _wait_for(lambda: len(_lines(site.folder / "out.jsonl")) >= 1)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)

    assert running.returncode == 130, err
    assert "karenina resume out.journal" in err
    assert "Traceback" not in err
    if more:
        said = json.loads(out)
        assert (said["interrupted"], said["not_run"] + said["summary"]["items"]) == (True, 4)
        assert said["summary"]["pass_rate"]["out_of"] == 1
        assert ("first", "correct") in [(one["question_id"], one["outcome"]) for one in said["results"]]
    else:
        assert "1 of 1 judged" in out
    finished = site.printed("show", "out.jsonl")["results"]
    assert ("first", "correct") in [(one["question_id"], one["outcome"]) for one in finished]


def test_calls_in_flight_at_ctrl_c_are_not_repeated(site: Environment) -> None:
    file = site.write("genes.yaml", TWO_GENES)
    release = threading.Event()

    async def late(body: Mapping[str, object]) -> str:
        await asyncio.to_thread(release.wait, 200)
        return reply(body)

    with recording_server(late) as server:
        model = f"openai:m@{server.url}"
        arguments = ("run", file, "-a", model, "-j", model, "-o", "out.jsonl")
        try:
            with started(site, sys.executable, "-c", PATIENT, *arguments) as running:
                _wait_for(lambda: len(server.seen) == 2)
                running.send_signal(signal.SIGINT)
                assert running.stderr is not None
                said = running.stderr.readline()
                release.set()
                _, err = running.communicate(timeout=120)
        finally:
            release.set()
        asked = len(server.seen)
        again = site.karenina(*arguments, "--json")

    assert (running.returncode, asked) == (130, 2), err
    assert "waiting up to 600 s for 2 calls in flight" in said
    assert "2 items have no result" in " ".join(err.split())
    assert [one["outcome"] for one in json.loads(again.stdout)["results"]] == ["correct", "wrong"]
    assert len(server.seen) == 4


def test_a_second_ctrl_c_stops_at_once(site: Environment, silent: RecordingServer) -> None:
    file, model = site.write("genes.yaml", TWO_GENES), f"openai:m@{silent.url}"
    command = (sys.executable, "-c", PATIENT, "run", file, "-a", model, "-j", model, "-o", "out.jsonl")
    with started(site, *command) as running:
        _wait_for(lambda: silent.seen)
        running.send_signal(signal.SIGINT)
        assert running.stderr is not None
        assert "Ctrl-C again to stop at once" in running.stderr.readline()
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)

    assert running.returncode == 130, err
    assert "karenina resume out.journal" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_ends_the_run_in_order_unless_ignored(site: Environment, ignored: bool) -> None:
    file = site.write("genes.yaml", TWO_GENES)
    release = threading.Event()

    async def late(body: Mapping[str, object]) -> str:
        await asyncio.to_thread(release.wait, 200)
        return reply(body)

    def own_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)  # nohup ignores it, too

    with recording_server(late) as server:
        model, (ours, theirs) = f"openai:m@{server.url}", pty.openpty()
        arguments = ("run", file, "-a", model, "-j", model, "-o", "out.jsonl")
        running = subprocess.Popen(
            [sys.executable, "-c", PATIENT, *arguments],
            cwd=site.folder,
            stdin=theirs,
            stdout=subprocess.DEVNULL if ignored else theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=own_terminal,
        )
        os.close(theirs)
        try:
            _wait_for(lambda: len(server.seen) == 2)
            os.close(ours)
            time.sleep(0.2)
            release.set()
            code = running.wait(120)
        finally:
            release.set()
            running.kill()
        asked = len(server.seen)
        again = site.karenina(*arguments, "--json")

    assert (code, asked) == ((0, 4) if ignored else (130, 2))
    assert [one["outcome"] for one in json.loads(again.stdout)["results"]] == ["correct", "wrong"]
    assert len(server.seen) == 4


def test_further_signals_of_a_closed_terminal_are_ignored(site: Environment, silent: RecordingServer) -> None:
    file, model = site.write("genes.yaml", TWO_GENES), f"openai:m@{silent.url}"
    with started(site, SCRIPTS / "karenina", "run", file, "-a", model, "-j", model, "-o", "out.jsonl") as running:
        _wait_for(lambda: silent.seen)
        while running.poll() is None:
            running.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        _, err = running.communicate(timeout=120)

    assert running.returncode == 130, err
    assert "karenina resume out.journal" in err
    assert "Traceback" not in err


def test_run_timeout_prints_the_next_command_and_exits_with_124(site: Environment, silent: RecordingServer) -> None:
    file, model = site.write("genes.yaml", TWO_GENES), f"openai:m@{silent.url}"
    limited = ("--set", "run_timeout=0.3")
    done = site.karenina("run", file, "-a", model, "-j", model, "-o", "out.jsonl", *limited)

    assert done.returncode == 124
    assert "run_timeout = 0.3 s" in done.stderr
    assert "2 items have no result" in " ".join(done.stderr.split())
    assert "karenina resume out.journal" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_ends_the_command_in_silence(site: Environment) -> None:
    file = site.write("genes.yaml", TWO_GENES.replace("ground_truth: BCL2", "ground_truth: true, " + IN_THE_ANSWER))
    recorded = site.write("answers.jsonl", json.dumps({"id": "first", "answer": "BCL2\n" * 500}) + "\n")
    site.karenina("run", file, "--recordings", recorded, "-q", "first", "-o", "out.jsonl").check_returncode()
    for number in range(200):
        copyfile(site.folder / "out.jsonl", site.folder / f"{number}.jsonl")
    many = "{0..199}.jsonl"

    command = f"'{preloaded.scripts() / 'karenina'}' show {many} | head -c 9"
    done = subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=site.folder, capture_output=True, text=True)

    assert done.stdout == "✓ correct"[:7]
    assert (done.returncode, done.stderr) == (141, "")


def test_calls_in_flight_are_kept_if_the_reader_of_the_progress_goes_away(site: Environment) -> None:
    third = TWO_GENES[TWO_GENES.index("  - id: second") :].replace("second", "third").replace("mutated", "copied")
    file = site.write("genes.yaml", TWO_GENES + third)
    gone, last = threading.Event(), threading.Event()

    async def in_turn(body: Mapping[str, object]) -> str:
        waits = {"mutated": gone, "copied": last}
        for event in [event for word, event in waits.items() if word in json.dumps(body)]:
            await asyncio.to_thread(event.wait, 200)
        if gone.is_set() and "response_format" in body:
            threading.Timer(0.5, last.set).start()  # by then, the second result could not be reported
        return reply(body)

    with recording_server(in_turn) as server:
        model = f"openai:m@{server.url}"
        arguments = ("run", file, "-a", model, "-j", model, "-o", "out.jsonl")
        try:
            with started(site, sys.executable, "-c", PATIENT, *arguments) as running:
                assert running.stderr is not None
                assert "1/3" in running.stderr.readline()
                running.stderr.close()
                gone.set()
                code = running.wait(60)
        finally:
            for event in (gone, last):
                event.set()
        asked = len(server.seen)
        again = site.karenina(*arguments, "--json")

    assert (code, asked) == (141, 5)
    assert [one["outcome"] for one in json.loads(again.stdout)["results"]] == ["correct", "wrong", "wrong"]
    assert len(server.seen) == 6


def test_a_low_limit_on_open_files_is_raised_for_the_connections(site: Environment) -> None:
    question = (
        "  - id: q{0}\n    question: What is {0}?\n    answer: {{gene: {{description: The gene, ground_truth: true, "
    )
    questions = "".join(f"{question.format(number)}{IN_THE_ANSWER}}}}}\n" for number in range(150))
    site.write("genes.yaml", f"karenina: 1\nname: Genes\nquestions:\n{questions}")

    async def slow(body: Mapping[str, object]) -> str:
        await asyncio.sleep(1)
        return reply(body)

    with recording_server(slow) as server:
        command = f"ulimit -Sn 100; karenina run genes.yaml -a openai:m@{server.url} --json --quiet"
        more = "--set max_concurrency=150 --set concurrency_start=150 --set retry_connection=0"
        done = subprocess.run(["bash", "-c", f"{command} {more}"], cwd=site.folder, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert {one["outcome"] for one in json.loads(done.stdout)["results"]} == {"correct"}


def test_the_command_ends_with_70_where_it_breaks_itself(site: Environment) -> None:
    program = (
        "import sys\nsys.argv = ['karenina', 'plan']\n"
        "from karenina_cli import main\nfrom karenina_cli.commands import plan_command\n"
        "plan_command.get_screen = None\nmain()"
    )
    done = preloaded.run([], folder=site.folder, environment=os.environ, timeout=120, program=program)

    assert done.returncode == 70
    assert "Traceback" in done.stderr


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8").splitlines() if file.exists() else []


def _wait_for(what: object, seconds: float = 120) -> None:
    assert callable(what)
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


INTERRUPTED_MODULE = """
import os, runpy, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "karenina_cli.app":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background may ignore it
sys.argv = ["karenina", "plugins"]
sys.meta_path.insert(0, Finder())
runpy.run_module("karenina", run_name="__main__", alter_sys=True)
"""


def test_ctrl_c_while_python_m_karenina_starts_exits_without_a_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED_MODULE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
