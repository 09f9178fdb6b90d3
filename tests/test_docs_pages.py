"""README.md and the pages of docs/: every block of every page is executed, or declared here with a reason."""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import preloaded
import pytest
from otel_collector import collect_telemetry
from page_blocks import Page, count_fences, execute
from page_server import page_server

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/**/*.md"))]
NOT_EXECUTED = {
    "README.md": {"question ──►": "a drawing"},
    "docs/explanation/architecture.md": {"karenina run questions": "a drawing", "ParseTemplate.execute": "a drawing"},
    "docs/explanation/artifacts.md": {"slot   ": "a drawing"},
    "docs/explanation/parse-then-verify.md": {"question": "a drawing"},
    "docs/how-to/agentic-evaluation.md": {
        "karenina run tasks.yaml": "needs the Claude CLI; its adapter's tests run it"
    },
    "docs/how-to/attachments.md": {
        "pip install './examples/plugins/ocr": "needs a network; the example's own tests run its adapter",
        "cd examples": "needs the files of the script",
        "python make_files": "needs Pillow and espeak-ng",
        "karenina run offline": "needs the files of the script",
        "karenina run questions": "needs the files of the script",
    },
    "docs/how-to/costs.md": {
        "karenina run genes.yaml -a openai:gpt-4.1-mini -j openai:gpt-5-mini --budget": "they are free here"
    },
    "docs/how-to/import.md": {
        "karenina import hf:": "needs the network; the tests of karenina-importing have a server"
    },
    "docs/how-to/juries.md": {"Answers    200 of m": "the numbers of a larger run"},
    "docs/how-to/label.md": {
        "karenina calibrate": "needs labels of a person",
        "karenina label genes.results.jsonl --from genes.labels-ann": "needs the file that the page saves",
        "Corrected pass rate": "depends on labels of a person",
    },
    "docs/how-to/local-models.md": {"✗ wrong  5/14": "needs the models of the demo; its own tests run it"},
    "docs/how-to/scripted-server.md": {
        "python -m karenina_testing.server": "runs until it is stopped; the tests of karenina-testing run it"
    },
    "docs/how-to/selftest.md": {
        "karenina selftest --judge openai:gpt-5-mini genes.yaml": "needs a judge that is good enough",
        "Judge         openai:gpt-5-mini": "the numbers of a real judge",
    },
    "docs/how-to/tools-and-agents.md": {
        "GENES_TOKEN": "needs the servers of the example; tests/test_mcp_runs.py has some",
        "karenina run tasks.yaml": "needs the Claude CLI; its adapter's tests run it",
    },
    "docs/how-to/evaluate-a-coding-agent.md": {
        "karenina run tasks.yaml": "needs a virtual environment, node, podman and the Claude CLI",
        "karenina run median/benchmark.yaml -a local:": "the model takes a minute",
    },
    "docs/how-to/write-an-adapter.md": {"karenina run genes.yaml": "needs a server of Ollama"},
}
"""Blocks, and commands, by their beginning that cannot be executed, with the reason, by page."""
NOT_RUN = {
    "python -m pip install": "installs from a package index",
    "tox ": "runs all tests",
}
"""The beginnings of commands that no page can execute, with the reason."""
CONTINUES_README = {
    f"docs/how-to/{name}.md"
    for name in (
        "benchmarks-of-others",
        "ci",
        "comparing-runs",
        "costs",
        "juries",
        "label",
        "opentelemetry",
        "recorded-answers",
        "report",
    )
}
"""Pages with commands for the files of the example of the README: `example` writes them."""
EXAMPLE_RUN = "--answering", "openai:my-model", "--judge", "openai:gpt-5-mini"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Return the address of the server of the models."""
    with page_server() as server:
        yield server.url


@pytest.fixture(scope="module")
def example(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the example of the README, its results, and copies with the names that pages use."""
    folder = tmp_path_factory.mktemp("example")
    (text,) = re.findall(
        r'^```yaml title="genes.yaml"\n(.*?)^```', (ROOT / "README.md").read_text("utf-8"), re.S | re.M
    )
    for name in ("genes.yaml", "genes.karenina.yaml", "theirs.yaml"):
        (folder / name).write_text(text, "utf-8")
    environment = os.environ | variables(address, folder)
    for command in (
        ["run", "genes.yaml", *EXAMPLE_RUN],
        ["export", "genes.journal", "--format", "recording", "-o", "answers.jsonl"],
    ):
        preloaded.run(command, folder=folder, environment=environment, timeout=120).check_returncode()
    for name in ("old", "new", "main"):
        shutil.copy(folder / "genes.results.jsonl", folder / f"{name}.results.jsonl")
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_all_blocks_of_a_page_work(
    name: str, address: str, example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = NOT_EXECUTED.get(name, {})
    used = set()

    def left_out(text: str) -> str | None:
        for beginning, reason in {**declared, **NOT_RUN}.items():
            if text.lstrip().startswith(beginning):
                used.add(beginning)
                return reason
        return None

    for variable, value in variables(address, tmp_path).items():
        monkeypatch.setenv(variable, value)
    folder = tmp_path / "page"
    if name in CONTINUES_README:
        shutil.copytree(example, folder)
    else:
        folder.mkdir()
    with collect_telemetry() as collector:
        replaced = {"http://localhost:8000/v1": address, "http://localhost:4318": collector.url}
        page = Page(folder, environment=os.environ, replaced=replaced, left_out=left_out)
        problems = execute(ROOT / name, page)

    assert problems == [], "\n\n".join(problems)
    assert set(declared) - used == set()
    assert page.executed >= count_fences((ROOT / name).read_text("utf-8"))


SHOWN = """
```console
$ karenina check genes.yaml
1 question read: ...
```
"""
FILE = """
```yaml title="genes.yaml"
karenina: 1
name: Genes
questions:
  - {question: Name the gene, answer: {gene: {description: The gene that is named, ground_truth: BCL2}}}
```
"""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (FILE + SHOWN, ""),
        (FILE + SHOWN.replace("1 question", "2 questions"), "the output is"),
        (SHOWN.replace("1 question read: ...\n", ""), "the file does not exist"),
        ("```python\n1 / 0\n```\n", "ZeroDivisionError"),
        ("```python\nprint('b')\n'c'\n```\n\n```\nb\n'c'\n```\n", ""),
        ("```python\n'b'\n```\n\n```\n'c'\n```\n", "the output is"),
        ("```\na drawing\n```\n", "no block before it has output"),
        ("```toml\nreplicate_count = 2\n```\n", ""),
        ("```toml\nreplicate_count = 0\n```\n", "replicate_count"),
        (FILE.replace(' title="genes.yaml"', "").replace("ground_truth", "truth"), "truth"),
        ("```rust\nfn main() {}\n```\n", "not executed"),
        ("- a list\n\n  ```rust\n  fn main() {}\n  ```\n", "not executed"),
        ("text\n\n    karenina no-such-command\n", "no-such-command"),
        ("text\n\n    karenina \\\n        --version\n", ""),
    ],
)
def test_a_block_that_does_not_work_is_a_problem(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "page.md").write_text(text, "utf-8")
    (tmp_path / "run").mkdir()
    page = Page(tmp_path / "run", environment={**os.environ, "NO_COLOR": "1"}, replaced={}, left_out=lambda _text: None)

    problems = execute(tmp_path / "page.md", page)

    assert len(problems) == bool(problem)
    assert problem in "".join(problems)
    assert page.executed >= count_fences(text)


def variables(address: str, folder: Path) -> dict[str, str]:
    """Return the environment of the commands and programs of a page."""
    return {
        "PATH": os.pathsep.join([str(preloaded.scripts()), sysconfig.get_path("scripts"), os.environ["PATH"]]),
        "HOME": str(folder),
        "XDG_STATE_HOME": str(folder / "state"),
        "COLUMNS": "120",
        "NO_COLOR": "1",
        "OPENAI_API_KEY": "a-key",
        "OPENAI_BASE_URL": address,
    }
