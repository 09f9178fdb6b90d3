"""Code shared by the benchmarks: their questions, the bare loop, and the printing of figures and targets."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import own_state  # noqa: F401 - sets it
from fake_server import code

TEMPLATE = """
class Answer(BaseAnswer):
    word: str = VerifiedField(
        description="The code word that the response states.", ground_truth="{truth}", verify_with=ExactMatch()
    )
"""
SCHEMA = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}


def question(item: int) -> str:
    """Return the text of a question. Its answer is `fake_server.code`."""
    return f"What is the code word of item #{item}?"


def cpu_seconds() -> float:
    """Return the CPU time (user and system) used by this process and its finished child processes."""
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


@dataclass(frozen=True, slots=True)
class Spent:
    """Wall time and CPU time in seconds."""

    wall: float
    cpu: float


def bare_loop(url: str, count: int, at_once: int) -> Spent:
    """Return the time it takes to answer and judge `count` questions using only aiohttp.

    Each of `at_once` workers sends a request for an answer, then a request for its verdict, and checks the code word.
    """

    async def post(session: aiohttp.ClientSession, body: Any) -> str:
        """Send a request for a completion and return the text of the reply."""
        async with session.post(f"{url}/chat/completions", data=orjson.dumps(body)) as reply:
            said: str = orjson.loads(await reply.read())["choices"][0]["message"]["content"]
            return said

    async def work() -> Spent:
        """Answer and judge all questions with concurrent workers, and return the time taken."""
        items = iter(range(count))

        async def worker() -> None:
            """Answer and judge questions until there are none left. Raises `AssertionError` if a code word is wrong."""
            for item in items:
                asked = {"model": "fake", "messages": [{"role": "user", "content": question(item)}]}
                said = await post(session, asked)
                form = {"type": "json_schema", "json_schema": {"name": "Answer", "schema": SCHEMA}}
                judged = {"role": "user", "content": f"{question(item)}\n{said}"}
                found = await post(session, {"model": "fake", "messages": [judged], "response_format": form})
                assert orjson.loads(found)["word"] == code(item)

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            began, used = time.perf_counter(), cpu_seconds()
            await asyncio.gather(*(worker() for _ in range(at_once)))
            return Spent(time.perf_counter() - began, cpu_seconds() - used)

    return asyncio.run(work())


def machine() -> str:
    """Return a one-line description of the machine and its load, to be printed with figures."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that must be at most `bound`, or at least `bound` if `least` is set."""

    what: str
    figure: float | None
    bound: float
    unit: str = ""
    least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the target is met, or None if it was not measured."""
        if self.figure is None:
            return None
        return self.figure >= self.bound if self.least else self.figure <= self.bound

    def __str__(self) -> str:
        bound = f"{'at least' if self.least else 'at most'} {_shown(self.bound)}{self.unit}"
        if self.figure is None:
            return f"{self.what}: not measured ({bound})"
        return f"{self.what}: {_shown(self.figure)}{self.unit} ({bound}): {'met' if self.met else 'NOT MET'}"


def _shown(figure: float) -> str:
    """Return a figure as a string with three significant digits, or without decimals if it is 1000 or more."""
    return f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


def print_targets(targets: Iterable[Target]) -> None:
    """Print a line for each target, with the measured figure."""
    for target in targets:
        print(f"  target: {target}")
