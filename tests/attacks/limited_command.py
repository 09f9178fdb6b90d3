"""The installed command in a process with limited memory and time."""

from __future__ import annotations

import os
import resource
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import preloaded

COMMAND = Path(sysconfig.get_path("scripts"), "karenina")
MEMORY = 4 << 30
"""Bytes of address space: a command without hostile files takes a tenth, the files here would take more."""
SECONDS = 100
"""Far more than any of these commands takes on a busy machine, and far less than an attack that works."""
BENCHMARK = """karenina: 1
name: Genes
questions:
  - id: q
    question: Which gene is it?
    answer:
      named: {description: It is named, ground_truth: true, verify_with: {type: TraceContains, substring: BCL2}}
"""


@dataclass(frozen=True)
class CompletedCommand:
    """How a command ended."""

    code: int
    out: str
    err: str

    def assert_refused(self, *said: str, code: int = 2) -> None:
        """Assert that it ended with an error that says all of this, and with no traceback."""
        assert "Traceback" not in self.err, self.err[-2000:]
        assert self.code == code, (self.code, self.err[-2000:], self.out[-500:])
        for part in said:
            assert part in self.err, (part, self.err[-2000:])


def run_karenina(
    folder: Path, *arguments: str | Path, shell: str = "", script: bool = False, **environment: str
) -> CompletedCommand:
    """Run the command; `shell` redirects its streams, `script` starts a new interpreter."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("KARENINA_")}
    given |= {"COLUMNS": "400", "NO_COLOR": "1", "XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder)}
    given |= environment
    if not shell:
        ended = preloaded.run(
            arguments, folder=folder, environment=given, timeout=SECONDS, memory=MEMORY, script=script
        )
        return CompletedCommand(ended.returncode, ended.stdout, ended.stderr)
    program = COMMAND if script else preloaded.scripts() / COMMAND.name
    line = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", str(program), *map(str, arguments)]
    done = subprocess.run(line, cwd=folder, env=given, capture_output=True, timeout=SECONDS, preexec_fn=_limit_memory)
    return CompletedCommand(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def write_benchmark(folder: Path) -> Path:
    """Return a good benchmark of one question."""
    return write_file(folder / "good.yaml", BENCHMARK)


def write_recordings(folder: Path) -> Path:
    """Return a good recording of its answer."""
    return write_file(folder / "good.jsonl", '{"id": "q", "answer": "It is BCL2."}\n')


def write_file(file: Path, content: str | bytes) -> Path:
    """Write a file, and return it."""
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return file
