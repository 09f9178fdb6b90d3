"""A server can delay a run only as long as its user allows: `retry_patience`, `request_timeout`, `item_timeout`.

Whatever it answers, and if it never answers, each item ends, and so does the run. A server that recovers, or refuses
some calls whatever the load, costs no item.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import preloaded
import pytest

from karenina_testing.server import Fault, Reply, Request, ScriptedServer, faults

if TYPE_CHECKING:
    from conftest import Environment

TEMPLATE = (
    "class Answer(BaseAnswer):\n"
    '    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())\n'
)
ALLOWED = 110
"""Seconds for a whole command on a busy machine. Without the bounds these runs take minutes, hours or years."""


class Hostile(ScriptedServer):
    """Answers well, except where `refusal` says otherwise."""

    seconds = 0.0

    def __init__(self) -> None:
        super().__init__(self.handle, path="/v1", keep_log=False)
        self.asked = self.under_way = self.most = 0
        self.began = 0.0

    def refusal(self, body: str) -> Reply | None:
        """Return how the request that arrives is refused, or None."""
        return None

    async def handle(self, request: Request) -> Reply | str:
        self.began = self.began or time.monotonic()
        self.asked += 1
        refused = self.refusal(request.text)
        if refused is not None:
            return refused
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        return json.dumps({"gene": "BCL2"}) if "json_schema" in request.text else "It is BCL2."


def refuse(status: int, **headers: str) -> Reply:
    """Return a refusal with this status and these headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply({"error": {"message": "no"}}, status, named)


def attacked(
    site: Environment, server: Hostile, questions: int, code: int = 0, *, script: bool = False, **settings: Any
) -> tuple[list[Mapping[str, Any]], float]:
    """Run so many questions over the server. Return the results, and the seconds that the command took."""
    lines = [
        json.dumps({"id": f"q{n}", "question": f"Which gene, {n}?", "raw_answer": "BCL2", "template": TEMPLATE})
        for n in range(questions)
    ]
    file = site.write("genes.jsonl", "\n".join(lines) + "\n")
    output = site.folder / "genes.results.jsonl"
    model = f"openai:m@{server.url}"
    options = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    preloaded.scripts()  # its start is no part of the command
    began = time.monotonic()
    done = site.karenina("run", file, "-a", model, "-j", model, "-o", output, *options, script=script)
    seconds = time.monotonic() - began
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    results = [json.loads(line) for line in output.read_text("utf-8").splitlines()[1:]]
    return [result for result in results if "metadata" in result], seconds


class AsksToWait(Hostile):
    """Refuses the requests of the question 1, and names a time to wait."""

    def __init__(self, after: str) -> None:
        super().__init__()
        self._after = after

    def refusal(self, body: str) -> Reply | None:
        return refuse(429, Retry_After=self._after) if "Which gene, 1?" in body else None


@pytest.mark.parametrize("after", ["1000000000", "1e300", "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_long_retry_after_costs_its_item_alone(site: Environment, after: str) -> None:
    """Attack: refuse one question's requests and ask to wait for 30 years, for ever, until the year 9999."""
    with AsksToWait(after) as server:
        results, seconds = attacked(site, server, 5)

    assert seconds < ALLOWED
    assert [result["outcome"] for result in results].count("correct") == 4
    (failed,) = [result for result in results if result["outcome"] != "correct"]
    assert failed["metadata"]["question_id"] == "q1"
    assert "longer than retry_patience" in failed["metadata"]["error"]


@pytest.mark.parametrize("after", ["inf", "nan", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"])
def test_a_retry_after_without_meaning_is_ignored(site: Environment, after: str) -> None:
    """Attack: name a time to wait that is not a number of seconds and not a date."""

    class Once(AsksToWait):
        def refusal(self, body: str) -> Reply | None:
            return super().refusal(body) if self.asked <= 3 else None

    with Once(after) as server:
        results, seconds = attacked(site, server, 3)

    assert seconds < ALLOWED
    assert [result["outcome"] for result in results] == ["correct"] * 3


class AlwaysRefuses(Hostile):
    """Refuses every request."""

    def refusal(self, body: str) -> Reply | None:
        return refuse(429)


def test_a_server_that_refuses_everything_ends_the_run(site: Environment) -> None:
    """Attack: answer each request with 429, so that each of 100 items waits for its turn and for all of its retries."""
    with AlwaysRefuses() as server:
        results, seconds = attacked(site, server, 100, code=4, script=True, retry_patience=5)

    assert seconds < ALLOWED
    assert len(results) == 100
    assert "refused all calls for longer than retry_patience (5 s)" in results[-1]["metadata"]["error"]
    assert server.asked < 200


class RefusesSome(Hostile):
    """Refuses a tenth of all requests, however few are under way, and takes `seconds` for each other one."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self._random = random.Random(1)

    def refusal(self, body: str) -> Reply | None:
        return refuse(429) if self._random.random() < 0.1 else None


def test_refusing_a_tenth_of_requests_does_not_slow_a_run(site: Environment) -> None:
    """Attack: refuse requests at random, so that the run goes down to one request at a time."""
    for each in (0.5, 4):  # a busy machine takes longer to make so many requests
        for left in site.folder.glob("genes.results*"):
            left.unlink()
        with RefusesSome(each) as server:
            results, seconds = attacked(site, server, 500)
        assert seconds < ALLOWED
        assert [result["outcome"] for result in results] == ["correct"] * 500
        if server.most > 64:
            break
    assert server.most > 64


class BreaksDown(Hostile):
    """Is overloaded for some seconds after the first requests."""

    seconds = 0.05

    def refusal(self, body: str) -> Reply | None:
        return refuse(503) if 0.3 < time.monotonic() - self.began < 5 else None


def test_an_outage_costs_its_own_time_and_no_item(site: Environment) -> None:
    """Attack: answer with 503 for five seconds, so that the run begins again with one request at a time."""
    with BreaksDown() as server:
        results, seconds = attacked(site, server, 300)

    assert seconds < ALLOWED
    assert [result["outcome"] for result in results] == ["correct"] * 300


class NeverAnswers(Hostile):
    """Accepts the requests of the question 1, and never answers."""

    async def handle(self, request: Request) -> Reply | str | Fault:
        return faults.hang if "Which gene, 1?" in request.text else await super().handle(request)


@pytest.mark.parametrize("limit", ["item_timeout", "request_timeout"])
def test_a_server_that_never_answers_costs_its_item_alone(site: Environment, limit: str) -> None:
    """Attack: accept a request, and never answer."""
    for allowed in (2, 20, 60):  # a busy machine takes longer for the other items
        for left in site.folder.glob("genes.results*"):
            left.unlink()
        with NeverAnswers() as server:
            results, seconds = attacked(site, server, 3, **{limit: allowed})
        assert seconds < ALLOWED
        outcomes = {result["metadata"]["question_id"]: result["outcome"] for result in results}
        if [*outcomes.values()].count("correct") == 2:
            break
    assert (outcomes["q0"], outcomes["q2"]) == ("correct", "correct")
    assert outcomes["q1"] != "correct"
