"""A chat server on the loopback interface for the benchmarks, with a latency and a limit on concurrent requests.

    python benchmarks/fake_server.py --latency 0.5 --allowed 20

It prints its base URL. A question names its item (`#17`), whose code word is derived from the number. A request with a
JSON schema is answered with an object that contains the code word found in the request. Requests that arrive while
`--allowed` requests are in progress are immediately answered with status 429, and so is one in `--every` requests,
drawn by item and call. It is the scripted server of `karenina_testing`, without a log; its replies are written as bytes
that differ only in the text.
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
FIELD = re.compile(rb'"properties":\s*\{\s*"(\w+)"')
_SAID = Say("@", usage=Usage(60, 12), model="fake")
_BEFORE, _AFTER = json.dumps(completion_of(_SAID)).split('"@"')


def code(item: int) -> str:
    """Return the code word of an item."""
    return f"CW{(item * 6151 + 7) % 999983}X"


def item_of(request: Request) -> str:
    """Return the number of the item in the request, or an empty string if there is none."""
    found = ITEM.findall(request.data)
    return found[-1].decode() if found else ""


def is_judge(request: Request) -> bool:
    """Return whether the request asks for a JSON schema."""
    return b"json_schema" in request.data


def answer(request: Request) -> Reply:
    """Return a reply that states the item's code word in a sentence."""
    item = item_of(request)
    return in_bytes(f"The code word of item #{item} is {code(int(item))}." if item else "Which item?")


def judge(request: Request) -> Reply:
    """Return a reply that contains the last code word in the request, as JSON, in the only field of the schema."""
    said, field = CODE.findall(request.data), FIELD.search(request.data)
    return in_bytes(json.dumps({field[1].decode() if field else "word": said[-1].decode() if said else ""}))


def in_bytes(text: str) -> Reply:
    """Return a completion with `text`. Everything else in the completion is serialized only once."""
    return Reply(f"{_BEFORE}{json.dumps(text)}{_AFTER}")


def server(latency: float, allowed: int = 0, every: int = 0, *, log: bool = False) -> ScriptedServer:
    """Return a server with this latency in seconds and these limits on requests (0 for no limit)."""
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
    """A server that runs in its own process."""

    url: str

    def counts(self) -> dict[str, int]:
        """Return how many requests were answered, how many were rejected, and the maximum number of concurrent
        requests.
        """
        with urllib.request.urlopen(f"{self.url}/stats") as reply:
            found: dict[str, int] = json.loads(reply.read())
        return found


@contextmanager
def running(latency: float, allowed: int = 0, every: int = 0) -> Iterator[Running]:
    """Run a server in another process during the `with` block."""
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
    parser.add_argument("--allowed", type=int, default=0, help="the maximum number of concurrent requests; 0: no limit")
    parser.add_argument("--every", type=int, default=0, help="refuse one in this many requests at random; 0: none")
    given = parser.parse_args()
    chosen = server(given.latency, given.allowed, given.every)
    asyncio.run(chosen.serve(lambda: print(chosen.url, flush=True)))
