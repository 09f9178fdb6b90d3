"""Model calls, and the interfaces of the objects that process them."""

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
from karenina_toolkit.attachments.support import limits_of, most_tokens

if TYPE_CHECKING:
    from karenina_core.data.sections import KeptFile
    from karenina_core.models.adapters import AdapterSpec


FRAME: Final = 64
"""The number of tokens that a server adds to the messages of a call.

It is also used as the number of characters in a tool call's markup.
"""

_PER_CHARACTER: Final = 0.5  # tokens: more than in long texts in alphabetic scripts
_PER_SIGN: Final = 2.0  # tokens, for texts in other scripts
PortKind = Literal["llm", "parser", "agent", "turn", "service"]


class CallSize(NamedTuple):
    """The size of a call, used to estimate its cost.

    `characters` is the combined length of the messages and the request. `density` is the maximum number of tokens per
    character. `turns` is the maximum number of requests to the model. It is 1 unless an agent is called as a whole.
    `attached` is the maximum number of tokens of the attachments, as far as it is known.
    """

    characters: int
    density: float
    turns: int
    attached: int = 0


def measure_call(messages: Sequence[Message], request: object, *, is_agent: bool) -> CallSize:
    """Return how many characters a call sends with `messages` and `request`, how many tokens are assumed for each
    character, and the number of turns: an agent's `max_turns`, or 1. Each tool call in the messages counts as `FRAME`
    characters.
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

    There is one endpoint per model and port. `adapter` is the adapter's interface and version, and `spec` is its
    specification. `identity` contains every parameter that may change a reply, as JSON-compatible data without secrets.
    Set `by_item` if the reply also depends on the question and the replicate, as it does for recordings.
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
        """The digest of the endpoint's port, adapter and identity. If `stored_digest` is set, it is returned instead.
        Calls read from a journal have one.
        """
        if self.stored_digest is not None:
            return self.stored_digest
        written = json.dumps([self.port, self.adapter, self.identity], sort_keys=True, default=str)
        return hashlib.sha256(written.encode()).digest()


@dataclass
class Call:
    """A single call. Do not change it: its key is computed only once.

    `messages` are the messages to send. For an agent's turn, they include the agent's trace so far. `request` contains
    everything else that determines the reply, such as the schema or the agent's tools and limits. `notes` records the
    duration and the number of retries, and is complete once the reply has been stored.

    Set `self_contained` to False if the call leaves behind files that other calls read. A resumed run repeats such a
    call instead of using its stored reply. A `composite` call is made up of other calls, such as an agent's turns.
    Limits, retries and counts apply to those calls rather than to the composite call.
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
        """Whether this is a call to a model rather than to a service. Calls to services have no limit, tokens or
        price.
        """
        return self.endpoint.port != "service"

    @cached_property
    def key(self) -> bytes:
        """The key for storing the reply: a SHA-256 digest of everything that determines the reply, including the
        replicate number. Calls with the same key are identical and share one reply.
        """
        info = self.info
        parts: list[Any] = [[message.to_dict() for message in self.messages], self.request, info.replicate, info.sample]
        if self.endpoint.by_item:
            parts += [info.question_id, info.question, info.task]
        return hashlib.sha256(self.endpoint.digest + dump_json_bytes(parts, str)).digest()

    @cached_property
    def size(self) -> CallSize:
        """The size of the call, from which a budget estimates the cost."""
        size = measure_call(self.messages, self.request, is_agent=self.endpoint.port == "agent")
        if not self.attached_bytes or self.endpoint.spec is None:
            return size
        limits = limits_of(self.endpoint.spec, self.endpoint.model)
        attachments = [attachment for message in self.messages for attachment in message.attachments]
        return size._replace(attached=sum(most_tokens((attachment,), limits) or 0 for attachment in attachments))

    @property
    def attached_bytes(self) -> int:
        """The total size of the attachments."""
        return sum([attachment.size for message in self.messages for attachment in message.attachments])

    def with_endpoint_digest(self, digest: bytes) -> Call:
        """Return a copy of this call for an endpoint with the given digest."""
        return replace(self, endpoint=replace(self.endpoint, stored_digest=digest))


@dataclass(slots=True)
class CallOutcome:
    """The outcome of a call: a `reply`, or the `error` from its last attempt.

    A cancelled call has neither. Its outcome is reported but not stored. `files` are the files that the adapter kept
    for the item. `key` is the key under which the outcome is stored, if it is another one than the call's own.
    """

    reply: Reply | None
    error: PortError | None
    notes: CallNotes
    files: tuple[KeptFile, ...] = ()
    key: bytes | None = None


