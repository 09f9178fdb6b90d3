"""A model call: what is called, what is sent, and the interfaces that handle it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

from karenina_core.models.ports import CallInfo, CallNotes, Message, PortError, Usage
from karenina_engine.calls.call_size import CallSize, measure_call
from karenina_engine.calls.reply_json import Reply, dump_json_bytes

if TYPE_CHECKING:
    from karenina_core.models.adapters import AdapterSpec
    from karenina_core.models.model import ModelConfig

PortKind = Literal["llm", "parser", "agent", "turn", "service"]


@dataclass(frozen=True)
class Endpoint:
    """What is called: a model through one port of an adapter, or a service that is no model (the port `service`).

    `adapter` is its interface and version; `identity` are all parameters that may change a reply, as JSON values,
    without secrets. `by_item` says that the reply depends on the question and replicate that it is for, and not only on
    what is sent (recordings are looked up so). `spec` is what the adapter declares. Made once for each model and port.
    """

    port: PortKind
    model: ModelConfig
    adapter: str
    identity: Mapping[str, Any]
    by_item: bool = False
    spec: AdapterSpec | None = None
    stored_digest: bytes | None = None

    @cached_property
    def digest(self) -> bytes:
        """A digest of all of it."""
        if self.stored_digest is not None:
            return self.stored_digest
        written = json.dumps([self.port, self.adapter, self.identity], sort_keys=True, default=str)
        return hashlib.sha256(written.encode()).digest()


@dataclass(frozen=True)
class Call:
    """One call that is about to be made.

    `asked` is what else decides the reply, as JSON values: the schema, or an agent's tools and bounds. `messages` are
    what the model is sent; of a turn, those that the agent was given and its trace so far. `notes` say what the reply
    took; they are complete when the reply is stored. `lasting` says whether the reply is all that the call leaves
    behind; where it also leaves files that somebody reads, the reply alone is not taken from a journal to go on with.
    `parts` says that it consists of calls that come this way themselves, such as an agent's turns, so that the whole is
    neither limited nor repeated nor counted.
    """

    endpoint: Endpoint
    messages: Sequence[Message]
    info: CallInfo
    request: Any = None
    notes: CallNotes = field(default_factory=CallNotes, compare=False)
    self_contained: bool = True
    composite: bool = False

    @property
    def is_model_call(self) -> bool:
        """Whether a model is asked: else nobody's places, tokens or prices are concerned."""
        return self.endpoint.port != "service"

    @cached_property
    def key(self) -> bytes:
        """SHA-256 of target, messages, what else was asked, the replicate and the sample.

        Two calls with the same key would be answered alike, so that the reply to one serves the other.
        """
        info = self.info
        parts: list[Any] = [[message.to_dict() for message in self.messages], self.request, info.replicate, info.sample]
        if self.endpoint.by_item:
            parts += [info.question_id, info.question, info.task]
        return hashlib.sha256(self.endpoint.digest + dump_json_bytes(parts, str)).digest()

    @cached_property
    def size(self) -> CallSize:
        """How much is sent, by which a budget knows what it may cost."""
        return measure_call(self.messages, self.request, is_agent=self.endpoint.port == "agent")

    def with_endpoint_digest(self, digest: bytes) -> Call:
        """Return the call with the key that it has if its target has this digest."""
        return replace(self, endpoint=replace(self.endpoint, stored_digest=digest))


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of a call: a `reply`, or the `error` that its last try ended in, and what it took.

    One that was cut off has neither; such a one is told to observers, and never kept.
    """

    reply: Reply | None
    error: PortError | None
    notes: CallNotes


class CallRecord(Protocol):
    """What stores, ledgers and budgets use of a call: all but what is sent. A `Call`, or one of another process."""

    @property
    def endpoint(self) -> Endpoint:
        """What is called."""

    @property
    def info(self) -> CallInfo:
        """What the call is for."""

    @property
    def key(self) -> bytes:
        """The key under which the reply is stored."""

    @property
    def size(self) -> CallSize:
        """How much is sent."""

    @property
    def self_contained(self) -> bool:
        """Whether the reply is all that the call leaves behind."""

    @property
    def composite(self) -> bool:
        """Whether the call consists of others that are recorded themselves."""

    @property
    def is_model_call(self) -> bool:
        """Whether a model is called, and not a service."""

    def with_endpoint_digest(self, digest: bytes) -> CallRecord:
        """Return the call with the key that it has if its target has this digest."""


class ReplyStore(Protocol):
    """Where replies are kept, so that no finished call is made twice."""

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """What was kept of such a call, or None where it is to be made: then `store` or `leave` follows.

        Raises `PortError` where no call may be made and none was kept.
        """

    def store(self, call: CallRecord, made: CallOutcome) -> Awaitable[None]:
        """Keep what became of a call. When the awaitable returns it is safe, whatever happens to the process.

        Awaiting it raises `PortError` for a reply that cannot be kept.
        """

    def leave(self, call: CallRecord) -> None:
        """Be told that a call that was not found is not made after all, or that nothing could be kept of it."""


class BudgetGuard(Protocol):
    """What calls are paid from: `karenina_engine.cost.budget.Budget`, or the way to it from another process."""

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the most that the call may cost; what is returned is given back to `release`. Raises `OverBudget`."""

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Count what a call did cost; None where that is not known."""

    def release(self, reserved: int) -> None:
        """Give back what `reserve` has reserved, after what the call did cost was counted."""


class CallListener(Protocol):
    """What each call of a run is reported to: `karenina_engine.scheduling.observers.Observers`."""

    observes_calls: bool
    """Whether calls are reported at all."""

    def call_started(self, call: Call) -> Callable[[CallOutcome], None]:
        """Report that a call begins. What is returned reports what became of it."""


class CallLedger(Protocol):
    """What counts the usage of calls: `karenina_engine.cost.ledger.Ledger`."""

    def record_call(self, call: CallRecord, usage: Usage) -> int | None:
        """Count a call that was made, and return its cost in picodollars; None if it is not known."""

    def record_cached(self, call: CallRecord, usage: Usage) -> None:
        """Count a reply that was kept."""


@dataclass(slots=True)
class CallCounts:
    """How many calls a run has made now, how many replies it had kept or shared, and what both used."""

    made: int = 0
    cached: int = 0
    failed: int = 0
    used: Usage = field(default_factory=Usage)
    saved: Usage = field(default_factory=Usage)

    def add(self, other: CallCounts) -> None:
        """Add the counts of `other`."""
        self.made += other.made
        self.cached += other.cached
        self.failed += other.failed
        self.used += other.used
        self.saved += other.saved
