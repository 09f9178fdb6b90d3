"""What workers ask of the journal counts in the order in which they say it, also where they think twice."""

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
from karenina_ray.worker_handle import WorkerHandle

MADE = CallOutcome(LLMReply("BCL2", Usage(10, 5, calls=1)), None, CallNotes())


class Kept:
    """A journal that takes a moment for everything."""

    def __init__(self, made: CallOutcome | None = None) -> None:
        self.made = made

    async def find(self, call: Call) -> CallOutcome | None:
        await asyncio.sleep(0)
        return self.made

    async def store(self, call: Call, made: CallOutcome) -> None:
        await asyncio.sleep(0)


class Refusing(Kept):
    """A journal that cannot hold what it is given."""

    async def store(self, call: Call, made: CallOutcome) -> None:
        raise PortError("no journal can hold it", category=ErrorCategory.PERMANENT)


class Office:
    """A desk, three workers, and what each was told: the numbers of its questions, and whether the call was there."""

    def __init__(self, journal: Kept) -> None:
        model = ModelConfig(id="mayor", interface="town", model_name="mayor")
        self.hands = [WorkerHandle(None, place, models={0: model}) for place in range(3)]
        self.told: list[tuple[int, int, bool]] = []
        self.errors: list[tuple[int, int, str]] = []
        self.desk = JournalServer(
            cast("Journal", journal), self._tell, lambda work: asyncio.get_running_loop().create_task(work)
        )

    def _tell(self, hand: WorkerHandle, told: Payload) -> None:
        if "error" in told:
            self.errors.append((hand.place, told["number"], str(serialization.load_error(told["error"]))))
        if told["kind"] == "found":
            self.told.append((hand.place, told["number"], told["made"] is not None))

    def find(self, place: int, number: int) -> None:
        self.desk.find(self.hands[place], self._call(number))

    def store(self, place: int) -> None:
        self.desk.store(self.hands[place], {**self._call(0), "made": serialization.made_told(MADE)})

    def leave(self, place: int) -> None:
        self.desk.leave(self.hands[place], "00")

    def die(self, place: int) -> None:
        self.hands[place].alive = False
        self.desk.gone(self.hands[place])

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


def happens(office: Office, *steps: Callable[[], None] | None) -> list[tuple[int, int, bool]]:
    """What the workers were told after these steps. At None, what was begun goes on to its end."""

    async def work() -> None:
        for step in (*steps, None):
            if step is not None:
                step()
            else:
                for _ in range(5):
                    await asyncio.sleep(0)

    asyncio.run(work())
    return office.told


def test_who_waits_no_longer_for_a_call_is_not_the_one_who_makes_it() -> None:
    at = Office(Kept())
    told = happens(
        at,
        *(lambda: at.find(0, 1), lambda: at.find(1, 1), lambda: at.find(2, 1), None),
        *(lambda: at.leave(1), lambda: at.find(1, 2), lambda: at.leave(0)),
    )
    assert told == [(0, 1, False), (2, 1, False)]


def test_who_asks_and_leaves_in_a_breath_keeps_nobody_waiting() -> None:
    at = Office(Kept())
    told = happens(at, lambda: at.find(0, 1), lambda: at.leave(0), lambda: at.find(0, 2), lambda: at.find(1, 1))
    assert told == [(0, 2, False)]
    assert happens(at, lambda: at.leave(0)) == [(0, 2, False), (1, 1, False)]
    assert happens(at, lambda: at.leave(1), lambda: at.find(2, 1))[-1] == (2, 1, False)


def test_a_call_that_is_kept_is_made_by_nobody_whoever_left_while_it_was_looked_for() -> None:
    at = Office(Kept(MADE))
    assert happens(at, lambda: at.find(0, 1), lambda: at.find(1, 1), lambda: at.leave(0)) == [(1, 1, True)]


def test_a_call_that_is_being_stored_is_made_by_nobody_else_though_its_worker_dies() -> None:
    at = Office(Kept())
    told = happens(at, lambda: at.find(0, 1), lambda: at.find(1, 1), None, lambda: at.store(0), lambda: at.die(0))
    assert told == [(0, 1, False), (1, 1, True)]


def test_reply_that_the_journal_cannot_hold_is_an_error_of_its_worker() -> None:
    at = Office(Refusing())
    told = happens(at, lambda: at.find(0, 1), lambda: at.find(1, 1), None, lambda: at.store(0))
    assert at.errors == [(0, 0, "no journal can hold it")]
    assert told == [(0, 1, False), (1, 1, True)]
