"""Kill a run repeatedly, using a server that fails, and check that nothing is lost and no call is made twice.

    python benchmarks/faults.py                           50 kills; takes some minutes
    python benchmarks/faults.py --kills 8 --questions 60  the same, smaller

Of the requests, 10% are answered with status 429 and 5% with 500, 2% are never answered, 2% have their connection
closed without a reply, and 2% get truncated JSON. The command `karenina run` is killed with SIGKILL at random moments,
both while it starts and while it makes calls, and repeated; the last time, it may finish. Then an undisturbed run that
uses a server without faults does the same work. The following must be true, otherwise the script exits with 1:

- Every item has one result, and the results equal those of the undisturbed run, including the token counts.
- No call was repeated after its reply, unless it was in progress when its run was killed: its reply was neither in the
  journal, which is read after every kill, nor used, so that run had not asked the judge and stored no result. The API
  key of a request identifies its run, because a request may reach the server after the run that sent it is dead.
- Running the same command once more makes no call, and a replay without the server writes an identical file.

    python benchmarks/faults.py --replies                 replies that servers are known to send, and no kill
    python benchmarks/faults.py --replies --wire openai   with one wire format

Of the calls to the model and to the judge, 30% get one of the bad replies in `reply_kinds.py`: finish reasons that mean
an error, a filter or a limit, empty replies, thoughts, unusual parts and tokens, streams that break off, and JSON that
is hard to read. Based on the replies in the server's log, its table determines how an item must end, after how many
calls, and with which answer and token counts. Each item is compared with this, and so is the number of unknown finish
reasons reported by the run. Then the same is done with a budget, which must not be exceeded by more than the price of
one call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final

import own_state  # noqa: F401 - sets it
from fake_server import CODE, code, is_judge, item_of
from faulty_replies import WIRES
from faulty_replies import main as check_replies
from killing import environment, kill_at_random

from karenina_engine.results.result_set import read_results
from karenina_testing.server import Entry, Fault, Request, ScriptedServer, Side, faults

FAULTS: Final = {
    faults.status(429): 0.10,
    faults.status(500): 0.05,
    faults.hang: 0.02,
    faults.close: 0.02,
    faults.cut_json: 0.02,
}
TOOL: Final = (sys.executable, "-c", "from karenina_cli import main; main()")
"""The command line that starts `karenina`."""
RESULT: Final = ("outcome", "template", "vetoes")

ENDED: Final = 0
"""The number of every run that may finish. Runs that are killed are numbered from 1."""

Asked = tuple[str, bool]
"""The identity of a call: the question's id, and whether the judge is called."""


@dataclass(frozen=True)
class Reply:
    """A reply sent by the server: to which run, at what time, and whether the client was still connected."""

    run: int
    left: float
    heard: bool


@dataclass(frozen=True)
class Kill:
    """The time at which a run was killed, and the contents of its journal: calls with replies, and items with
    results.
    """

    time: float
    kept: frozenset[Asked] = frozenset()
    ended: frozenset[str] = frozenset()


class Server(ScriptedServer):
    """A chat server on the loopback interface that logs its requests."""

    def __init__(self, latency: float, shares: Mapping[Fault, float]) -> None:
        sides = (Side(self.slowly(reply), shares=shares, seed=7) for reply in (answer, judge))
        super().__init__(*sides, item_of=item_of, is_judge=is_judge, path="/v1")
        self.seconds = latency
        self.asked = threading.Event()
        self.draw = random.Random(7)

    def slowly(self, reply: Callable[[Request], str]) -> Callable[[Request], Coroutine[Any, Any, str]]:
        """Return a function that waits for roughly the latency and then returns the reply."""

        async def wait(request: Request) -> str:
            """Return the reply after 0.5 to 1.5 times the latency."""
            self.asked.set()
            await asyncio.sleep(self.seconds * (0.5 + self.draw.random()))
            return reply(request)

        return wait

    def came(self) -> dict[Asked, set[int]]:
        """Return the numbers of the runs that made each call."""
        found: dict[Asked, set[int]] = {}
        for entry in self.log:
            found.setdefault(asked_in(entry), set()).add(run_of(entry))
        return found

    def replied(self) -> dict[Asked, list[Reply]]:
        """Return the fault-free replies that were sent, by call."""
        found: dict[Asked, list[Reply]] = {}
        for entry in self.log:
            if entry.sent_at is not None and entry.fault is None:
                found.setdefault(asked_in(entry), []).append(Reply(run_of(entry), entry.sent_at, entry.whole))
        return found


