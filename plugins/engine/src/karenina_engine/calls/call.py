"""A model call: its target, messages and size, and the interfaces of the objects that handle it.

`PanelModel` is a panel of judges used where a configuration specifies a single judge.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from pydantic import Field

from karenina_core.models.model import ModelConfig
from karenina_core.models.ports import CallInfo, CallNotes, Message, PortError, Usage
from karenina_engine.calls.reply_json import Reply, dump_json_bytes

if TYPE_CHECKING:
    from karenina_core.data.sections import KeptFile
    from karenina_core.models.adapters import AdapterSpec


FRAME: Final = 64
"""The tokens that a server adds to the messages of a call, and the characters counted for the markup of a tool call."""

_PER_CHARACTER: Final = 0.5  # tokens: more than in long texts in alphabetic scripts
_PER_SIGN: Final = 2.0  # tokens, for texts in other scripts
PortKind = Literal["llm", "parser", "agent", "turn", "service"]


class CallSize(NamedTuple):
    """The size of a call.

    `characters` is the length of the call's messages and request. `density` is the maximum number of tokens per
    character. `turns` is the maximum number of requests, which exceeds 1 only for an agent called as a whole.
    """

    characters: int
    density: float
    turns: int


def measure_call(messages: Sequence[Message], request: object, *, is_agent: bool) -> CallSize:
    """Return the size of a call that sends `messages` and `request`, which is JSON-compatible data or None.

    Each tool call in the messages counts as `FRAME` characters. Only an agent call (`is_agent`) can have more than one
    turn; the limit is the `max_turns` in its request, or 1 if there is none.
    """
    texts = [message.content for message in messages]
    size = sum(map(len, texts)) + sum(len(message.tool_calls) * FRAME for message in messages)
    if request is not None:
        size += len(json.dumps(request, default=str))
    turns = 1
    if is_agent and isinstance(request, dict):
        turns = max(1, int(request.get("max_turns", 1)))
    return CallSize(size, _PER_CHARACTER if all(map(str.isascii, texts)) else _PER_SIGN, turns)


@dataclass(frozen=True)
class Endpoint:
    """The target of a call: a model reached through one of an adapter's ports, or a service (the port `service`).

    `adapter` contains the adapter's interface and version, and `spec` is its specification. `identity` contains all
    parameters that may change a reply, as JSON-compatible data without secrets. If `by_item` is set, the reply also
    depends on the question and replicate, as it does for a recording. A run has one endpoint for each combination of
    model and port.
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
        """The digest of the port, adapter and identity, or `stored_digest` (read from a journal) if it is set."""
        if self.stored_digest is not None:
            return self.stored_digest
        written = json.dumps([self.port, self.adapter, self.identity], sort_keys=True, default=str)
        return hashlib.sha256(written.encode()).digest()


@dataclass(frozen=True)
class Call:
    """A call to be made.

    `messages` are sent to the model; for an agent's turn, they are the agent's messages and its trace so far. `request`
    contains everything else that determines the reply, as JSON-compatible data: the schema, or an agent's tools and
    limits. `notes` records how long the reply took and how many retries it needed; it is complete when the reply is
    stored.

    A call that is not `self_contained` also leaves files that other calls read, so a resumed run does not reuse its
    stored reply. A `composite` call consists of other calls, such as an agent's turns, which are made and counted
    separately; the composite call itself is not limited, retried or counted.
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
        """Whether the call is to a model rather than to a service, which has no limit, tokens or price."""
        return self.endpoint.port != "service"

    @cached_property
    def key(self) -> bytes:
        """The SHA-256 digest of everything that determines the reply: endpoint, messages, request, replicate and
        sample. If the endpoint is `by_item`, the question and task are included too.

        Calls with the same key are identical, and share a single reply.
        """
        info = self.info
        parts: list[Any] = [[message.to_dict() for message in self.messages], self.request, info.replicate, info.sample]
        if self.endpoint.by_item:
            parts += [info.question_id, info.question, info.task]
        return hashlib.sha256(self.endpoint.digest + dump_json_bytes(parts, str)).digest()

    @cached_property
    def size(self) -> CallSize:
        """The size of the call, which a budget uses to estimate the cost."""
        return measure_call(self.messages, self.request, is_agent=self.endpoint.port == "agent")

    def with_endpoint_digest(self, digest: bytes) -> Call:
        """Return the call with the key it would have for an endpoint with this digest."""
        return replace(self, endpoint=replace(self.endpoint, stored_digest=digest))


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call: a `reply`, or the `error` from its last attempt.

    A cancelled call has neither; its outcome is reported to observers but not stored. `files` are the files that the
    adapter kept for the item.
    """

    reply: Reply | None
    error: PortError | None
    notes: CallNotes
    files: tuple[KeptFile, ...] = ()


