"""What runs on a worker: the same work on answers as in one process, fed and heard by the run."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

from karenina_core.config import VerificationConfig, plugins_of
from karenina_core.data.question import Question
from karenina_core.data.result import VerificationResult
from karenina_core.plugins import Plugins
from karenina_core.version import __version__
from karenina_engine.calls.call import CallCounts
from karenina_engine.journal.tasks import AnswerTask
from karenina_engine.scheduling.find_observers import find_observers
from karenina_engine.scheduling.item_runner import ItemRunner
from karenina_engine.scheduling.settings import EngineSettings
from karenina_ray import serialization
from karenina_ray.remote import RemoteBudget, RemoteClient, RemoteJournal, RemoteLedger
from karenina_ray.serialization import Payload

_LOOKS = 0.05  # seconds between looks at whether the last call has ended
_REST = 0.25  # seconds after which a worker tells how it is, also where nothing has happened


class Worker:
    """One worker, an actor of Ray. The run gives it messages (`give`) and takes what it says (`take`).

    It is given `work` (answers to get), `found` and `stored` (what the journal said), `taken` (what the budget said),
    and `stop`. It says `find`, `store` and `leave` (for the journal), `take` and `release` (for the budget), `made` and
    `kept` (for the ledger; each `model` before), `done` and `broke` (an answer has all its results, or those that the
    budget covers, or an error that no stage has caught), `log`, `state` and `stopped`.
    """

    def __init__(self) -> None:
        self._said: list[Payload] = []
        self._speaks = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._work: ItemRunner | None = None
        self._config: VerificationConfig | None = None
        self._teller: RemoteClient | None = None
        self._told_before: list[Any] = []

    async def set_up(self, data: bytes) -> bytes:
        """Make everything ready; says which plugins there are here, or what is wrong."""
        [told] = serialization.read(data)
        try:
            return serialization.written([await self._ready(told)])
        except Exception as error:
            return serialization.written([{"error": f"{type(error).__name__}: {error}"}])

    async def _ready(self, told: Payload) -> Payload:
        logger = logging.getLogger("karenina")
        logger.setLevel(told["level"])
        logger.propagate = False
        logger.handlers = [_ForwardingHandler(self._say)]
        sys.path += [folder for folder in told["path"] if folder not in sys.path]
        config = self._config = VerificationConfig(**told["config"])
        plugins, settings = plugins_of(config), config.section(EngineSettings)
        teller = self._teller = RemoteClient(self._say, paid=told["paid"])
        reply_store = RemoteJournal(teller) if told["journal"] else None
        concurrency = settings.concurrency().share(told["worker"], told["workers"])
        self._work = ItemRunner(
            config,
            plugins,
            trust=serialization.trust_of(told["trust"]),
            policy=serialization.policy_of(told["policy"]),
            reply_store=reply_store,
            concurrency=concurrency,
            observers=find_observers(plugins),
            ledger=RemoteLedger(teller),
            budget=RemoteBudget(teller) if told["paid"] else None,
        )
        self._work.limits.prepare((*config.core.answering_models, *config.core.parsing_models))
        return {"pid": os.getpid(), "host": os.uname().nodename, "plugins": offers(plugins)}

    async def handle_messages(self, data: bytes) -> None:
        """Take messages of the run."""
        for told in serialization.read(data):
            kind = told["kind"]
            if kind == "work":
                self._begin(told)
            elif kind == "stop":
                self._go(self._stop(told["grace"]))
            elif self._teller is not None:
                self._teller.answered(told)

    async def next_messages(self) -> bytes:
        """What there is to say, as soon as there is something."""
        if not self._said:
            self._speaks.clear()
            try:
                async with asyncio.timeout(_REST):
                    await self._speaks.wait()
            except TimeoutError:
                pass
        self._tell_state()
        said, self._said = self._said, []
        return serialization.written(said)

    async def close(self) -> None:
        """Stop all work, and close ports and tools."""
        await self._cancel()
        if self._work is not None:
            await self._work.aclose()

    def _say(self, told: Payload) -> None:
        self._said.append(told)
        self._speaks.set()

    def _begin(self, told: Payload) -> None:
        assert self._config is not None
        core = self._config.core
        models = core.parsing_models or (None,)
        questions: dict[str, Question] = {
            key: Question.model_validate(fields) for key, fields in told["questions"].items()
        }
        for key, model, replicate, order, judges in told["answers"]:
            task = AnswerTask(questions[key], core.answering_models[model], replicate, models, order)
            self._go(self._answer(task, judges))

    def _go(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, task: AnswerTask, judges: list[int]) -> None:
        """Work on one answer; its results are said together, so that its judges have all had the same answer."""
        assert self._work is not None
        results: list[tuple[int, str]] = []

        async def done(judge: int, result: VerificationResult) -> None:
            results.append((judge, result.model_dump_json()))

        try:
            await self._work.answer(task, judges, done)
        except Exception:
            self._say({"kind": "broke", "order": task.order, "error": traceback.format_exc()})
        else:
            self._say({"kind": "done", "order": task.order, "results": results})

    async def _stop(self, grace: float) -> None:
        """Begin no more calls, let those under way end for so many seconds, and stop."""
        assert self._work is not None
        self._work.limits.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._work.calls.in_flight and loop.time() < end:  # noqa: ASYNC110 - calls end in many ways
            await asyncio.sleep(_LOOKS)
        await asyncio.sleep(_LOOKS)  # from the last reply to the result, where nothing else is asked
        await self._cancel()
        self._say({"kind": "stopped"})

    async def _cancel(self) -> None:
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def _tell_state(self) -> None:
        """Say how it is at the servers, where it has changed, and what was called since."""
        if self._work is None:
            return
        calls = self._work.calls
        servers = [[one.limit, one.held, one.queued, one.retrying] for one in calls.limits.servers]
        state = [servers, calls.limits.capacity()]
        tally = calls.take_tally()
        counts = serialization.tally_told(tally)
        if state != self._told_before or tally != CallCounts():
            self._said.append({"kind": "state", "servers": servers, "room": state[1], "tally": counts})
        self._told_before = state


class _ForwardingHandler(logging.Handler):
    """Hands what is logged to the run, which logs it as its own: nothing goes into Ray's files."""

    def __init__(self, say: Callable[[Payload], None]) -> None:
        super().__init__()
        self._say = say
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        told = {"kind": "log", "level": record.levelno, "message": self.format(record)}
        self._loop.call_soon_threadsafe(self._say, told)


def offers(plugins: Plugins) -> list[list[str]]:
    """The plugins that can be used here with their versions, and the core's."""
    found = [[one.kind, one.name, one.distribution, one.version] for one in plugins.describe() if one.state == "loaded"]
    return [["core", "karenina-core", "karenina-core", __version__], *found]
