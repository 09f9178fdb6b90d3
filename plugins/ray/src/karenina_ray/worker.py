"""The actor that generates and judges answers, like a run in a single process.

It uses messages to access the journal, the budget and the ledger, which are in the run's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import aclosing
from contextvars import copy_context
from dataclasses import astuple
from itertools import count
from typing import TYPE_CHECKING, Any

from karenina_core.catalog import __version__
from karenina_core.config import VerificationConfig
from karenina_core.errors import KareninaError
from karenina_core.models.model import ModelConfig
from karenina_core.plugins import Plugins
from karenina_engine.calls.call import CallCounts, CallOutcome, CallRecord
from karenina_engine.calls.reply_json import load_error
from karenina_engine.calls.retry import RetryPolicy
from karenina_engine.check.planner import Planner
from karenina_engine.check.run_checks import check_configured_models
from karenina_engine.cost.budget import OverBudget
from karenina_engine.cost.ledger import Ledger, PriceTable
from karenina_engine.model_settings import configured_models
from karenina_engine.results.result_lines import dump_result
from karenina_engine.run.executor import question_from_json
from karenina_engine.run.item_runner import ItemRunner
from karenina_engine.run.local_execution import CANCELLED
from karenina_engine.run.matrix import AnswerTask, judges_of
from karenina_engine.run.plugin_offers import configured_panel, find_observers
from karenina_engine.run.port_factory import RunParts, limit_calls
from karenina_engine.settings import EngineSettings
from karenina_ray import serialization
from karenina_ray.serialization import Payload
from karenina_toolkit.files.bounded_files import limit_file_size
from karenina_toolkit.plugin_lookup import plugins_of

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage


class RemoteClient:
    """A worker's connection to the run's process.

    `send` sends a message to the run. `paid` is True if there is a budget.
    """

    def __init__(self, send: Callable[[Payload], None], *, paid: bool) -> None:
        self.send = send
        self._paid = paid
        self._models: dict[int, tuple[int, ModelConfig]] = {}
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Payload]] = {}

    def send_call(self, kind: str, call: CallRecord, **more: Any) -> None:
        """Send a message of this `kind` about a call, with the entries of `more`, and before the first call to a model
        the model itself.
        """
        model = call.endpoint.model
        numbered = self._models.get(id(model))
        if numbered is None:
            numbered = self._models[id(model)] = len(self._models), model
            self.send({"kind": "model", "model": numbered[0], "config": serialization.to_plain(model)})
        self.send({"kind": kind, **serialization.encode_call(call, numbered[0], paid=self._paid), **more})

    async def request(self, kind: str, call: CallRecord | None = None, **more: Any) -> Payload:
        """Send a message to the run, with the facts about `call` if it is given, and return its response, for which
        this waits without a time limit.
        """
        number = next(self._numbers)
        future: asyncio.Future[Payload] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        if call is None:
            self.send({"kind": kind, "number": number, **more})
        else:
            self.send_call(kind, call, number=number, **more)
        try:
            return await future
        finally:
            del self._waiting[number]

    def on_response(self, message: Payload) -> None:
        """Pass a response to the request that is waiting for it. If there is none, the response is dropped."""
        future = self._waiting.get(message["number"])
        if future is not None and not future.done():
            future.set_result(message)


class RemoteLedger:
    """The run's ledger, as seen by a worker. The worker sends the usage of its calls, and the run counts it.

    `prices` are the run's prices, which the worker uses to compute the cost of a call.
    """

    def __init__(self, client: RemoteClient, prices: PriceTable) -> None:
        self._client = client
        self._costs = Ledger(prices)

    def record_call(self, call: CallRecord, usage: Usage, *, is_blank: bool) -> int | None:
        """Send a call's usage to the run. Return the call's cost in picodollars, or None if the cost is unknown."""
        self._client.send_call("call_made", call, usage=astuple(usage), is_blank=is_blank)
        return self._costs.cost(call, usage, is_blank=is_blank)

    def record_cached(self, call: CallRecord, usage: Usage, *, is_blank: bool) -> None:
        """Send the usage of a reply from the journal to the run."""
        self._client.send_call("call_cached", call, usage=astuple(usage), is_blank=is_blank)


class RemoteJournal:
    """The run's journal, as seen by a worker."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of a call, or None if this worker has to make the call. If another worker is making
        the call, wait for its outcome. If cancelled, withdraw from the call.
        """
        try:
            response = await self._client.request("find", call)
        except asyncio.CancelledError:
            self.leave(call)
            raise
        outcome = response["outcome"]
        return serialization.decode_outcome(outcome, call.endpoint.port) if outcome is not None else None

    async def store(self, call: CallRecord, outcome: CallOutcome) -> None:
        """Store the outcome of a call, and wait until it is in the run's journal. Raises `PortError` if the outcome
        cannot be stored.
        """
        response = await self._client.request("store", call, outcome=serialization.encode_outcome(outcome))
        if "error" in response:
            raise load_error(response["error"])

    def leave(self, call: CallRecord) -> None:
        """Withdraw from a call, so that another worker makes it."""
        self._client.send({"kind": "leave", "key": call.key.hex()})


class RemoteBudget:
    """Reserves the cost of a worker's calls in the run's budget, which is charged the actual cost later."""

    def __init__(self, client: RemoteClient) -> None:
        self._client = client
        self._numbers = count()

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the cost of a call. Return the number of the reservation. Raises `OverBudget` if the budget does not
        cover the cost.
        """
        reserved = next(self._numbers)
        try:
            response = await self._client.request("reserve", call, reserved=reserved)
        except asyncio.CancelledError:
            self.release(reserved)
            raise
        if not response["covered"]:
            raise OverBudget
        return reserved

    async def holds(self, reserved: int) -> bool:
        """Return whether an earlier reservation still allows its call."""
        response = await self._client.request("holds", reserved=reserved)
        return bool(response["covered"])

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Do nothing. The run charges the budget when it receives the message to the ledger."""

    def release(self, reserved: int) -> None:
        """Release a reservation after its call has ended."""
        self._client.send({"kind": "release", "reserved": reserved})


_POLL_INTERVAL = 0.05  # seconds between checks whether the last call has ended
_REPORT_INTERVAL = 0.25  # seconds after which a worker reports its state, even if nothing has happened


class Worker:
    """A worker, which is a Ray actor. The run sends messages to it (`handle_messages`) and polls for its messages.

    The run sends `work` (answers to produce), `response` (from the journal or the budget) and `stop`. The run gets the
    worker's messages from `next_messages`. These are `find`, `store` and `leave` (to the journal), `reserve`, `holds`
    and `release` (to the budget), `call_made` and `call_cached` (to the ledger), `model` (before the first message
    about a call to the model), `done` (all results of an answer, or those that the budget covers), `ended` (an error
    that ends the run, such as `RunError`), `failed` (any other error that no stage has caught), `log`, `state` and
    `stopped`.
    """

    def __init__(self) -> None:
        self._outbox: list[Payload] = []
        self._has_output = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._runner: ItemRunner | None = None
        self._planner: Planner | None = None
        self._judges: tuple[ModelConfig | None, ...] = ()
        self._config: VerificationConfig | None = None
        self._client: RemoteClient | None = None
        self._context = copy_context()
        self._reported: list[Any] = []
        self._cancelling = False

    async def set_up(self, data: bytes) -> bytes:
        """Prepare the worker. Return an encoded message with its host, process ID, plugins and time. If the setup
        fails, the message contains the host and the error.
        """
        [message] = serialization.decode(data)
        try:
            facts = await self._start(message)
        except Exception as error:
            facts = {"error": f"{type(error).__name__}: {error}"}
        return serialization.encode([{"host": os.uname().nodename, **facts}])

    async def _start(self, message: Payload) -> Payload:
        """Prepare this process like that of the run, let stages set context variables, and create the runner and
        planner. Returns the message for `set_up` to encode. Raises `ConfigError` if a model cannot be called from here.
        """
        logger = logging.getLogger("karenina")
        logger.setLevel(message["level"])
        logger.propagate = False
        logger.handlers = [_ForwardingHandler(self._send)]
        sys.path += [folder for folder in message["path"] if folder not in sys.path]
        with contextlib.suppress(OSError):  # another machine may not have the folder
            os.chdir(message["folder"])
        config = self._config = VerificationConfig(**message["config"])
        plugins, settings = plugins_of(config), config.section(EngineSettings)
        logger.disabled = True  # the run has logged the warnings of these checks
        try:
            with limit_file_size(message["max_file_bytes"]):
                check_configured_models(plugins, config, offline=False)
                self._context = copy_context()
        finally:
            logger.disabled = False
        client = self._client = RemoteClient(self._send, paid=message["paid"])
        reply_store = RemoteJournal(client) if message["journal"] else None
        concurrency = settings.concurrency().share(message["worker"], message["workers"])
        policy = RetryPolicy(**message["policy"])
        parts = RunParts(
            plugins,
            config,
            serialization.decode_trust(message["trust"]),
            policy,
            limit_calls(plugins, concurrency, policy.patience),
            find_observers(plugins),
            store=reply_store,
            ledger=RemoteLedger(client, PriceTable(plugins, settings.prices)),
            budget=RemoteBudget(client) if message["paid"] else None,
            files=serialization.decode_files(message["files"]),
        )
        panel = configured_panel(plugins, config)
        self._planner = Planner(config, plugins, parts.observers)
        self._judges = judges_of(config, panel)
        self._runner = ItemRunner(parts, panel)
        parts.limits.prepare([model for _, model in configured_models(config)])
        return {"pid": os.getpid(), "plugins": list_plugins(plugins), "time": time.time()}

    async def handle_messages(self, data: bytes) -> None:
        """Handle messages from the run: start answers, stop, or pass a response to the waiting request. An exception is
        sent to the run, which ends with it, because the run does not wait for this call.
        """
        try:
            for message in serialization.decode(data):
                kind = message["kind"]
                if kind == "work":
                    self._start_answers(message)
                elif kind == "stop":
                    self._start_task(self._stop(message["grace"]))
                elif self._client is not None:
                    self._client.on_response(message)
        except Exception:
            self._send({"kind": "failed", "error": traceback.format_exc()})

    async def next_messages(self) -> bytes:
        """Return the queued messages, encoded, with the state of servers and calls if it has changed. If there are
        none, wait up to `_REPORT_INTERVAL` seconds.
        """
        if not self._outbox:
            self._has_output.clear()
            try:
                async with asyncio.timeout(_REPORT_INTERVAL):
                    await self._has_output.wait()
            except TimeoutError:
                pass
        self._report_state()
        messages, self._outbox = self._outbox, []
        return serialization.encode(messages)

    async def close(self) -> None:
        """Cancel all work, and close the ports and tools."""
        await self._cancel()
        if self._runner is not None:
            await self._runner.aclose()

    def _send(self, message: Payload) -> None:
        """Queue a message for `next_messages` to return."""
        self._outbox.append(message)
        self._has_output.set()

    def _start_answers(self, message: Payload) -> None:
        """Start a task for each answer in a message of the run. The worker must have been set up."""
        assert self._config is not None
        assert self._planner is not None
        core = self._config.core
        questions = {key: question_from_json(fields) for key, fields in message["questions"].items()}
        for key, model, replicate, order, judges in message["answers"]:
            pipeline, chosen = self._planner.pipeline(questions[key]), core.answering_models[model]
            task = AnswerTask(questions[key], pipeline, chosen, replicate, self._judges, order)
            self._start_task(self._run_answer(task, judges))

    def _start_task(self, work: Any) -> None:
        """Start a task that `close` and `stop` can cancel, with the context variables of the run."""
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_answer(self, task: AnswerTask, judges: list[int]) -> None:
        """Produce an answer, and run its items for `judges`, which are given by index. All results are sent in a single
        message, so that they refer to the same answer. An error that no stage has caught is also sent as a message, and
        so is a cancellation that did not come from the run.
        """
        assert self._runner is not None
        results: list[tuple[int, str]] = []
        try:
            async with aclosing(self._runner.answer(task, judges)) as answered:
                async for judge, result in answered:
                    results.append((judge, dump_result(result)))
        except asyncio.CancelledError:
            if not self._cancelling:  # otherwise the run would wait for this answer forever
                self._send({"kind": "ended", "error": CANCELLED})
            raise
        except KareninaError as error:
            self._send({"kind": "ended", "error": str(error)})
        except Exception:
            self._send({"kind": "failed", "error": traceback.format_exc()})
        else:
            self._send({"kind": "done", "order": task.order, "results": results})

    async def _stop(self, grace: float) -> None:
        """Stop making calls, wait `grace` seconds for those in progress, cancel the rest, and report the end."""
        assert self._runner is not None
        self._runner.calls.limits.close()
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._runner.calls.in_flight and loop.time() < end:  # noqa: ASYNC110 - calls end in many ways
            await asyncio.sleep(_POLL_INTERVAL)
        await asyncio.sleep(_POLL_INTERVAL)  # time to turn the last reply into a result
        await self._cancel()
        self._send({"kind": "stopped"})

    async def _cancel(self) -> None:
        """Cancel all other tasks of this worker, and wait for them to end."""
        self._cancelling = True
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others)

    def _report_state(self) -> None:
        """Report the state of the servers and the calls since the last report to the run, if anything has changed."""
        if self._runner is None:
            return
        calls = self._runner.calls
        servers = [[server.limit, server.held, server.queued, server.retrying] for server in calls.limits.servers]
        state = [servers, calls.limits.capacity()]
        counts = calls.take_counts()
        if state != self._reported or counts != CallCounts():
            encoded = serialization.encode_counts(counts)
            self._outbox.append({"kind": "state", "servers": servers, "room": state[1], "counts": encoded})
        self._reported = state


class _ForwardingHandler(logging.Handler):
    """Sends log records to the run, so that nothing is written to Ray's log files."""

    def __init__(self, send: Callable[[Payload], None]) -> None:
        super().__init__()
        self._send = send
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        """Send the record's message to the run. This may be called from any thread."""
        message = {"kind": "log", "level": record.levelno, "message": self.format(record)}
        self._loop.call_soon_threadsafe(self._send, message)


def list_plugins(plugins: Plugins) -> list[list[str]]:
    """Return the kind, name, distribution and version of the core and of each plugin in this process."""
    loaded = [
        [info.kind, info.name, info.distribution, info.version] for info in plugins.describe() if info.state == "loaded"
    ]
    return [["core", "karenina-core", "karenina-core", __version__], *loaded]