def asked_in(entry: Entry) -> Asked:
    """Return the identity of the call in a log entry."""
    return f"q{entry.item}", entry.side == "judge"


def run_of(entry: Entry) -> int:
    """Return the number of the run that made a call, based on its API key."""
    return int(entry.request.headers["authorization"].rpartition("run-")[2])


def answer(request: Request) -> str:
    """Return the item's code word in a sentence. Every fifth answer is wrong."""
    item = int(item_of(request))
    return f"The code word of item #{item} is {code(item if item % 5 else item + 1)}."


def judge(request: Request) -> str:
    """Return the last code word in the request, as JSON."""
    said = CODE.findall(request.data)
    return json.dumps({"word": said[-1].decode() if said else ""})


def write_benchmark(file: Path, count: int) -> None:
    """Write a benchmark with this many questions, each with its own template and ground truth."""
    with file.open("w") as out:
        out.write('{"karenina": 1, "name": "Code words"}\n')
        for item in range(count):
            word = {"description": "The code word that the response states.", "ground_truth": code(item)}
            question = f"What is the code word of item #{item}?"
            out.write(json.dumps({"id": f"q{item}", "question": question, "answer": {"word": word}}) + "\n")


def command(file: Path, server: Server, output: str, *more: str) -> list[str]:
    """Return the arguments of `karenina` for the run that is repeated."""
    model = f"openai:fake@{server.url}"
    run = ["run", str(file), "-a", model, "-j", model, "-o", output]
    return [*run, "--set", "request_timeout=2", "--quiet", *more]


