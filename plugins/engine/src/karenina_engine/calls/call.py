"""Model calls, and the interfaces of the objects that handle them."""

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
"""The number of tokens that a server adds around the messages of a call.

Also the number of characters counted for the markup of one tool call.
"""

_PER_CHARACTER: Final = 0.5  # tokens: more than in long texts in alphabetic scripts
_PER_SIGN: Final = 2.0  # tokens, for texts in other scripts
PortKind = Literal["llm", "parser", "agent", "turn", "service"]


class CallSize(NamedTuple):
    """The size of a call, used to estimate its cost.

    `characters` is the length of the messages and the request. `density` is the maximum number of tokens per character.
    `turns` is the maximum number of requests, which is 1 except for agents called as a whole.
    """

    characters: int
    density: float
    turns: int


def measure_call(messages: Sequence[Message], request: object, *, is_agent: bool) -> CallSize:
    """Measure a call that sends `messages` and `request`.

    Each tool call in the messages adds `FRAME` characters. An agent may take as many turns as its request allows in
    `max_turns`; any other call takes one.
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
    """The target of a call: a model reached through one of its adapter's ports, or a service.

    There is one endpoint per model and port. `adapter` is the adapter's interface and version, and `spec` its
    specification. `identity` holds every parameter that may change a reply, as JSON-compatible data without secrets.
    Set `by_item` if the reply also depends on the question and replicate, as it does for recordings.
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
        """The digest of the port, adapter and identity.

        If `stored_digest` is set, it is used instead. This is the case for calls read from a journal.
        """
        if self.stored_digest is not None:
            return self.stored_digest
        written = json.dumps([self.port, self.adapter, self.identity], sort_keys=True, default=str)
        return hashlib.sha256(written.encode()).digest()


@dataclass(frozen=True)
class Call:
    """A single call.

    `messages` are the messages to send. For an agent's turn, they include its trace so far. `request` holds everything
    else that determines the reply, such as the schema or the agent's tools and limits. `notes` records the duration and
    the number of retries, and is complete once the reply has been stored.

    Set `self_contained` to False if the call leaves behind files that other calls read. A resumed run makes such a call
    again instead of using its stored reply. A `composite` call is made up of other calls, such as the turns of an
    agent. Those are limited, retried and counted; the composite call is not.
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
        """Whether this is a call to a model rather than to a service. Services have no limit, tokens or price."""
        return self.endpoint.port != "service"

    @cached_property
    def key(self) -> bytes:
        """The key of the stored reply: a SHA-256 digest of everything that determines it.

        Calls with the same key are identical and share one reply.
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
        """Return a copy of this call for an endpoint with the given digest."""
        return replace(self, endpoint=replace(self.endpoint, stored_digest=digest))


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The outcome of a call: a `reply`, or the `error` from its last attempt.

    A cancelled call has neither, and its outcome is reported but not stored. `files` are the files that the adapter
    kept for the item.
    """

    reply: Reply | None
    error: PortError | None
    notes: CallNotes
    files: tuple[KeptFile, ...] = ()


class CallRecord(Protocol):
    """The part of a call that is used for storing replies and counting costs.

    This is either a `Call` or the record of a call made by another process.
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
        """Return a copy of this call for an endpoint with the given digest."""


class ReplyStore(Protocol):
    """A store for replies, so that no call is made twice."""

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Look up the outcome of an identical call.

        Returns None if the call has to be made. The caller must then call `store` or `leave`. Raises `PortError` if
        there is no stored outcome and calls are not allowed.
        """

    def store(self, call: CallRecord, outcome: CallOutcome) -> Awaitable[None]:
        """Store the outcome of a call.

        Await the result to be sure that the outcome survives the end of the process. This may raise `PortError`.
        """

    def leave(self, call: CallRecord) -> None:
        """Give up on a call that `find` did not find, without storing an outcome."""


class BudgetGuard(Protocol):
    """The budget for calls.

    This is `karenina_engine.cost.budget.Budget`, or a proxy for a budget in another process.
    """

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the expected maximum cost of a call, and return an id to pass to `release`.

        Raises `OverBudget` if the budget does not cover the call.
        """

    async def holds(self, reserved: int) -> bool:
        """Return whether a call with this reservation can still be made.

        Other calls may have cost more than expected in the meantime. Returns True for 0 and other numbers that have no
        reservation.
        """

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Add the actual cost of a call, in picodollars.

        If the cost is None, the expected maximum is used instead.
        """

    def release(self, reserved: int) -> None:
        """Release a reservation. Call `spend` first."""


class CallListener(Protocol):
    """A listener for the calls of a run, such as `karenina_engine.progress.observers.Observers`."""

    observes_calls: bool
    """Whether any observer observes calls."""

    def call_started(self, call: Call) -> Callable[[CallOutcome], None]:
        """Report the start of a call, and return a function that reports its outcome."""


class CallLedger(Protocol):
    """A ledger for the usage of calls, such as `karenina_engine.cost.ledger.Ledger`."""

    def record_call(self, call: CallRecord, usage: Usage) -> int | None:
        """Count a call that was made, and return its cost in picodollars, if known."""

    def record_cached(self, call: CallRecord, usage: Usage) -> None:
        """Count a reply that was taken from the store or shared with an identical call."""


@dataclass(slots=True)
class CallCounts:
    """The number of calls that were `made`, `cached` and `failed`.

    A cached call was answered by a stored or shared reply. `used` is the usage of the calls made, and `saved` is the
    usage of the cached replies. `unknown_ends` counts replies that ended for an unknown reason, by server and reason.
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
    """A panel of judges that takes the place of a single judge.

    It is never called itself, but its `id` and names appear in results. `members` judge every answer; `others` judge
    only some of them.
    """

    members: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
    others: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
