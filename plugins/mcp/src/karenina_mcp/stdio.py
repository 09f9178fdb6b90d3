"""The transport for servers that a command starts, over their standard input and output.

This replaces the library's own transport, which buffers lines of any length, takes quadratic time to read them, writes
all of stderr to disk, and may leave a server's child processes running.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE
from typing import TYPE_CHECKING, Final

import anyio
from anyio.abc import ByteReceiveStream, Process
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest, jsonrpc_message_adapter

from karenina_core.text import replace_surrogates_in
from karenina_toolkit.replies.reply_bounds import MOST_VALUES, count_value_marks

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

    from karenina_toolkit.replies.reply_bounds import ReplyBounds

MOST_MESSAGES: Final = 10_000
"""The maximum number of lines that a server may write after a request."""
_GRACE: Final = 2.0
_POLL: Final = 0.01
_TAIL_BYTES: Final = 800
_FREE_STDERR: Final = 10_000_000
_PAUSE: Final = 0.01
_HALF_PAIR: Final = r"\ud"

Incoming = SessionMessage | Exception
Streams = tuple["MemoryObjectReceiveStream[Incoming]", "MemoryObjectSendStream[SessionMessage]"]


@dataclass(slots=True)
class Output:
    """The end of a server's stderr. `stopped` is the reason why the server was stopped, or None."""

    stopped: str | None = None
    _tail: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Add stderr output. Only the end of it is kept."""
        self._tail += chunk[-_TAIL_BYTES:]
        del self._tail[:-_TAIL_BYTES]

    def stderr_tail(self) -> str:
        """Return the end of stderr on a single line. Bytes that are not UTF-8 are replaced."""
        return " ".join(self._tail.decode("utf-8", "replace").split())


@asynccontextmanager
async def connect_stdio(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None,
    output: Output,
    bounds: ReplyBounds,
) -> AsyncIterator[Streams]:
    """Start a server in `folder`, by default the current one, with `environment` as its whole environment, yield the
    streams of its messages, and stop it and its process group at the end of the `with` block. It is disconnected if it
    writes more than `bounds` allows.

    The limits, including `MOST_MESSAGES` lines, begin anew with each request. `output` receives the reason and the
    server's stderr.
    """
    process = await anyio.open_process(
        list(command),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=folder,
        env=dict(environment),
        start_new_session=True,
    )
    # No await until the task group is entered: a cancellation here would leave the process running.
    to_session, from_server = anyio.create_memory_object_stream[Incoming](0)
    to_server, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    allowance = _Allowance(bounds.max_bytes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, to_session, allowance, output)
        tasks.start_soon(_write, process, from_session, to_session, allowance)
        tasks.start_soon(_read_stderr, process, output)
        try:
            yield from_server, to_server
        finally:
            with anyio.CancelScope(shield=True):
                for stream in (from_server, to_server, to_session, from_session):
                    await stream.aclose()
                await _end(process)
            tasks.cancel_scope.cancel()


@dataclass(slots=True)
class _Allowance:
    """The number of bytes and lines that a server may still write before the next request."""

    most_bytes: int
    bytes_left: int = field(init=False)
    messages_left: int = field(init=False)

    def __post_init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset the allowance when a new request is sent."""
        self.bytes_left, self.messages_left = self.most_bytes, MOST_MESSAGES

    def take(self, size: int, lines: int) -> str | None:
        """Count `size` bytes of output with this number of lines. Return an error message if there has been too much of
        it, otherwise None.
        """
        self.bytes_left -= size
        self.messages_left -= lines
        if self.bytes_left < 0:
            return f"the server sent more than {self.most_bytes} bytes after one request (max_reply_bytes)"
        return (
            f"the server sent more than {MOST_MESSAGES} messages after one request" if self.messages_left < 0 else None
        )


async def _read(
    process: Process, to_session: MemoryObjectSendStream[Incoming], allowance: _Allowance, output: Output
) -> None:
    """Pass the server's messages to the session until the output ends or becomes too much. If it becomes too much, the
    session ends, `output.stopped` contains the reason, and further output is discarded.
    """
    assert process.stdout is not None
    line = bytearray()
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        async with to_session:
            async for chunk in process.stdout:
                *whole, rest = chunk.split(b"\n")
                output.stopped = allowance.take(len(chunk), len(whole))
                if output.stopped is not None:
                    break
                for part in whole:
                    line += part
                    await to_session.send(_message(bytes(line)))
                    line.clear()
                line += rest
    await _drain(process.stdout)


async def _drain(stream: ByteReceiveStream) -> None:
    """Discard the rest of the output slowly, because a server that is blocked by a full pipe cannot exit."""
    with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        while True:
            await stream.receive()
            await anyio.sleep(_PAUSE)


def _message(line: bytes) -> Incoming:
    """Parse a line as a message. An invalid one gives a `ValueError`, which is returned instead of being raised. Half
    surrogate pairs, which servers write if they cut text, are replaced.
    """
    if len(line) > MOST_VALUES and count_value_marks(line) > MOST_VALUES:
        return ValueError(f"a message contains more than {MOST_VALUES} values")
    text = line.decode("utf-8", "replace")
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
    except ValueError as error:
        return _without_half_pairs(text) or error


def _without_half_pairs(text: str) -> SessionMessage | None:
    """Parse a message whose half surrogate pairs are replaced. Return None if it has none, or is invalid otherwise."""
    if _HALF_PAIR not in text.lower():
        return None
    with suppress(ValueError, RecursionError):
        whole = replace_surrogates_in(json.loads(text))
        return SessionMessage(jsonrpc_message_adapter.validate_python(whole, by_name=False))
    return None


async def _write(
    process: Process,
    from_session: MemoryObjectReceiveStream[SessionMessage],
    to_session: MemoryObjectSendStream[Incoming],
    allowance: _Allowance,
) -> None:
    """Pass the session's messages to the server. Each request renews the allowance. The session ends when the server
    can no longer be written to.
    """
    assert process.stdin is not None
    try:
        async with from_session:
            async for sent in from_session:
                if isinstance(sent.message, JSONRPCRequest):  # responses to the server's own requests do not count
                    allowance.renew()
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{text}\n".encode("utf-8", "replace"))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        await to_session.aclose()  # this ends the session


async def _read_stderr(process: Process, output: Output) -> None:
    """Add the server's stderr to `output`. After `_FREE_STDERR` bytes, it is read slowly."""
    assert process.stderr is not None
    size = 0
    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError, ConnectionError):
        async for chunk in process.stderr:
            output.add(chunk)
            size += len(chunk)
            if size > _FREE_STDERR:  # more would keep the event loop busy
                await anyio.sleep(_PAUSE)


async def _end(process: Process) -> None:
    """Close the server's input, wait up to `_GRACE` seconds for it to exit, and terminate its process group. Processes
    that have left the group keep running.
    """
    assert process.stdin is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    await _wait(process)
    if os.name == "posix":
        await terminate_posix_process_tree(process, _GRACE)
    elif process.returncode is None:
        process.kill()
    await _wait(process)
    # Processes that left the group may hold the pipes open; no public method closes them then.
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _wait(process: Process) -> None:
    """Wait until the process exits, but at most `_GRACE` seconds. Its pipes may still be open."""
    # Not `process.wait()`, which also waits for the pipes: a child process of the server may hold them open.
    with anyio.move_on_after(_GRACE):
        while process.returncode is None:  # noqa: ASYNC110 - there is no event for the end of a process
            await anyio.sleep(_POLL)