class CallRecord(Protocol):
    """The parts of a call that stores, ledgers and budgets use.

    This is either a `Call` or the record of a call in another process.
    """

    @property
    def endpoint(self) -> Endpoint:
        """The target of the call."""

    @property
    def info(self) -> CallInfo:
        """The question, stage and judge that the call is for."""

    @property
    def key(self) -> bytes:
        """The key under which the reply is stored."""

    @property
    def size(self) -> CallSize:
        """The size of the call."""

    @property
    def self_contained(self) -> bool:
        """Whether the reply is the only effect of the call."""

    @property
    def composite(self) -> bool:
        """Whether the call consists of other calls, each recorded separately."""

    @property
    def is_model_call(self) -> bool:
        """Whether the call is to a model rather than to a service."""

    def with_endpoint_digest(self, digest: bytes) -> CallRecord:
        """Return the call with the key it would have for an endpoint with this digest."""


class ReplyStore(Protocol):
    """A store for replies, which ensures that no completed call is made twice."""

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Return the stored outcome of an identical call, or None if the call has to be made.

        If the result is None, the caller must call `store` or `leave`. Raises `PortError` if nothing is stored and no
        calls may be made.
        """

    def store(self, call: CallRecord, outcome: CallOutcome) -> Awaitable[None]:
        """Store the outcome of a call. Once the returned awaitable completes, the outcome will survive the end of the
        process.

        Awaiting it may raise `PortError` if the reply cannot be stored.
        """

    def leave(self, call: CallRecord) -> None:
        """Record that a call that was not found will not be made after all, or that its outcome cannot be stored."""


class BudgetGuard(Protocol):
    """The budget for calls: `karenina_engine.cost.budget.Budget`, or a proxy for a budget in another process."""

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the call's expected maximum cost, and return the reservation's id for use with `release`.

        Raises `OverBudget` if the budget does not cover the call.
        """

    async def holds(self, reserved: int) -> bool:
        """Return whether a call with this reservation may still be made, given the cost of other calls since then.

        A number without a reservation, such as 0 for a call that costs nothing, gives True.
        """

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Count a call's actual cost in picodollars.

        If the cost is unknown (None), count the expected maximum instead.
        """

    def release(self, reserved: int) -> None:
        """Release a reservation after the call's actual cost has been counted."""


class CallListener(Protocol):
    """A listener that is notified of a run's calls: `karenina_engine.progress.observers.Observers`."""

    observes_calls: bool
    """Whether any observer observes calls."""

    def call_started(self, call: Call) -> Callable[[CallOutcome], None]:
        """Report that a call is starting, and return a function that reports its outcome."""


class CallLedger(Protocol):
    """A ledger that records the usage of calls: `karenina_engine.cost.ledger.Ledger`."""

    def record_call(self, call: CallRecord, usage: Usage) -> int | None:
        """Count a completed call, and return its cost in picodollars, or None if the cost is unknown."""

    def record_cached(self, call: CallRecord, usage: Usage) -> None:
        """Count a reply that had already been stored, or was shared with an identical call."""


@dataclass(slots=True)
class CallCounts:
    """Counts of calls: `made`, `cached` (answered by a stored or shared reply) and `failed`.

    `used` is the usage of the calls that were made, and `saved` that of the cached replies. `unknown_ends` counts the
    replies that ended for an unknown reason, by server and reason.
    """

    made: int = 0
    cached: int = 0
    failed: int = 0
    used: Usage = field(default_factory=Usage)
    saved: Usage = field(default_factory=Usage)
    unknown_ends: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: CallCounts) -> None:
        """Add the counts from `other` to these counts."""
        self.made += other.made
        self.cached += other.cached
        self.failed += other.failed
        self.used += other.used
        self.saved += other.saved
        self.unknown_ends += other.unknown_ends


class PanelModel(ModelConfig):
    """A panel of judges in place of a single judge. Results contain its `id` and names, but it is never called itself.

    `members` are the judges asked about every answer, and `others` are those asked about only some answers.
    """

    members: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
    others: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