def start(
    given: Sequence[str], *, folder: Path, environment: Mapping[str, str], errors: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start `karenina` with these arguments; write its standard error to a file."""
    return subprocess.Popen([*TOOL, *given], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=errors)


def finish(
    given: Sequence[str], *, folder: Path, environment: Mapping[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """Run `karenina` with these arguments to its end."""
    return subprocess.run(
        [*TOOL, *given], cwd=folder, env=environment, timeout=timeout, capture_output=True, text=True, check=False
    )


def killed(given: list[str], folder: Path, server: Server, draw: random.Random, run: int) -> Kill | None:
    """Start the command and kill it at a random moment. Returns the kill, or None if the command had already ended."""
    server.asked.clear()
    problems = folder / "problems"
    with problems.open("wb") as errors:
        process = start(given, folder=folder, environment=environment(run), errors=errors)
    at = kill_at_random(process, problems, draw, server.asked, longest=20, pause=1.2)
    return None if at is None else looked_into(folder / "out.journal", at)


def looked_into(journal: Path, at: float) -> Kill:
    """Return a kill at the time `at`, with the contents of the journal."""
    if not journal.is_file() or not journal.stat().st_size:
        return Kill(at)
    with closing(sqlite3.connect(f"{journal.as_uri()}?mode=ro", uri=True)) as database:
        if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'results'").fetchone():
            return Kill(at)
        replies = database.execute("SELECT question_id, port FROM replies WHERE reusable").fetchall()
        results = database.execute("SELECT question_id FROM results WHERE NOT again").fetchall()
    return Kill(at, frozenset((id, port == "parser") for id, port in replies), frozenset(id for (id,) in results))


def finished(given: list[str], folder: Path) -> str:
    """Run the command to its end and return its output. Raises `SystemExit` if it fails."""
    done = finish(given, folder=folder, environment=environment(ENDED), timeout=1200)
    if done.returncode != 0:
        raise SystemExit(f"the run failed ({done.returncode}): {done.stderr}")
    return done.stdout + done.stderr


def results(file: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a file by question ID. Raises `SystemExit` if an item occurs twice."""
    found: dict[str, dict[str, Any]] = {}
    for result in read_results(file):
        if result.question_id in found:
            raise SystemExit(f"{result.question_id} has two results")
        found[result.question_id] = {name: getattr(result, name) for name in RESULT}
    return found


def asked_twice(server: Server, kills: dict[int, Kill]) -> tuple[int, int, float]:
    """Return statistics on the calls that were repeated after a reply.

    These are the number of such calls, the number of those that were not in progress when a run was killed in between,
    and the longest time in seconds between a reply and the kill that lost it.
    """
    twice = wrongly = 0
    longest = 0.0
    came = server.came()
    for asked, replies in server.replied().items():
        for reply, again in pairwise(sorted(replies, key=lambda one: one.run or math.inf)):  # those let end came last
            twice += 1
            kill = kills.get(reply.run) if again.run != reply.run else None
            if kill is None:
                wrongly += reply.heard  # a client that had given up (a time-out) asks again, and rightly
            elif asked in kill.kept or used(asked, reply, kill, came):
                wrongly += 1
            else:
                longest = max(longest, kill.time - reply.left)
    return twice, wrongly, longest


def used(asked: Asked, reply: Reply, kill: Kill, came: Mapping[Asked, set[int]]) -> bool:
    """Return whether a reply was used before its run was killed, either by a call to the judge or in a result."""
    id, of_judge = asked
    return id in kill.ended or (not of_judge and reply.run in came.get((id, True), ()))


def main(arguments: Sequence[str] | None = None) -> None:
    """Kill and repeat the run, print the findings as JSON, and exit with 1 if a condition is not met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--questions", type=int, help="default: 1000; 2000 with --replies")
    parser.add_argument("--latency", type=float, default=0.3, help="seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replies", action="store_true", help="send bad replies instead of killing the run")
    parser.add_argument("--wire", action="append", choices=list(WIRES), help="for --replies; may be repeated")
    chosen = parser.parse_args(arguments)
    if chosen.replies:
        check_replies(chosen.questions or 2000, chosen.wire or list(WIRES))
        return
    chosen.questions = chosen.questions or 1000
    draw = random.Random(chosen.seed)
    server, calm = Server(chosen.latency, FAULTS), Server(0.01, {})
    with server, calm, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_benchmark(folder / "words.jsonl", chosen.questions)
        given = command(folder / "words.jsonl", server, "out.jsonl")
        kills: dict[int, Kill] = {}
        while len(kills) < chosen.kills:
            kill = killed(given, folder, server, draw, run := len(kills) + 1)
            if kill is None:
                print(f"the run ended after {len(kills)} kills: use more --questions")
                break
            kills[run] = kill
        for _ in range(10):  # an item whose call failed in all its tries runs again
            finished(given, folder)
            status = json.loads(finished(["status", "out.journal", "--json"], folder))
            if not status["again"]:
                break
        seen = len(server.log)
        finished(given, folder)
        replayed = folder / "replayed.jsonl"
        finished(command(folder / "words.jsonl", server, replayed.name, "--replay", "--journal", "out.journal"), folder)
        quiet = len(server.log) == seen
        finished(command(folder / "words.jsonl", calm, "calm.jsonl", "--no-journal"), folder)
        twice, wrongly, longest = asked_twice(server, kills)
        found, expected = results(folder / "out.jsonl"), results(folder / "calm.jsonl")
        report = {
            "kills": len(kills),
            "questions": chosen.questions,
            "results": len(found),
            "requests": len(server.log),
            "faults": dict(server.log.faults()),
            "calls answered": len(server.replied()),
            "answered twice, in flight at a kill": twice - wrongly,
            "answered twice otherwise": wrongly,
            "longest from a reply to the kill that lost it, ms": round(1000 * longest),
            "same as undisturbed": found == expected,
            "again without a call": quiet,
            "replay is the same to the byte": replayed.read_bytes() == (folder / "out.jsonl").read_bytes(),
        }
    print(json.dumps(report, indent=2))
    whole = len(found) == chosen.questions and len(server.replied()) == 2 * chosen.questions
    holds = ("same as undisturbed", "again without a call", "replay is the same to the byte")
    if wrongly or not whole or not all(report[name] for name in holds):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
