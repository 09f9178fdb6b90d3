"""Does a run with many large pictures stay within its memory?

    python benchmarks/attachment_memory.py                 1,000 pictures of 3 MB, 50 calls at once; some minutes
    python benchmarks/attachment_memory.py --pictures 100  smaller, for a quick check

`karenina run` sends each picture to a server on this machine that reads it and answers after a while, so that calls
wait for each other. The figure is the peak memory of the process (ru_maxrss, including imports). Exits with 1 if it is
above the target, or if an item is not correct.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from karenina_testing.server import ScriptedServer, Side

TARGET = 400
"""The most megabytes."""
SIZE = 3_000_000
AT_ONCE = 50
_CHILD = """
import resource, sys
from karenina_cli import main
try:
    main()
finally:
    sys.stderr.write(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}")
"""


def write_benchmark(folder: Path, pictures: int) -> Path:
    """Write a benchmark in which each question attaches a picture of its own. Their pixels are noise."""
    lines = []
    answer = {"said": {"description": "It says yes", "verify_with": {"type": "TraceContains", "substring": "yes"}}}
    for number in range(pictures):
        (folder / f"{number}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + os.urandom(SIZE))
        question = {"id": f"q{number}", "question": f"Is this {number}?", "attachments": [f"{number}.png"]}
        lines.append({**question, "answer": answer})
    path = folder / "pictures.yaml"
    path.write_text(json.dumps({"karenina": 1, "name": "Pictures", "questions": lines}), "utf-8")
    return path


def main(pictures: int) -> int:
    """Measure, print the figures, and return the exit code."""
    with tempfile.TemporaryDirectory() as temporary, ScriptedServer(Side("yes"), keep_log=False, latency=0.2) as server:
        folder = Path(temporary)
        file = write_benchmark(folder, pictures)
        model = {"id": "m", "interface": "openai", "model_name": "m", "endpoint_base_url": f"{server.url}/v1"}
        declared = {**model, "extra": {"media": ["image/*"], "max_concurrency": AT_ONCE}, "request_timeout": 600}
        done = subprocess.run(
            [
                *(sys.executable, "-c", _CHILD, "run", str(file), "-o", str(folder / "r.jsonl")),
                *("--set", f"answering_models={json.dumps([declared])}", "--journal", str(folder / "r.journal")),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        lines = (folder / "r.jsonl").read_text("utf-8").splitlines() if (folder / "r.jsonl").exists() else []
        correct = sum('"outcome":"correct"' in line for line in lines)
    peak = int(done.stderr.rpartition("peak ")[2] or 0) / 1024
    print(f"{pictures:,} pictures of {SIZE / 1e6:g} MB, {AT_ONCE} at once: {correct:,} correct, {peak:,.0f} MB")
    if correct != pictures:
        print(done.stderr[-2000:])
    return int(correct != pictures or not 0 < peak < TARGET)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=1000, help="the number of pictures")
    sys.exit(main(parser.parse_args().pictures))
