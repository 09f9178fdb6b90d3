"""A command that is started and killed at a random moment."""

from __future__ import annotations

import os
import random
import subprocess
import threading
import time
from pathlib import Path


def environment(run: int) -> dict[str, str]:
    """Return the environment of a run, including an API key by which the server identifies the run's requests."""
    return {**os.environ, "OPENAI_API_KEY": f"run-{run}"}


def kill_at_random(
    command: list[str],
    folder: Path,
    run: int,
    draw: random.Random,
    ready: threading.Event,
    longest: float,
    pause: float,
) -> float | None:
    """Start the command in a folder and kill it. Returns the time, or None if it had already ended.

    One time in five it is killed within two seconds, otherwise up to `pause` seconds after `ready` is set, for which it
    waits at most `longest` seconds. Raises `SystemExit` if the command fails on its own.
    """
    process = subprocess.Popen(
        command, cwd=folder, env=environment(run), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    if draw.random() < 0.2:
        time.sleep(2 * draw.random())
    else:
        ready.wait(longest)
        time.sleep(pause * draw.random())
    ended = process.poll() is not None
    process.kill()
    at = time.monotonic()
    _, said = process.communicate()
    if ended and process.returncode != 0:
        raise SystemExit(f"the run failed ({process.returncode}): {said.decode()}")
    return None if ended else at
