"""Tests of `karenina run --executor ray`: Ctrl-C ends the workers, and the run can be resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import FAKE_PLUGIN
from processes import is_running
from ray_runs import Server, benchmark, config, serving

SLOTS = {"generate_answer": "Ask"}


def start_command(folder: Path, server: Server, *more: str) -> subprocess.Popen[str]:
    """Start `karenina run` in a process group of its own, as a terminal does."""
    if not (folder / "questions.jsonld").exists():
        benchmark(40).save(folder / "questions.jsonld")
        chosen = {name: getattr(config(server, "asyncio"), name) for name in ("evaluation_mode", "slots")}
        model = {"interface": "fake_plugin.fake", "endpoint_base_url": server.url}
        roles = {"answering_models": ["answering"], "parsing_models": ["judge-1", "judge-2"]}
        models = {role: [{"id": id, "model_name": id, **model} for id in ids] for role, ids in roles.items()}
        (folder / "config.json").write_text(json.dumps({**chosen, **models, "max_concurrency": 4}), "utf-8")
    return subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from karenina_cli import main; main()",
            "run",
            "questions.jsonld",
            "--config",
            "config.json",
            *more,
        ],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": FAKE_PLUGIN},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_plan_says_when_ray_does_not_help(tmp_path: Path) -> None:
    recorded = [{"id": "a", "interface": "fake_plugin.recorded", "model_name": "a"}]
    called = {"id": "j", "interface": "fake_plugin.fake", "model_name": "j"}
    said = {}
    for name, judges in {"recorded": [], "judged": [called]}.items():
        config = {"answering_models": recorded, "parsing_models": judges, "executor": "ray", "slots": SLOTS}
        (tmp_path / "config.json").write_text(json.dumps(config), "utf-8")
        command = [sys.executable, "-c", "from karenina_cli import main; main()", "plan", "--json"]
        done = subprocess.run(
            [*command, "--config", "config.json"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": FAKE_PLUGIN},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        said[name] = json.loads(done.stdout).get("executor_use")

    assert "below that, it does not help" in said["recorded"]
    assert said["judged"] is None


def has_result(file: Path) -> bool:
    """Return whether a result file contains its header and a result."""
    return file.is_file() and file.read_bytes().count(b"\n") > 1


@pytest.mark.parametrize(
    ("number", "send"),
    [
        (signal.SIGINT, os.killpg),
        pytest.param(signal.SIGHUP, os.killpg, marks=pytest.mark.release),
        pytest.param(signal.SIGTERM, os.kill, marks=pytest.mark.release),
    ],
)
def test_signal_ends_workers_and_run_continues_without_ray(
    number: int, send: Callable[[int, int], None], tmp_path: Path
) -> None:
    with serving(latency=0.1) as server:
        started = start_command(tmp_path, server, "--executor", "ray", "--set", "ray_workers=2", "--json")
        results = tmp_path / "questions.results.jsonl"
        while not has_result(results) and started.poll() is None:
            time.sleep(0.02)
        send(started.pid, number)
        out, errors = started.communicate(timeout=120)
        assert started.returncode == 130, errors
        assert "SIGTERM received" not in errors
        assert "karenina resume" in errors
        assert 0 < len(json.loads(out)["results"]) < 80
        end = time.monotonic() + 60
        while is_running(-started.pid) and time.monotonic() < end:
            time.sleep(0.02)
        assert not is_running(-started.pid), "workers are still alive"

        out, errors = start_command(tmp_path, server, "--json").communicate(timeout=120)

    assert len(json.loads(out)["results"]) == 80, errors
    assert set(server.calls.values()) == {1}


def has_child(process: int) -> bool:
    """Return whether a process has started another one."""
    return any(children.read_text() for children in Path(f"/proc/{process}/task").glob("*/children"))


def test_ctrl_c_while_ray_starts_prevents_all_calls(tmp_path: Path) -> None:
    with serving() as server:
        started = start_command(tmp_path, server, "--executor", "ray", "--set", "ray_workers=1")
        while not has_child(started.pid) and started.poll() is None:
            time.sleep(0.01)
        os.kill(started.pid, signal.SIGINT)
        _, errors = started.communicate(timeout=120)

    assert started.returncode == 130, errors
    assert server.received == []