class CallRecord(Protocol):
    """The part of a call that is needed to store its reply and count its cost.

    This is either a `Call` or the record of a call made by another process.
    """

    @property
    def endpoint(self) -> Endpoint:
        """The target of the call."""

    @property
    def info(self) -> CallInfo:
        """The question, stage and judge that the call belongs to."""

    @property
    def key(self) -> bytes:
        """The key under which the reply is stored."""

    @property
    def size(self) -> CallSize:
        """The size of the call."""

    @property
    def self_contained(self) -> bool:
        """Whether the call has no effects other than its reply."""

    @property
    def composite(self) -> bool:
        """Whether the call is made up of other calls, each recorded separately."""

    @property
    def is_model_call(self) -> bool:
        """Whether the call is to a model rather than to a service."""

    def with_endpoint_digest(self, digest: bytes) -> CallRecord:
        """Return a copy of this call for an endpoint with the given digest."""


class ReplyStore(Protocol):
    """A store for replies, so that no call is made twice."""

    async def find(self, call: CallRecord) -> CallOutcome | None:
        """Look up the outcome of an identical call. Returns None if the call has to be made. In that case, call `store`
        or `leave` afterwards. Raises `PortError` if there is no stored outcome and making calls is not allowed.
        """

    def store(self, call: CallRecord, outcome: CallOutcome) -> Awaitable[None]:
        """Store the outcome of a call. Once the returned awaitable has completed, the outcome will survive the end of
        the process. Awaiting it may raise `PortError`.
        """

    def leave(self, call: CallRecord) -> None:
        """Abandon a call for which `find` returned None, without storing an outcome."""


class BudgetGuard(Protocol):
    """The budget for calls.

    This is either a `karenina_engine.cost.budget.Budget` or a proxy for a budget in another process.
    """

    async def reserve(self, call: CallRecord) -> int:
        """Reserve the maximum expected cost of a call, and return an id to pass to `release`.

        Raises `OverBudget` if the budget does not cover the call.
        """

    async def holds(self, reserved: int) -> bool:
        """Return whether the call with the given reservation can still be made. Other calls may have cost more than
        expected in the meantime. Always returns True if there is no reservation with this number, for example for 0.
        """

    def spend(self, call: CallRecord, usage: Usage, cost: int | None) -> None:
        """Add the actual cost of a call, in picodollars.

        If `cost` is None, the maximum expected cost is used instead.
        """

    def release(self, reserved: int) -> None:
        """Release a reservation. Call `spend` before this."""


class CallListener(Protocol):
    """A listener for the calls of a run, such as `karenina_engine.progress.observers.Observers`."""

    observes_calls: bool
    """Whether any observer observes calls."""

    def call_started(self, call: Call) -> Callable[[CallOutcome], None]:
        """Report the start of a call, and return a function for reporting its outcome."""


class CallLedger(Protocol):
    """A ledger that records the usage of calls, such as `karenina_engine.cost.ledger.Ledger`."""

    def record_call(self, call: CallRecord, usage: Usage, *, is_blank: bool) -> int | None:
        """Record a call that was made. Returns its cost in picodollars, or None if the cost is not known. `is_blank`
        states that the reply has no output tokens that the server could have left out.
        """

    def record_cached(self, call: CallRecord, usage: Usage, *, is_blank: bool) -> None:
        """Record a call that was answered by a stored reply or by the reply to an identical call."""


@dataclass(slots=True)
class CallCounts:
    """The number of calls that were `made`, `cached` and `failed`.

    A cached call was answered by a stored or shared reply. `used` is the total usage of the calls made, and `saved` is
    the total usage of the cached replies. `unknown_ends` counts the replies that ended for an unknown reason, by server
    and reason.
    """

    made: int = 0
    cached: int = 0
    failed: int = 0
    used: Usage = field(default_factory=Usage)
    saved: Usage = field(default_factory=Usage)
    unknown_ends: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, other: CallCounts) -> None:
        """Add the counts from `other` to these counts, in place."""
        self.made += other.made
        self.cached += other.cached
        self.failed += other.failed
        self.used += other.used
        self.saved += other.saved
        self.unknown_ends += other.unknown_ends


class PanelModel(ModelConfig):
    """A panel of judges that takes the place of a single judge.

    The panel itself is never called, but its `id` and names appear in results. `members` judge every answer, while
    `others` judge only some of the answers.
    """

    members: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
    others: tuple[ModelConfig, ...] = Field(default=(), exclude=True, repr=False)
