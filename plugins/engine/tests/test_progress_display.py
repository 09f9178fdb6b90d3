"""The progress of runs that Python programs and notebooks start."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from command_runs import make_plugins
from nbclient import NotebookClient

from karenina_benchmark import Benchmark
from karenina_core import plugins as plugin_room
from karenina_core.config import VerificationConfig

SUPPORT = Path(__file__).parents[3] / "tests" / "support"
CONFIG: dict[str, Any] = {
    "answering_models": [{"id": "m", "interface": "scripted", "model_name": "m"}],
    "evaluation_mode": "rubric_only",
}
PROGRAM = f"""
from command_runs import make_plugins
from karenina_benchmark import Benchmark
from karenina_core import plugins

benchmark = Benchmark.create("Words")
for number in range(40):
    benchmark.add_question(f"What is {{number}}?", question_id=f"q{{number}}")
with plugins.use_plugins(make_plugins()):
    results = benchmark.run_verification({CONFIG!r}, ARGUMENTS)
"""
RUNS = ("", "progress=False", "question_ids=['q1']", "question_ids=['q1'], progress=True")
"""The arguments of runs that one program makes, because to start one takes longer than its run."""


@pytest.fixture
def words() -> Iterator[Benchmark]:
    """Return a benchmark whose runs use the scripted model."""
    benchmark = Benchmark.create("Words")
    for number in range(40):
        benchmark.add_question(f"What is {number}?", question_id=f"q{number}")
    with plugin_room.use_plugins(make_plugins()):
        yield benchmark


def command(*runs: str, before: str = "") -> list[str]:
    """Return the command of a program that makes runs with these arguments."""
    program = "".join(PROGRAM.replace("ARGUMENTS", run) + "\nprint('finished', len(results))\n" for run in runs)
    return [sys.executable, "-c", before + program]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SUPPORT), "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}


def on_terminal(*runs: str, before: str = "") -> str:
    """Return what a program prints on a pseudo-terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 100))
    with subprocess.Popen(command(*runs, before=before), stdout=theirs, stderr=theirs, env=environment()) as program:
        os.close(theirs)
        found = b""
        while True:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the program has ended
                break
            found += piece
    os.close(ours)
    assert program.returncode == 0, found.decode()
    return found.decode()


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    """Return what each of `RUNS` shows on a terminal."""
    texts = re.findall(r"(.*?finished \d+)\r?\n", on_terminal(*RUNS), re.DOTALL)
    return dict(zip(RUNS, texts, strict=True))


def test_a_program_in_a_pipe_shows_no_progress() -> None:
    done = subprocess.run(command("journal=None"), capture_output=True, text=True, env=environment(), check=True)

    assert done.stdout == "finished 40\n"
    assert "40/40" not in done.stderr
    assert "running" not in done.stderr


def test_a_terminal_shows_a_bar_with_outcomes(shown: dict[str, str]) -> None:
    text = shown[""]

    assert "━━━━" in text
    assert "40/40" in text
    assert "40 scored" in text
    assert text.endswith("finished 40")


def test_a_terminal_without_rich_shows_the_bar_of_tqdm() -> None:
    text = on_terminal("", before="import sys; sys.modules['rich'] = None\n")

    assert "━━━━" not in text
    assert "running: 100%" in text
    assert "40/40" in text


def test_a_terminal_without_libraries_has_lines() -> None:
    text = on_terminal("", before="import sys; sys.modules['rich'] = sys.modules['tqdm'] = None\n")

    assert "40/40 40 scored" in text
    assert text.count("/40 ") == 20


def test_progress_can_be_forbidden_on_a_terminal(shown: dict[str, str]) -> None:
    assert "40/40" not in shown["progress=False"]


def test_one_item_has_no_bar(shown: dict[str, str]) -> None:
    assert "running" not in shown["question_ids=['q1']"]
    assert "1/1" in shown["question_ids=['q1'], progress=True"]


def test_progress_can_be_asked_for_in_a_pipe(words: Benchmark, capsys: pytest.CaptureFixture[str]) -> None:
    words.run_verification(CONFIG, progress=True)
    lines = capsys.readouterr().err.splitlines()

    assert lines[-1].startswith("40/40 40 scored")
    assert len([line for line in lines if "/40 " in line]) == 20


def test_asynchronous_runs_show_progress_too(words: Benchmark, capsys: pytest.CaptureFixture[str]) -> None:
    asyncio.run(words.arun_verification(CONFIG, progress=True))

    assert "40/40 40 scored" in capsys.readouterr().err


def test_rescoring_shows_progress_too(words: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words.run_verification(CONFIG, journal=tmp_path / "run.journal")
    words.rescore(tmp_path / "run.journal", VerificationConfig(**CONFIG), progress=True)

    assert capsys.readouterr().err.splitlines()[-1].startswith("40/40 40 scored")


def test_results_of_a_journal_count_as_progress(
    words: Benchmark, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        words.run_verification(CONFIG, journal=tmp_path / "run.journal", progress=True)

        assert "40/40 40 scored" in capsys.readouterr().err


def executed(folder: Path, monkeypatch: pytest.MonkeyPatch, *cells: str) -> list[Any]:
    """Return the cells of a notebook after a kernel has executed them."""
    kernel = folder / "kernels" / "own"
    kernel.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(
        json.dumps({"argv": argv, "display_name": "own", "language": "python"}), "utf-8"
    )
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
    monkeypatch.setenv("PYTHONPATH", str(SUPPORT))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, startup_timeout=240, kernel_name="own").execute()
    return [*notebook.cells, notebook.metadata]


def test_a_notebook_shows_progress_and_an_html_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, shown, one, widgets = executed(
        tmp_path, monkeypatch, PROGRAM.replace("ARGUMENTS", ""), "results", "results[0]"
    )

    assert "40/40" in json.dumps([run, widgets])
    html = shown.outputs[0].data["text/html"]
    assert "<table>" in html
    assert "40 scored" in html
    assert "VerificationResultSet of 40 results" in shown.outputs[0].data["text/plain"]
    assert "What is 0?" in one.outputs[0].data["text/html"]


def test_a_notebook_without_tqdm_has_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = "import sys; sys.modules['tqdm'] = None\n"
    run, _widgets = executed(tmp_path, monkeypatch, before + PROGRAM.replace("ARGUMENTS", ""))

    assert "40/40 40 scored" in "".join(one.text for one in run.outputs if one.output_type == "stream")
