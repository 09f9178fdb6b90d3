"""The command with Ray: Ctrl-C ends the workers and says how to go on, and the output is what it always is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import TOWN
from ray_runs import Server, benchmark, config, serving


def command(folder: Path, server: Server, *more: str) -> subprocess.Popen[str]:
    """`karenina run`, in a process group of its own, as a terminal starts it."""
    if not (folder / "town.jsonld").exists():
        benchmark(40).save(folder / "town.jsonld")
        chosen = {name: getattr(config(server, "asyncio"), name) for name in ("evaluation_mode", "slots")}
        model = {"interface": "town", "endpoint_base_url": server.url}
        roles = {"answering_models": ["mayor"], "parsing_models": ["baker", "smith"]}
        models = {role: [{"id": id, "model_name": id, **model} for id in ids] for role, ids in roles.items()}
        (folder / "town.json").write_text(json.dumps({**chosen, **models, "max_concurrency": 4}), "utf-8")
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from karenina_cli import main; main()",
            "run",
            "town.jsonld",
            "--config",
            "town.json",
            *more,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": TOWN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_ctrl_c_ends_the_workers_and_the_run_goes_on_without_ray(tmp_path: Path) -> None:
    with serving(latency=0.1) as server:
        started = command(tmp_path, server, "--executor", "ray", "--set", "ray_workers=2", "--json")
        end = time.monotonic() + 120
        while len(server.answered) < 12 and started.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        os.killpg(started.pid, signal.SIGINT)
        out, said = started.communicate(timeout=120)
        assert started.returncode == 130, said
        assert "karenina resume" in said
        assert 0 < len(json.loads(out)["results"]) < 80
        while is_there(started.pid) and time.monotonic() < end:
            time.sleep(0.02)
        assert not is_there(started.pid), "workers go on"

        out, said = command(tmp_path, server, "--json").communicate(timeout=120)

    assert len(json.loads(out)["results"]) == 80, said
    assert set(server.calls.values()) == {1}
