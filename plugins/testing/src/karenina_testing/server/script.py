"""The script, which determines the reply to each call, and the log of all calls."""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote_plus

from karenina_testing.server.exchange import Reply, Request, Say
from karenina_testing.server.faults import Fault
from karenina_testing.server.formats import spoken
from karenina_toolkit.http.urls import MASK

One: TypeAlias = "str | Say | Reply | Fault | Mapping[str, Any] | Callable[[Request], Any] | None"
"""The reply to one request: the model's text, a literal reply, its body (a JSON object), or a fault.

None is the side's default reply. A function is called with the request and returns one of these values, or an awaitable
of one. It runs in the server's event loop.
"""
Sent: TypeAlias = "One | Sequence[One]"
"""One reply for all of an item's calls, or a sequence with one reply for each call. The last one is repeated.

In a sequence, a fault applies to the reply after it, or to the default reply if there is none.
"""

_MARK: Final = re.compile(r"\[item ([^\]\n]{1,200})\]")
_UNKNOWN: Final = "I do not know."
_SECRET: Final = re.compile(
    r"(authorization|cookie|credential|key|passw(or)?d|secret|signature|token)s?$|(^|[^a-z])(auth|sig)$", re.IGNORECASE
)
"""A pattern for the names of headers and query parameters that may contain secrets."""


