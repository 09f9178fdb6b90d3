"""A third-party adapter with invalid replies, and a benchmark to run with it.

A model `odd.m:KIND` answers as `KIND` says, but only question `q2`; `odd.m:fine` always answers well, and `odd.m:judge`
reads every answer. Each call is a line in the file that `ODD_LOG` names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import preloaded

COMMAND = Path(sysconfig.get_path("scripts")) / "karenina"
PATIENCE = 120.0
"""Seconds after which a command hangs, also on a machine with much else to do."""

BENCHMARK = """\
karenina: 1
name: Genes
questions:
  - id: q1
    question: Which gene is the target of venetoclax?
    answer: {gene: {description: The gene, ground_truth: BCL2, verify_with: ExactMatch}}
  - id: q2
    question: When was it approved?
    answer: {year: {description: The year, ground_truth: 2016, verify_with: NumericExact}}
  - id: q3
    question: Which gene is the target of imatinib?
    answer: {gene: {description: The gene, ground_truth: ABL1, verify_with: ExactMatch}}
"""

ADAPTER = """\
import json
import os

from karenina_core import hookimpl
from karenina_core.models.adapters import AdapterSpec
from karenina_core.models.ports import NO_INFO, LLMReply, ParserReply, Usage

ODD = {
    "tokens": lambda: LLMReply("BCL2", Usage(2**63, 3, calls=1)),
    "negative": lambda: LLMReply("BCL2", Usage(-1, 3, calls=1)),
    "not-a-number": lambda: LLMReply("BCL2", Usage(float("nan"), 3, calls=1)),
    "text-for-a-count": lambda: LLMReply("BCL2", Usage("many", 3, calls=1)),
    "half-a-pair": lambda: LLMReply("half \\ud800", Usage(7, 3, calls=1)),
    "half-a-pair-as-finish": lambda: LLMReply("BCL2", Usage(7, 3, calls=1), "stop\\ud800"),
    "half-a-pair-as-model": lambda: LLMReply("BCL2", Usage(7, 3, calls=1), model="m\\ud800"),
    "list-as-finish": lambda: LLMReply("BCL2", Usage(7, 3, calls=1), ["stop"]),
    "bytes": lambda: LLMReply(b"BCL2", Usage(7, 3, calls=1)),
}


class Odd:
    def __init__(self, model):
        self.kind = model.model_name

    def note(self, info, port):
        with open(os.environ["ODD_LOG"], "a") as log:
            log.write(f"{info.question_id} {port}\\n")

    async def invoke(self, messages, *, info=NO_INFO):
        self.note(info, "llm")
        if self.kind in ODD and info.question_id == "q2":
            return ODD[self.kind]()
        return LLMReply("The answer is BCL2.", Usage(7, 3, calls=1))

    async def parse(self, messages, schema, *, info=NO_INFO):
        self.note(info, "parser")
        names = schema.get("properties", {})
        return ParserReply(json.dumps({name: 2016 if name == "year" else "BCL2" for name in names}), "json_schema")

    async def aclose(self):
        pass


class plugin:
    @staticmethod
    @hookimpl
    def karenina_adapters():
        return [AdapterSpec(interface="odd.m", description="Odd replies.", llm=Odd, parser=Odd, by_item=True)]
"""


TOGETHER = """
import contextlib, io, json, os, shutil, sys
from pathlib import Path
from karenina_cli import main

def give(words):
    sys.argv, here = ["karenina", *words], os.getcwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
    os.chdir(here)
    texts = [one.buffer.getvalue().decode() for one in (out, err)]
    print(json.dumps([int(code), *texts]), file=sys.__stdout__, flush=True)

for before, words in json.loads(sys.argv[1]):
    for name, copy in before.items():
        for ending in ("", "-wal", "-shm", ".lock"):
            Path(copy + ending).unlink(missing_ok=True)
        shutil.copyfile(name, copy)
    give(words)
"""
"""Gives many commands in one process: to start one takes longer than most of them."""


@dataclass(frozen=True)
class CompletedCommand:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class InvalidAdapterRuns:
    """A folder with the benchmark, in which the command finds the adapter."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> InvalidAdapterRuns:
        """Write benchmark and adapter into an empty folder."""
        facts = folder / "site" / "odd_models-1.0.dist-info"
        facts.mkdir(parents=True)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-models\nVersion: 1.0\n", "utf-8")
        (facts / "entry_points.txt").write_text("[karenina.adapters]\nodd.m = odd:plugin\n", "utf-8")
        (folder / "site" / "odd.py").write_text(ADAPTER, "utf-8")
        (folder / "genes.yaml").write_text(BENCHMARK, "utf-8")
        return cls(folder)

    @property
    def journal(self) -> Path:
        """The journal of `run`."""
        return self.folder / "genes.journal"

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of the command: that of the tests, with homes below the folder."""
        homes = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("CONFIG", "STATE", "CACHE", "DATA")}
        path = os.pathsep.join(filter(None, (str(self.folder / "site"), os.environ.get("PYTHONPATH"))))
        own = {"PYTHONPATH": path, "ODD_LOG": str(self.folder / "calls.log"), "COLUMNS": "200"}
        return {**os.environ, **homes, **own}

    def calls(self) -> list[str]:
        """Return the calls of models so far."""
        log = self.folder / "calls.log"
        return log.read_text("utf-8").splitlines() if log.exists() else []

    def karenina(self, *arguments: str | Path, before: Sequence[str] = ()) -> CompletedCommand:
        """Give a command in the folder; `before` is what starts it."""
        if not before:
            ended = preloaded.run(arguments, folder=self.folder, environment=self.environment, timeout=PATIENCE)
            return CompletedCommand(ended.returncode, ended.stdout, ended.stderr)
        done = subprocess.run(
            [*before, str(COMMAND), *map(str, arguments)],
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return CompletedCommand(done.returncode, done.stdout, done.stderr)

    def together(
        self, *commands: Sequence[str], before: Mapping[int, Mapping[str, str]] | None = None
    ) -> list[CompletedCommand]:
        """Give several commands in one process; `before` names files that are copied before a command, by its place."""
        steps = [((before or {}).get(place, {}), list(words)) for place, words in enumerate(commands)]
        done = preloaded.run(
            [json.dumps(steps)],
            folder=self.folder,
            environment=self.environment,
            timeout=PATIENCE + 2 * len(commands),
            program=TOGETHER,
        )
        ended = [CompletedCommand(*one) for one in map(json.loads, done.stdout.splitlines())]
        assert len(ended) == len(commands), done.stderr
        return ended

    def run(self, kind: str = "fine", *more: str | Path, before: Sequence[str] = ()) -> CompletedCommand:
        """Run the benchmark with a model of this kind, into the journal."""
        return self.karenina(*self.command(kind), *more, before=before)

    def command(self, kind: str = "fine") -> tuple[str, ...]:
        """Return the words of the command that runs the benchmark."""
        models = (
            "-a",
            f"odd.m:{kind}",
            "-j",
            "odd.m:judge",
            "-o",
            "genes.jsonl",
            "--journal",
            str(self.journal),
        )
        return ("run", "genes.yaml", *models)
