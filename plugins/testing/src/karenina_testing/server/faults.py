"""Server and network faults, which turn good replies into bad ones."""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Final

from karenina_testing.server.exchange import DONE, Reply, Request, Say
from karenina_testing.server.formats import failure, spoken

_BLOCK: Final = 2**16


@dataclass(frozen=True)
class Fault:
    """A fault called `name`. `change` turns the good reply to a request into a bad one."""

    name: str
    change: Callable[[Request, Reply], Reply]

    def __str__(self) -> str:
        """Return the name."""
        return self.name

    def __call__(self, request: Request, good: Reply) -> Reply:
        """Return the bad reply, named after the fault, or the good reply if the fault does not apply."""
        bad = self.change(request, good)
        return good if bad is good else replace(bad, name=self.name)


def status(code: int, retry_after: float | str | None = None, body: Any = None, **headers: str) -> Fault:
    """Return a fault that replies with the status `code` and `body`, by default an error in the request's API format,
    instead of the good reply. `retry_after` is the header `Retry-After`, and `_` in the names of other `headers` is
    replaced by `-`.
    """
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if retry_after is not None:
        named["Retry-After"] = str(retry_after)

    def change(request: Request, _good: Reply) -> Reply:
        return Reply(failure(request, code, "the server is scripted to fail") if body is None else body, code, named)

    return Fault(str(code), change)


def error_in_body(code: int = 500) -> Fault:
    """Return a fault that replies with status 200 and the error for `code` in the body."""
    return Fault(f"error_in_body:{code}", lambda request, _: Reply(failure(request, code, "scripted, with status 200")))


close: Final = Fault("close", lambda _, __: Reply(raw=b"", end="close"))
"""The connection is closed before the reply."""

reset: Final = Fault("reset", lambda _, __: Reply(raw=b"", end="reset"))
"""The connection is reset before the reply."""

hang: Final = Fault("hang", lambda _, __: Reply(raw=b"", end="hang"))
"""Nothing is sent, and the connection stays open until the client leaves."""

cut: Final = Fault("cut", lambda _, good: replace(good, cut=0.5, end="close"))
"""The connection is closed in the middle of the body."""

reset_in_body: Final = Fault("reset_in_body", lambda _, good: replace(good, cut=0.5, end="reset"))
"""The connection is reset in the middle of the body."""

hang_in_body: Final = Fault("hang_in_body", lambda _, good: replace(good, cut=0.5, end="hang"))
"""The second half of the body is never sent."""

empty: Final = Fault("empty", lambda _, good: replace(good, body="", chunks=None, done=False))
"""The body is empty."""

