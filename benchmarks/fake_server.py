"""A chat server on loopback for the benchmarks: code words, with a latency and a limit on what it does at once.

    python benchmarks/fake_server.py --latency 0.5 --allowed 20

It prints its base URL. A question names its item (`#17`), and its code word follows from the number; a request with a
JSON schema gets an object with the code word of the request. What comes while `--allowed` requests are under way is
answered with status 429 at once, and so is one of each `--every` requests, drawn by item and call. It is the scripted
server of `karenina_testing`, without a log, whose replies are written as bytes that never differ but in the text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from karenina_core.models.ports import Usage
from karenina_testing.server import Reply, Request, Say, ScriptedServer, Side, faults
from karenina_testing.server.formats import completion_of

ITEM, CODE = re.compile(rb"#(\d+)"), re.compile(rb"CW\d+X")
_SAID = Say("@", usage=Usage(60, 12), model="fake")
_BEFORE, _AFTER = json.dumps(completion_of(_SAID)).split('"@"')


def code(item: int) -> str:
    """Return the code word of an item."""
    return f"CW{(item * 6151 + 7) % 999983}X"


def item_of(request: Request) -> str:
    """Return the number of the item, with which a judge's request begins to differ from the others'."""
    found = ITEM.findall(request.data)
    return found[-1].decode() if found else ""


def is_judge(request: Request) -> bool:
    """Return whether a schema is asked for."""
    return b"json_schema" in request.data


def answer(request: Request) -> Reply:
    """Return the code word of the item, in a sentence."""
    item = item_of(request)
    return in_bytes(f"The code word of item #{item} is {code(int(item))}." if item else "Which item?")


def judge(request: Request) -> Reply:
    """Return the last code word of the request, as JSON."""
    said = CODE.findall(request.data)
    return in_bytes(json.dumps({"word": said[-1].decode() if said else ""}))


def in_bytes(text: str) -> Reply:
    """Return a completion that says `text`; only that is made anew for each request."""
    return Reply(f"{_BEFORE}{json.dumps(text)}{_AFTER}")


def server(latency: float, allowed: int = 0, every: int = 0, *, log: bool = False) -> ScriptedServer:
    """Return the server."""
    shares = {faults.status(429): 1 / every} if every else {}
    return ScriptedServer(
        Side(answer, shares=shares, seed=1),
        Side(judge, shares=shares, seed=1),
        item_of=item_of,
        is_judge=is_judge,
        latency=latency,
        allowed=allowed or None,
        path="/v1",
        keep_log=log,
    )


@dataclass(frozen=True)
class Running:
    """A server in a process of its own."""

    url: str

    def counts(self) -> dict[str, int]:
        """Return how many requests were answered and refused, and how many were under way at once at the most."""
        with urllib.request.urlopen(f"{self.url}/stats") as reply:
            found: dict[str, int] = json.loads(reply.read())
        return found


@contextmanager
def running(latency: float, allowed: int = 0, every: int = 0) -> Iterator[Running]:
    """Provide a server as long as the block lasts."""
    options = ["--latency", str(latency), "--allowed", str(allowed), "--every", str(every)]
    process = subprocess.Popen([sys.executable, __file__, *options], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Running(process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds")
    parser.add_argument("--allowed", type=int, default=0, help="requests at once; 0: any number")
    parser.add_argument("--every", type=int, default=0, help="refuse one of so many requests at random; 0: none")
    given = parser.parse_args()
    chosen = server(given.latency, given.allowed, given.every)
    asyncio.run(chosen.serve(lambda: print(chosen.url, flush=True)))