@dataclass(eq=False)
class Side:
    """The script for one side: the answering model or the judge.

    - `reply`: the default reply.
    - `items`: the replies and faults for particular items, by key.
    - `shares`: faults, each with its share of all calls, such as `{faults.hang: 0.02}`. Which calls are affected
      depends only on `seed`, the side, the item and the call's number, not on the order in which calls arrive.
      Items in `items` are never affected.
    """

    reply: Sent = _UNKNOWN
    items: Mapping[str, Sent] = field(default_factory=dict)
    shares: Mapping[Fault, float] = field(default_factory=dict)
    seed: int | str = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` if a share is negative or the shares add up to more than 1."""
        if sum(self.shares.values()) > 1 or min(self.shares.values(), default=0) < 0:
            raise ValueError(
                "the shares of faults must not be negative, and their sum must be at most 1; got "
                f"{list(self.shares.values())}"
            )

    @staticmethod
    def of(given: Side | Sent | Mapping[str, Sent]) -> Side:
        """Convert a script to a side. A mapping becomes the side's `items`, and anything else its `reply`."""
        if isinstance(given, Side):
            return given
        return Side(items=given) if isinstance(given, Mapping) else Side(given)

    def drawn(self, side: str, item: str, call: int) -> Fault | None:
        """Return the fault that `shares` and the seed assign to the call of this number for an item, on the side
        `answer` or `judge`, or None. It never changes for a call.
        """
        if not self.shares:
            return None
        digest = hashlib.blake2b(f"{self.seed} {side} {item} {call}".encode("utf-8", "replace"), digest_size=8).digest()
        place = int.from_bytes(digest) / 2**64
        for fault, share in self.shares.items():
            if place < share:
                return fault
            place -= share
        return None


@dataclass(eq=False)
class Entry:
    """A request and its reply.

    `call` is the number of the item's call on its side, starting at 1. `at` is the time when the request arrived, and
    `sent_at` the time when the reply was sent, by `time.monotonic`. `whole` is True if the reply was sent while the
    client was still connected. `refused` is True if too many calls were in flight.
    """

    item: str
    side: str
    call: int
    request: Request
    at: float
    reply: Reply | None = None
    whole: bool = False
    refused: bool = False
    sent_at: float | None = None

    @property
    def fault(self) -> str | None:
        """The name of the injected fault, or None if there was none."""
        return self.reply.name if self.reply is not None else None

    @property
    def status(self) -> int | None:
        """The status that was sent, or None if there was no reply or it was raw."""
        return self.reply.status if self.reply is not None and self.reply.raw is None else None

    @property
    def body(self) -> Any:
        """The body as text, bytes or JSON-compatible data, or the chunks of a stream, or None without a reply."""
        if self.reply is None:
            return None
        if self.reply.raw is not None:
            return self.reply.raw
        return self.reply.body if self.reply.chunks is None else self.reply.chunks

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-compatible dict in which secrets, recognized by the names of headers and query parameters, are
        replaced by `***`. Bodies are not changed, but bytes in a list of chunks become text, and other streams None.
        """
        body = self.body if isinstance(self.body, (str, dict, list)) else None
        if isinstance(body, list):
            body = [chunk.decode("utf-8", "replace") if isinstance(chunk, bytes) else chunk for chunk in body]
        sent = {"fault": self.fault, "status": self.status, "body": body, "whole": self.whole}
        headers = {name: MASK if _SECRET.search(name) else value for name, value in self.request.headers.items()}
        came = {"path": _mask_query(self.request.path), "headers": headers, "request": self.request.text}
        return {"item": self.item, "side": self.side, "call": self.call, **sent, **came}


def _mask_query(target: str) -> str:
    """Return a URL's path and query with `***` in place of the values of secret query parameters."""
    path, mark, query = target.partition("?")
    parts = (part.partition("=") for part in query.split("&"))
    shown = (f"{name}{sign}{MASK if sign and _SECRET.search(unquote_plus(name)) else v}" for name, sign, v in parts)
    return f"{path}{mark}{'&'.join(shown)}"


class Log:
    """The entries of all calls in order of arrival. The log can be read while the server runs."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._items: dict[str, list[Entry]] = {}
        self.came = threading.Condition()

    def add(self, entry: Entry) -> None:
        """Add an entry to the log, and notify all threads that wait for `came`."""
        with self.came:
            self._entries.append(entry)
            self._items.setdefault(entry.item, []).append(entry)
            self.came.notify_all()

    def __getitem__(self, item: str) -> list[Entry]:
        """Return an item's entries, or an empty list if there are none."""
        with self.came:
            return list(self._items.get(item, ()))

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the current entries."""
        with self.came:
            return iter(list(self._entries))

    def __len__(self) -> int:
        """Return the number of calls."""
        return len(self._entries)

    def by_item(self) -> dict[str, list[Entry]]:
        """Return the entries grouped by item."""
        with self.came:
            return {item: list(entries) for item, entries in self._items.items()}

    def faults(self) -> Counter[str]:
        """Count how often each fault occurred."""
        return Counter(entry.fault for entry in self if entry.fault is not None)

    def clear(self) -> None:
        """Remove all entries. Call numbers are not reset."""
        with self.came:
            self._entries.clear()
            self._items.clear()

    def to_jsonl(self) -> str:
        """Return the log as JSON lines, without secrets (see `Entry.to_dict`)."""
        return "".join(json.dumps(entry.to_dict()) + "\n" for entry in self)


@dataclass(eq=False)
class Script:
    """The scripts of both sides, and the number of calls so far."""

    answers: Side
    judge: Side | None
    item_of: Callable[[Request], str] | None
    is_judge: Callable[[Request], bool]
    _calls: Counter[tuple[str, str]] = field(default_factory=Counter)

    def entry(self, request: Request) -> Entry:
        """Count a call of the request's item and side, and return its log entry, which has no reply yet.

        Exceptions from `item_of` and `is_judge` propagate.
        """
        side = "judge" if self.is_judge(request) else "answer"
        item = self.item_of(request) if self.item_of is not None else self._item(request)
        self._calls[side, item] += 1
        return Entry(item, side, self._calls[side, item], request, time.monotonic())

    def choose(self, entry: Entry) -> Reply | Awaitable[Reply]:
        """Return the reply that the script has for a call, or an awaitable of it. An item's own script takes precedence
        over drawn faults. Raises `TypeError` if a value in the script cannot be a reply; exceptions from functions in
        the script propagate.
        """
        side = self.answers if entry.side == "answer" or self.judge is None else self.judge
        if entry.item in side.items:
            sent, fault = _nth(side.items[entry.item], entry.call)
        else:
            sent, fault = None, side.drawn(entry.side, entry.item, entry.call)
        if sent is None:
            sent, usual = _nth(side.reply, entry.call)
            fault = fault or usual
        reply = _make_reply(sent, entry.request)
        if isinstance(reply, Reply):
            return reply if fault is None else fault(entry.request, reply)
        return _apply_fault(reply, fault, entry.request)

    def _item(self, request: Request) -> str:
        """Return the key by which the script looks up a request's replies: that of the last mark `[item KEY]`, the
        longest of the script's keys in the messages, or the last user message.
        """
        text = "\n".join(text for _, text in request.texts)
        if marks := _MARK.findall(text):
            return str(marks[-1])
        sides = [self.answers, *([self.judge] if self.judge is not None else [])]
        keys = [key for side in sides for key in side.items if key in text]
        if keys:
            return max(keys, key=len)
        return next((text for role, text in reversed(request.texts) if role == "user"), text)


def _nth(sent: Sent, call: int) -> tuple[One, Fault | None]:
    """Return the reply to the call with this number, which is None for the default, and the fault to apply to it, if
    any. Each item of `sent` is for one call, and the last for all later ones, too. A fault applies to the reply after
    it.
    """
    every = list(sent) if isinstance(sent, Sequence) and not isinstance(sent, str) else [sent]
    left = every[min(call, len(every)) - 1 :]
    fault = left[0] if left and isinstance(left[0], Fault) else None
    return next((item for item in left if not isinstance(item, Fault)), None), fault


def _make_reply(scripted: Any, request: Request) -> Reply | Awaitable[Reply]:
    """Convert a value in a script to a reply, or an awaitable of one. Functions are called with the request, and None
    becomes the text `I do not know.` Raises `TypeError` if the value cannot be a reply.
    """
    while callable(scripted) and not isinstance(scripted, Fault):
        scripted = scripted(request)
    if isinstance(scripted, Awaitable):
        return _await_reply(scripted, request)
    if scripted is None:
        scripted = _UNKNOWN
    if isinstance(scripted, str):
        scripted = Say(scripted)
    if isinstance(scripted, Say):
        return spoken(request, scripted)
    if isinstance(scripted, Fault):
        return scripted(request, spoken(request, Say(_UNKNOWN)))
    if isinstance(scripted, Mapping):
        return Reply(scripted)
    if isinstance(scripted, Reply):
        return scripted
    raise TypeError(
        "a scripted reply must be a string, mapping, Say, Reply or Fault, or a function that returns one of these, "
        f"not {scripted!r}"
    )


async def _await_reply(coming: Awaitable[Any], request: Request) -> Reply:
    """Wait for an awaitable from the script, and convert its result to a reply."""
    reply = _make_reply(await coming, request)
    return reply if isinstance(reply, Reply) else await reply


async def _apply_fault(coming: Awaitable[Reply], fault: Fault | None, request: Request) -> Reply:
    """Wait for a reply, and apply the fault, if any."""
    good = await coming
    return good if fault is None else fault(request, good)


def asks_the_judge(request: Request) -> bool:
    """Return whether a request is for the judge: its path starts with `/judge/`, or it asks for JSON."""
    return request.path.startswith("/judge/") or request.asks_for_json