cut_json: Final = Fault("cut_json", lambda _, good: _with_body(good, lambda data: data[: len(data) // 3]))
"""The body ends after a third, with a Content-Length that matches."""

invalid_utf8: Final = Fault("invalid_utf8", lambda _, good: _with_body(good, _insert_invalid_bytes))
"""The first text in the body starts with bytes that are not UTF-8."""

byte_order_mark: Final = Fault("byte_order_mark", lambda _, good: _with_body(good, lambda data: b"\xef\xbb\xbf" + data))
"""The body starts with a byte-order mark."""

carriage_returns: Final = Fault(
    "carriage_returns", lambda _, good: _with_stream(good, lambda data: data.replace(b"\n", b"\r"))
)
"""The lines of a stream end with a single CR. Other replies are unchanged."""

comments: Final = Fault("comments", lambda _, good: _with_stream(good, _with_comments))
"""The stream has comments between its events. Other replies are unchanged."""

no_done: Final = Fault("no_done", lambda _, good: _with_stream(good, lambda data: data.removesuffix(DONE)))
"""The stream ends without `[DONE]`. Other replies are unchanged."""

endless: Final = Fault("endless", lambda _, good: _with_chunks(good, repeat(b" " * _BLOCK)))
"""The body never ends."""

web_page: Final = Fault(
    "web_page",
    lambda _, __: Reply("<!DOCTYPE html><title>Welcome</title>Hello.", headers={"Content-Type": "text/html"}),
)
"""An HTML page is sent instead of a reply."""


def says(name: str, said: Say) -> Fault:
    """Return a fault with the given name that makes the model say `said` instead."""
    return Fault(name, lambda request, _: spoken(request, said))


_HALF: Final = "The answer is probab"

empty_text: Final = says("empty_text", Say(" \n"))
"""The reply has no text but ends normally."""

reasoning_only: Final = says("reasoning_only", Say("", reasoning="I think that it is clear."))
"""The reply has reasoning but no text."""

broken_off: Final = says("broken_off", Say(_HALF, finish="error"))
"""The reply breaks off with the finish reason `error`."""

out_of_resources: Final = says("out_of_resources", Say(_HALF, finish="insufficient_system_resource"))
"""The reply breaks off with a finish reason that only one provider uses."""

filtered: Final = says("filtered", Say("", finish="content_filter"))
"""The provider's filter stops the reply."""

refused: Final = Fault(
    "refused",
    lambda request, _: Reply(
        failure(request, 400, "The response was filtered due to the content management policy."), 400
    ),
)
"""The provider's filter refuses the request with status 400."""

out_of_tokens: Final = says("out_of_tokens", Say(_HALF, finish="length"))
"""The reply is cut off at the token limit."""


def content_type(kind: str = "text/html") -> Fault:
    """Return a fault that sends the good reply with the Content-Type `kind`."""
    return Fault("content_type", lambda _, good: _with_headers(good, {"Content-Type": kind}))


def content_length(difference: int) -> Fault:
    """Return a fault that adds `difference` bytes to the Content-Length, and closes the connection afterwards."""

    def change(_: Request, good: Reply) -> Reply:
        whole = _with_body(good, lambda data: data)
        if whole.chunks is not None:
            whole = _as_body(whole)
        return replace(_with_headers(whole, {"Content-Length": str(len(whole.payload) + difference)}), end="close")

    return Fault(f"content_length:{difference}", change)


def slow_start(seconds: float) -> Fault:
    """Return a fault that delays the first byte of the good reply by `seconds`."""
    return Fault(f"slow_start:{seconds:g}", lambda _, good: replace(good, delay=good.delay + seconds))


def drip(seconds: float, size: int = 1) -> Fault:
    """Return a fault that sends the good reply in pieces of `size` bytes, each followed by a pause of `seconds`."""

    def change(_: Request, good: Reply) -> Reply:
        """Return the good reply in pieces with pauses between them."""
        data = _bytes(good)
        pieces: list[bytes | float] = []
        for start in range(0, len(data), size):
            pieces += [data[start : start + size], seconds]
        return _with_chunks(good, pieces)

    return Fault(f"drip:{seconds:g}", change)


def oversized(megabytes: float) -> Fault:
    """Return a fault that sends `megabytes` of spaces before the good body."""
    blocks = round(megabytes * 2**20 / _BLOCK)
    return Fault(
        f"oversized:{megabytes:g}", lambda _, good: _with_chunks(good, [*repeat(b" " * _BLOCK, blocks), _bytes(good)])
    )


def bomb(megabytes: float) -> Fault:
    """Return a fault that compresses the good body, with `megabytes` of spaces before it."""
    packing = zlib.compressobj(9, zlib.DEFLATED, 31)
    packed = [packing.compress(b" " * _BLOCK) for _ in range(round(megabytes * 2**20 / _BLOCK))]

    def change(_: Request, good: Reply) -> Reply:
        rest = packing.copy()
        data = b"".join([*packed, rest.compress(_bytes(good)), rest.flush()])
        return replace(_with_headers(_as_body(good), {"Content-Encoding": "gzip"}), body=data)

    return Fault(f"bomb:{megabytes:g}", change)


def redirect(to: str, code: int = 302) -> Fault:
    """Return a fault that redirects to the URL `to`."""
    return Fault(f"redirect:{code}", lambda _, __: Reply("", code, {"Location": to}))


def raw(data: bytes, end: Any = "close") -> Fault:
    """Return a fault that sends `data` instead of the whole reply, including the status line.

    `end` is what happens to the connection afterwards, as in `Reply`.
    """
    return Fault("raw", lambda _, __: Reply(raw=data, end=end))


def named(text: str) -> Fault:
    """Return the fault for a name such as `429`, `hang`, `slow_start:2` or `status:429:7`, in which values after colons
    are arguments of the function with that name. Raises `ValueError` if the name is unknown or the arguments are
    invalid.
    """
    name, *arguments = text.split(":")
    if name.isdecimal():
        name, arguments = "status", [name, *arguments]
    entry = _FAULTS.get(name)
    if entry is None:
        raise ValueError(f"unknown fault {name!r}; choose one of {', '.join(_FAULTS)}, or a status such as 429")
    if isinstance(entry, Fault):
        if arguments:
            raise ValueError(f"the fault {name!r} takes no value, but {text!r} has one")
        return entry
    values = [_number(value) if value.strip("-").replace(".", "", 1).isdecimal() else value for value in arguments]
    try:
        inspect.signature(entry).bind(*values)
    except TypeError as error:
        raise ValueError(f"the values in the fault {text!r} are invalid: {error}") from None
    fault: Fault = entry(*values)
    return fault


def _number(value: str) -> int | float:
    """Parse a number: a float if the text contains a decimal point, otherwise an integer."""
    return float(value) if "." in value else int(value)


def _bytes(reply: Reply) -> bytes:
    """Return the reply's body, or its stream without pauses, as bytes."""
    if reply.chunks is None:
        return reply.payload
    return b"".join(piece for piece in reply.pieces() if isinstance(piece, bytes))


def _as_body(reply: Reply) -> Reply:
    """Convert a streamed reply to one with a body. Other replies are unchanged."""
    if reply.chunks is None:
        return reply
    headers = {"Content-Type": "text/event-stream", **reply.headers}
    return replace(reply, body=_bytes(reply), chunks=None, done=False, headers=headers)


def _with_body(good: Reply, change: Callable[[bytes], bytes]) -> Reply:
    """Apply `change` to the reply's body. A stream becomes a single chunk."""
    data = change(_bytes(good))
    return replace(good, body=data) if good.chunks is None else replace(good, chunks=[data], done=False)


def _with_stream(good: Reply, change: Callable[[bytes], bytes]) -> Reply:
    """Return the reply with `change` applied to its stream. A reply without a stream is returned unchanged."""
    if good.chunks is None:
        return good
    data = _bytes(good)
    changed = change(data)
    return good if changed == data else replace(good, chunks=[changed], done=False)


def _with_chunks(good: Reply, pieces: Iterable[Any]) -> Reply:
    """Return a copy of the reply with the given stream and the same Content-Type."""
    kind = {"Content-Type": "application/json"} if good.chunks is None else {}
    return replace(good, body="", chunks=pieces, done=False, headers={**kind, **good.headers})


def _with_headers(good: Reply, headers: Mapping[str, str]) -> Reply:
    """Return a copy of the reply with the given headers, which replace those of the same name."""
    names = {name.lower() for name in headers}
    return replace(good, headers={**{k: v for k, v in good.headers.items() if k.lower() not in names}, **headers})


def _insert_invalid_bytes(data: bytes) -> bytes:
    """Return the data with two bytes that are not UTF-8 inserted at the start of the first string under `content` or
    `text`, or, if there is none, at the start of the first string.

    If there is no string, the bytes are inserted at the start of the data.
    """
    for mark in (b'"content": "', b'"text": "', b'"'):
        if mark in data:
            return data.replace(mark, mark + b"\xff\xfe", 1)
    return b"\xff\xfe" + data


def _with_comments(data: bytes) -> bytes:
    """Add a comment before a stream and after each event."""
    return b": a comment\n\n" + data.replace(b"\n\n", b"\n\n: ping\n\n")


_FAULTS: Final[Mapping[str, Any]] = {
    name: value
    for name, value in globals().items()
    if isinstance(value, Fault)
    or value in (status, error_in_body, content_type, content_length, slow_start, drip, oversized, bomb, redirect)
}
