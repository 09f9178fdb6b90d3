"""Tests of `JournalServer`: messages take effect in the order in which workers send them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallNotes, ErrorCategory, LLMReply, PortError, Usage
from karenina_engine.calls.call import Call, CallOutcome
from karenina_engine.journal.journal import Journal
from karenina_ray import serialization
from karenina_ray.journal_server import JournalServer
from karenina_ray.serialization import Payload
from karenina_ray.work_queue import WorkerHandle

OUTCOME = CallOutcome(LLMReply("BCL2", Usage(10, 5, calls=1)), None, CallNotes())


class SlowJournal:
    """A journal whose methods yield to the event loop."""

    def __init__(self, outcome: CallOutcome | None = None) -> None:
        self.outcome = outcome

    async def find(self, call: Call) -> CallOutcome | None:
        await asyncio.sleep(0)
        return self.outcome

    async def store(self, call: Call, outcome: CallOutcome) -> None:
        await asyncio.sleep(0)


class FailingJournal(SlowJournal):
    """A journal that cannot store anything."""

    async def store(self, call: Call, outcome: CallOutcome) -> None:
        raise PortError("no journal can store it", category=ErrorCategory.PERMANENT)


class Setup:
    """A server, three workers, and the responses: worker, number of the request, and whether it had an outcome."""

    def __init__(self, journal: SlowJournal) -> None:
        model = ModelConfig(id="answering", interface="fake_plugin.fake", model_name="answering")
        self.workers = [WorkerHandle(None, index, models={0: model}) for index in range(3)]
        self.responses: list[tuple[int, int, bool]] = []
        self.errors: list[tuple[int, int, str]] = []
        self.server = JournalServer(
            cast("Journal", journal), self._respond, lambda work: asyncio.get_running_loop().create_task(work)
        )

    def _respond(self, worker: WorkerHandle, message: Payload) -> None:
        if "error" in message:
            self.errors.append((worker.index, message["number"], str(serialization.load_error(message["error"]))))
        if "outcome" in message:
            self.responses.append((worker.index, message["number"], message["outcome"] is not None))

    def find(self, index: int, number: int) -> None:
        self.server.find(self.workers[index], self._call(number))

    def store(self, index: int) -> None:
        self.server.store(self.workers[index], {**self._call(0), "outcome": serialization.encode_outcome(OUTCOME)})

    def leave(self, index: int) -> None:
        self.server.leave(self.workers[index], "00")

    def die(self, index: int) -> None:
        self.workers[index].alive = False
        self.server.on_worker_death(self.workers[index])

    @staticmethod
    def _call(number: int) -> Payload:
        names: Payload = dict.fromkeys(("question", "stage", "task", "judge"), "")
        return {
            **names,
            "key": "00",
            "number": number,
            "port": "llm",
            "model": 0,
            "replicate": 0,
            "self_contained": True,
            "composite": False,
        }


def responses_to(setup: Setup, *steps: Callable[[], None] | None) -> list[tuple[int, int, bool]]:
    """Return all responses after these steps. At None, tasks run to their end."""

    async def work() -> None:
        for step in (*steps, None):
            if step is not None:
                step()
            else:
                for _ in range(5):
                    await asyncio.sleep(0)

    asyncio.run(work())
    return setup.responses


def test_worker_that_left_is_not_assigned_the_call() -> None:
    setup = Setup(SlowJournal())
    responses = responses_to(
        setup,
        *(lambda: setup.find(0, 1), lambda: setup.find(1, 1), lambda: setup.find(2, 1), None),
        *(lambda: setup.leave(1), lambda: setup.find(1, 2), lambda: setup.leave(0)),
    )
    assert responses == [(0, 1, False), (2, 1, False)]


def test_worker_that_left_and_returned_delays_no_other() -> None:
    setup = Setup(SlowJournal())
    responses = responses_to(
        setup, lambda: setup.find(0, 1), lambda: setup.leave(0), lambda: setup.find(0, 2), lambda: setup.find(1, 1)
    )
    assert responses == [(0, 2, False)]
    assert responses_to(setup, lambda: setup.leave(0)) == [(0, 2, False), (1, 1, False)]
    assert responses_to(setup, lambda: setup.leave(1), lambda: setup.find(2, 1))[-1] == (2, 1, False)


def test_stored_call_is_not_assigned_to_a_worker() -> None:
    setup = Setup(SlowJournal(OUTCOME))
    assert responses_to(setup, lambda: setup.find(0, 1), lambda: setup.find(1, 1), lambda: setup.leave(0)) == [
        (1, 1, True)
    ]


def test_call_being_stored_is_not_repeated_if_its_worker_dies() -> None:
    setup = Setup(SlowJournal())
    responses = responses_to(
        setup, lambda: setup.find(0, 1), lambda: setup.find(1, 1), None, lambda: setup.store(0), lambda: setup.die(0)
    )
    assert responses == [(0, 1, False), (1, 1, True)]


def test_unstorable_reply_is_an_error_of_its_worker() -> None:
    setup = Setup(FailingJournal())
    responses = responses_to(setup, lambda: setup.find(0, 1), lambda: setup.find(1, 1), None, lambda: setup.store(0))
    assert setup.errors == [(0, 0, "no journal can store it")]
    assert responses == [(0, 1, False), (1, 1, True)]
