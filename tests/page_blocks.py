"""The blocks of the pages of the documentation, found by Sybil and executed in a folder of their page.

- A block with `title="NAME"` is written to that file.
- `python` is executed; all blocks of a page share their names. The value of a last expression is printed.
- `console` holds commands after `$ `, each with its output; indented blocks hold commands alone. A command that shows
  no output must succeed. `cd` lasts until the end of its block, and `pip install -e .` installs beside the folder.
- `toml`, `yaml` and `json` must be valid, and are checked as configurations and benchmarks if they are that.
- A block without a language is the output of the block before it.

`...` in an output stands for any text. Blocks and commands that cannot be executed are declared by the caller.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
import yaml
from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from karenina import Benchmark, read_config
from karenina_core.config import all_settings

FENCES = RawFencedCodeBlockLexer(re.compile(r"(?P<language>[\w-]*)(?P<info>[^\n]*)$\n", re.MULTILINE))
TITLE = re.compile(r'title="([^"]+)"')
INDENTED = re.compile(r"(?:(?<=\n\n)|(?<=^))(?: {4}.*\S.*\n(?:\n(?= {4}))?)+", re.MULTILINE)
INSTALL = re.compile(r"(?:python -m )?pip install (?:-e )?\.(?:\[tests\])?$")
COMMANDS = ("console", "indented", "bash", "sh")
SHELL = re.compile(r"[|<>&;$*]|\\\n|^\w+=")


@dataclass(frozen=True)
class Block:
    """A block: its language, the rest of the line of the fence, and its text. Indented ones have no fence."""

    language: str
    info: str
    source: str


class Page:
    """A page that is executed: its folder, the environment of its commands, and what was left out and why.

    `replaced` are texts of the page with what takes their place, such as the address of a server. `left_out` returns
    the reason why a block or a command is not executed, or None.
    """

    def __init__(
        self,
        folder: Path,
        *,
        environment: Mapping[str, str],
        replaced: Mapping[str, str],
        left_out: Callable[[str], str | None],
    ) -> None:
        self.folder = folder
        self.site = folder.with_name(f"{folder.name}-site")
        path = os.pathsep.join([str(folder), str(self.site)])
        self.environment = {**environment, "PYTHONPATH": path}
        self.executed = 0
        self._replaced = replaced
        self._left_out = left_out
        self._output: str | None = None
        self._place = folder

    def parse(self, document: Document) -> Iterator[Region]:
        """Yield the blocks of a page: a parser for Sybil."""
        fences = list(FENCES(document))
        for fence in fences:
            block = Block(**{name: str(text) for name, text in fence.lexemes.items()})
            yield Region(fence.start, fence.end, block, self.evaluate)
        spans = [(fence.start, fence.end) for fence in fences]
        for found in INDENTED.finditer(document.text):
            if not any(start <= found.start() < end for start, end in spans):
                block = Block("indented", "", found[0])
                yield Region(found.start(), found.end(), block, self.evaluate)

    def evaluate(self, example: Example) -> None:
        """Execute one block."""
        block: Block = example.parsed
        language, source = block.language, block.source
        title = TITLE.search(block.info)
        self.executed += 1
        if language not in COMMANDS and self._left_out(source) is not None:
            self._output = None
        elif title is not None:
            check_syntax(language, source)
            file = self.folder / title[1]
            assert file.resolve().is_relative_to(self.folder.resolve()), title[1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._with_replacements(source), "utf-8")
        elif language in ("", "text"):
            assert self._output is not None, "no block before it has output: declare why it is not executed"
            check_output(self._output, self._with_replacements(source))
        elif language == "python":
            self._output = self._run_python(self._with_replacements(source), example.namespace)
        elif language in COMMANDS:
            self._output, self._place = None, self.folder
            for command, shown in read_commands(self._with_replacements(source), prompt=language == "console"):
                self._output = self._run(command, shown) or self._output
        else:
            check_file(language, source, self.folder)

    def _with_replacements(self, text: str) -> str:
        for old, new in self._replaced.items():
            text = text.replace(old, new)
        return text

    def _run_python(self, source: str, namespace: dict[str, Any]) -> str:
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        out = io.StringIO()
        namespace.setdefault("__name__", "__main__")
        with in_folder(self.folder, self.site), contextlib.redirect_stdout(out), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(tree, "page", "exec"), namespace)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "page", "eval"), namespace)
                if value is not None:
                    out.write(f"{value!r}\n")
        return out.getvalue()

    def _run(self, command: str, shown: str) -> str | None:
        """Run a command, and compare its output if the page shows it. Return the output; None if it is left out."""
        if self._left_out(command) is not None:
            return None
        done = self._start(command)
        if shown:
            check_output(done.stdout, shown, done.stdout + done.stderr, done.stderr + done.stdout)
        else:
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def _start(self, command: str) -> subprocess.CompletedProcess[str]:
        words = shlex.split(command, comments=True)
        if words[0] == "cd":
            self._place = (self._place / words[1]).resolve()
            return subprocess.CompletedProcess(words, 0 if self._place.is_dir() else 1, "", "")
        if INSTALL.match(" ".join(words)):
            options = ["-q", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(self.site)]
            words = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, *options, "."]
        elif words[0] == "karenina" and not SHELL.search(command.partition(" #")[0]):
            return preloaded.run(words[1:], folder=self._place, environment=self.environment, timeout=120)
        elif words[0] == "pytest":
            return preloaded.pytest(words[1:], folder=self._place, environment=self.environment, timeout=250)
        else:
            words = ["bash", "-c", command]
        return subprocess.run(
            words, cwd=self._place, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )


def execute(file: Path, page: Page) -> list[str]:
    """Execute the blocks of a page in their order; return what is wrong, with its line."""
    problems = []
    for example in Sybil(parsers=[page.parse], path=str(file.parent)).parse(file).examples():
        try:
            example.region.evaluator(example)  # type: ignore[misc]
        except (Exception, SystemExit) as error:
            problems.append(f"{file.name}, line {example.line}: {type(error).__name__}: {error}")
    return problems


def count_fences(text: str) -> int:
    """Return the number of fenced blocks of a page, without Sybil."""
    return len(re.findall(r"^[ \t]*(?:[-*+>] |\d+\. )?[ \t]*(?:`{3,}|~{3,})", text, re.MULTILINE)) // 2


def read_commands(text: str, *, prompt: bool) -> Iterator[tuple[str, str]]:
    """Yield each command of a block with the output that the block shows."""
    if not prompt:
        lines = "\n".join(line.strip() for line in text.splitlines()).replace("\\\n", "")
        yield from ((line, "") for line in lines.splitlines() if line and not line.startswith("#"))
        return
    assert text.startswith("$ "), "a block of commands begins with `$ `"
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", "").partition("\n")
        yield command, shown


def check_output(output: str, shown: str, *others: str) -> None:
    """Check that one of the outputs is what the page shows, in which `...` stands for any text."""
    pattern = re.escape(_normalized(shown)).replace(re.escape("..."), ".*?")
    outputs = [_normalized(one) for one in (output, *others)]
    assert any(re.fullmatch(pattern, one, re.DOTALL) for one in outputs), f"the output is\n{outputs[0]}"


def _normalized(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n")


def check_syntax(language: str, source: str) -> None:
    """Check that a block can be parsed."""
    parsers: dict[str, Callable[[str], object]] = {
        "python": ast.parse,
        "toml": tomllib.loads,
        "yaml": yaml.safe_load,
        "json": lambda text: [json.loads(one) for one in _json_values(text)],
        "jsonl": lambda text: [json.loads(line) for line in text.splitlines()],
        "text": str,
        "csv": str,
    }
    assert language in parsers, f"blocks of {language!r} are not executed: give them a language that is"
    parsers[language](source)


def _json_values(text: str) -> Iterable[str]:
    """Return one JSON value, or one for each line if the text is JSON lines."""
    try:
        json.loads(text)
    except ValueError:
        return text.splitlines()
    return [text]


def check_file(language: str, source: str, folder: Path) -> None:
    """Check a file that a page shows without a name: as a configuration or a benchmark if it is one."""
    check_syntax(language, source)
    found = tomllib.loads(source) if language == "toml" else yaml.safe_load(source) if language == "yaml" else None
    if not isinstance(found, dict):
        return
    file = folder / f"shown.{language}"
    file.write_text(source, "utf-8")
    if "karenina" in found:
        report = Benchmark.check_file(file)
        assert not report.errors, [str(one) for one in report.errors]
    elif found.keys() <= all_settings().keys():
        read_config(file)


@contextlib.contextmanager
def in_folder(*paths: Path) -> Iterator[None]:
    """Work in the first of some folders, with all of them on the path; modules from there are forgotten afterwards."""
    before, known = Path.cwd(), set(sys.modules)
    os.chdir(paths[0])
    sys.path[:0] = list(map(str, paths))
    try:
        yield
    finally:
        os.chdir(before)
        del sys.path[: len(paths)]
        for name in set(sys.modules) - known:
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(paths[0].parent)):
                del sys.modules[name]
