"""A command that is killed at a random moment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from pathlib import Path


def environment(run: int) -> dict[str, str]:
    """Return the environment of a run, including an API key by which the server identifies the run's requests."""
    return {**os.environ, "OPENAI_API_KEY": f"run-{run}"}


def kill_at_random(
    process: subprocess.Popen[bytes],
    problems: Path,
    draw: random.Random,
    ready: threading.Event,
    longest: float,
    pause: float,
) -> float | None:
    """Kill a process that has just been started. Returns the time, or None if it had already ended.

    One time in five it is killed within two seconds, otherwise up to `pause` seconds after `ready` is set, for which it
    waits at most `longest` seconds. Raises `SystemExit` with the content of `problems`, to which the process writes its
    standard error, if it failed on its own.
    """
    if draw.random() < 0.2:
        time.sleep(2 * draw.random())
    else:
        ready.wait(longest)
        time.sleep(pause * draw.random())
    ended = process.poll() is not None
    if not ended:
        os.kill(process.pid, signal.SIGKILL)
    at = time.monotonic()
    code = process.wait(60)
    if ended and code != 0:
        raise SystemExit(f"the run failed ({code}): {problems.read_text('utf-8')}")
    return None if ended else at
