"""A run on a file of questions, with models that answer immediately, in its own process, which reports its costs.

    python benchmarks/scripted_run.py run FILE OUTPUT [--replicates N] [--journal JOURNAL]
    python benchmarks/scripted_run.py rescore JOURNAL FILE OUTPUT --processes N

`memory.py` and `rescore.py` start it, so that memory left behind by one run is not counted for the next. It prints a
JSON object with the seconds and CPU seconds from loading the file to the last result (without imports and a small run
before that), items, calls, and the peak memory in MB, each with the part used by helper processes. `helper_peak` is the
largest peak of one helper process, most of which is shared with the run.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

TEMPLATE = """from karenina.templates import BaseAnswer, ExactMatch, VerifiedField


class Answer(BaseAnswer):
    word: str = VerifiedField(
        description="The code word that the response states.", ground_truth="{truth}", verify_with=ExactMatch()
    )
"""


def write_questions(file: Path, count: int, wrong: int = 0) -> Path:
    """Write a benchmark with this many questions to `file`, and return `file`.

    Each question has its own template and ground truth. The ground truths of the first `wrong` questions do not match
    the replies.
    """
    with file.open("w", encoding="utf-8") as out:
        for item in range(count):
            truth = f"word-{item}" if item >= wrong else f"other-{item}"
            line = {
                "id": f"q{item}",
                "question": f"What is the code word of item #{item}?",
                "raw_answer": truth,
                "template": TEMPLATE.format(truth=truth),
            }
            out.write(json.dumps(line) + "\n")
    return file


def measured(*arguments: str | Path) -> dict[str, Any]:
    """Run this file in a separate process with these arguments, and return its report.

    Python writes its compiled files, as it does for users.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, *map(str, arguments)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True, text=True)
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def register() -> None:
    """Register models that answer immediately and keep none of their requests."""
    from karenina_core import plugins
    from karenina_testing import Request, ScriptedModels

    class Forgets(list[Request]):
        def append(self, _request: Request) -> None:
            """Count a request without keeping it."""
            calls[0] += 1

    plugins.active_plugins().register(
        ScriptedModels(
            say=lambda _messages, info: f"The code word is word-{info.question_id[1:]}, as far as I know.",
            fill=lambda _messages, _schema, info: {"word": f"word-{info.question_id[1:]}"},
            requests=Forgets(),
        )
    )


calls = [0]
MODELS = {"a": "answering_models", "j": "parsing_models"}


def command(file: Path, output: Path, journal: Path | None, replicates: int) -> None:
    """Run `karenina run` in this process."""
    from karenina_cli.app import build_app

    config = output.with_suffix(".config.json")
    models = {name: [{"id": id, "interface": "scripted", "model_name": id}] for id, name in MODELS.items()}
    config.write_text(json.dumps({**models, "replicate_count": replicates}))
    kept = ["--journal", str(journal)] if journal is not None else ["--no-journal"]
    build_app()(["run", str(file), "-c", str(config), "-o", str(output), "--quiet", *kept], standalone_mode=False)


def again(journal: Path, file: Path, output: Path, processes: int) -> int:
    """Rescore a journal as in `karenina rescore`, and return the number of items."""
    from karenina import Benchmark, VerificationConfig
    from karenina_engine.offline.rescoring import rescore

    models: dict[str, Any] = {
        name: [{"id": id, "interface": "scripted", "model_name": id}] for id, name in MODELS.items()
    }
    config = VerificationConfig(**models)
    found = rescore(journal, Benchmark.load(file), config, output=output, processes=processes)
    print(f"{len(found.flips)} flips, {len(found.missing)} missing", file=sys.stderr)
    return found.after.items


def main(arguments: Sequence[str] | None = None) -> None:
    """Do the work given by `arguments`, after a small run that imports everything, and print the report as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("what", choices=["run", "rescore"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--replicates", type=int, default=1)
    parser.add_argument("--journal", type=Path)
    parser.add_argument("--processes", type=int, default=1)
    chosen = parser.parse_args(arguments)
    register()
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(StringIO()):
        few = write_questions(Path(folder) / "few.jsonl", 50)
        command(few, Path(folder) / "few.out.jsonl", None, 1)
        calls[0] = 0
        before, began = os.times(), time.perf_counter()
        if chosen.what == "run":
            file, output = chosen.files
            command(file, output, chosen.journal, chosen.replicates)
            with output.open("rb") as lines:
                items = sum(not line.startswith((b'{"run":', b'{"table":')) for line in lines)
        else:
            journal, file, output = chosen.files
            items = again(journal, file, output, chosen.processes)
        seconds, after = time.perf_counter() - began, os.times()
    spent = [now - then for now, then in zip(after[:4], before[:4], strict=True)]
    peak, helper = (
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    found = {"seconds": seconds, "cpu": sum(spent), "helpers_cpu": sum(spent[2:]), "items": items, "calls": calls[0]}
    print(json.dumps({**found, "peak": peak, "helper_peak": helper}))


if __name__ == "__main__":
    main()
