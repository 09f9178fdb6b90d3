"""Call a failing model through a real gateway, and check that every item is either right or not judged.

    python -m venv gateway && gateway/bin/pip install 'litellm[proxy]'
    python benchmarks/gateway.py --litellm gateway/bin/litellm
    python benchmarks/gateway.py --litellm gateway/bin/litellm --karenina old=OLD/bin/python --karenina new=bin/python

LiteLLM's proxy, in its own environment, is placed between `karenina run` and the scripted server, which answers 10% of
the calls with status 429, 5% with 500 and 5% with a reply without text, and breaks off 5% in the middle. All answers
are right, so any item that is judged must be correct. There are three variants: `openai`, `openai` with streaming, and
`openai_endpoint`; `--karenina` runs them with the command in each environment. The proxy forwards errors without
retrying, and accesses no network except the loopback interface. Exits with 1 if an item in the last environment is
wrong or has no result.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import own_state  # noqa: F401 - sets it
from fake_server import code, is_judge, item_of
from faults import judge, write_benchmark

from karenina_testing.server import Request, ScriptedServer, Side, faults

SHARES: Final = {faults.status(429): 0.10, faults.status(500): 0.05, faults.empty_text: 0.05, faults.cut: 0.05}
WAYS: Final[Mapping[str, Mapping[str, Any]]] = {
    "openai": {"interface": "openai"},
    "openai, streamed": {"interface": "openai", "extra": {"stream": True}},
    "openai_endpoint": {"interface": "openai_endpoint"},
}
START: Final = 180
"""Seconds within which the proxy must have started."""
NOT_JUDGED: Final = ("model_error", "parse_error")
NOWHERE: Final = "http://127.0.0.1:9"


def answer(request: Request) -> str:
    """Return the correct answer to an item as a sentence."""
    item = item_of(request)
    return f"The code word of item #{item} is {code(int(item))}."


def free_port() -> int:
    """Return a port that is not in use."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port: int = unused.getsockname()[1]
    return port


@contextmanager
def proxy(litellm: Path, behind: int, folder: Path, key: str) -> Iterator[str]:
    """Start LiteLLM's proxy for the server on port `behind`, and yield the proxy's URL within the block."""
    model = {"model": "openai/served", "api_base": f"http://127.0.0.1:{behind}/v1", "api_key": "none"}
    config = {
        "model_list": [{"model_name": "served", "litellm_params": model}],
        "litellm_settings": {"num_retries": 0},
        "router_settings": {"num_retries": 0, "disable_cooldowns": True},
    }
    file, said, port = folder / "proxy.json", folder / "proxy.log", free_port()
    file.write_text(json.dumps(config))
    environment = {
        "PATH": os.pathsep.join([str(litellm.parent), os.defpath]),
        "HOME": str(folder),
        "LITELLM_MASTER_KEY": key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE),
    }
    command = [str(litellm), "--config", str(file), "--host", "127.0.0.1", "--port", str(port)]
    url = f"http://127.0.0.1:{port}"
    with said.open("w") as out:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_for(process, f"{url}/health/liveliness", said)
        yield url
    finally:
        process.terminate()
        process.wait()


def wait_for(process: subprocess.Popen[bytes], url: str, said: Path) -> None:
    """Wait until the proxy accepts requests.

    Raises `SystemExit`, with the proxy's output, if the proxy does not start in time.
    """
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return
        time.sleep(0.5)
    raise SystemExit(f"the proxy did not start: {said.read_text()[-3000:]}")


def run(python: str, way: str, url: str, key: str, folder: Path, count: int) -> dict[str, Any]:
    """Run `karenina run` in an environment and return its results by question ID. Raises `SystemExit` if it fails."""
    model = {**WAYS[way], "model_name": "served", "endpoint_base_url": f"{url}/v1", "endpoint_api_key": key}
    config = {
        "answering_models": [{"id": "a", **model}],
        "parsing_models": [{"id": "j", **model}],
        "max_concurrency": 8,
        "request_timeout": 60,
    }
    (folder / "config.json").write_text(json.dumps(config))
    write_benchmark(folder / "words.jsonl", count)
    given = ["run", "words.jsonl", "-c", "config.json", "-o", "out.jsonl", "--no-journal", "--quiet", "--full"]
    (folder / "out.jsonl").unlink(missing_ok=True)
    command = [python, "-c", "from karenina_cli import main; main()", *given]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not (folder / "out.jsonl").exists():
        raise SystemExit(f"the run failed ({done.returncode}): {done.stdout}{done.stderr}")
    _header, *lines = (folder / "out.jsonl").read_text().splitlines()
    return {result["metadata"]["question_id"]: result for result in map(json.loads, lines)}


def tried(python: str, way: str, url: str, key: str, behind: int, folder: Path, count: int) -> tuple[bool, str]:
    """Run one variant once. Returns whether each item is right or not judged, and a line summarizing the results."""
    sides = (Side(reply, shares=SHARES, seed=5) for reply in (answer, judge))
    with ScriptedServer(*sides, item_of=item_of, is_judge=is_judge, port=behind) as server:
        results = run(python, way, url, key, folder, count)
        met = server.log.faults()
    outcomes = Counter(result["outcome"] for result in results.values())
    right, left = outcomes.pop("correct", 0), sum(outcomes[name] for name in NOT_JUDGED)
    wrong = len(results) - right - left
    rate = right / (right + wrong) if right + wrong else 0.0
    said = f"{right} right, {wrong} wrong, {left} not judged, {count - len(results)} lost: {rate:.1%} of those judged"
    others = ", ".join(f"{outcome} {number}" for outcome, number in sorted(outcomes.items()))
    faults_met = ", ".join(f"{name} {number}" for name, number in sorted(met.items()))
    line = f"{said}{f' ({others})' if others else ''}; {len(server.log)} calls with {faults_met}"
    for id, result in results.items():
        if result["outcome"] not in ("correct", *NOT_JUDGED):
            sent = [(entry.side, entry.fault) for entry in server.log[id[1:]]]
            line += f"\n    {id} is {result['outcome']}: {sent}"
    return wrong == 0 and len(results) == count, line


def main() -> None:
    """Run each variant in each environment and print a summary.

    Exits with 1 if the last environment has a wrong item.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--litellm", type=Path, required=True, help="the command of the proxy, in its own environment")
    parser.add_argument(
        "--karenina", action="append", metavar="NAME=PYTHON", help="an interpreter with Karenina; may be repeated"
    )
    parser.add_argument("--questions", type=int, default=120)
    chosen = parser.parse_args()
    if not chosen.litellm.is_file():
        parser.error(
            f"{chosen.litellm} does not exist: python -m venv gateway && gateway/bin/pip install 'litellm[proxy]'"
        )
    environments = [name.partition("=")[::2] for name in chosen.karenina or [f"now={sys.executable}"]]
    behind, key, good = free_port(), f"sk-{secrets.token_hex(16)}", True
    with tempfile.TemporaryDirectory() as name, proxy(chosen.litellm.absolute(), behind, Path(name), key) as url:
        for label, python in environments:
            good = True
            for way in WAYS:
                fine, line = tried(python, way, url, key, behind, Path(name), chosen.questions)
                good &= fine
                print(f"{label}, {way}: {line}", flush=True)
    if not good:
        sys.exit(1)


if __name__ == "__main__":
    main()
