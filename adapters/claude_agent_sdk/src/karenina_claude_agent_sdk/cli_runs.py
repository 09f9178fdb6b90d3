"""Running of the CLI for one model until there is a result, and the proxy for its requests.

The CLI sends its requests to a proxy on the loopback interface. Every request is therefore counted, errors are
classified by their status, and there are no hidden retries. The API key is not exposed to a process whose commands
could read it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from aiohttp import web

from karenina_claude_agent_sdk.cli import CLIError, CLISettings, Endpoint, start_cli
from karenina_claude_agent_sdk.conversion import WireMessage
from karenina_claude_agent_sdk.event_stream import PING, events_of
from karenina_claude_agent_sdk.messages_client import MessagesClient
from karenina_claude_agent_sdk.settings import extra_of
from karenina_core.models.ports import ErrorCategory, Message, PortError, Turn
from karenina_toolkit.attachments.wire import fill, has_attachments

if TYPE_CHECKING:
    import claude_agent_sdk

    from karenina_core.models.model import ModelConfig


_PING_SECONDS: Final = 10.0
_LONGEST_REQUEST: Final = 256 * 2**20

Answer = Callable[[WireMessage, Mapping[str, str]], Awaitable[WireMessage | None]]
"""A function that returns the reply to a request, or None if the run is over."""

T = TypeVar("T")


class ModelProxy:
    """A proxy for the requests of CLI runs. Each run has its own URL, and the first one starts the proxy.

    Runs in a sandbox, which has no network, reach it through a unix socket.
    """

    def __init__(self) -> None:
        self._runs: dict[str, Answer] = {}
        self._runner: web.ServerRunner | None = None
        self._starting = asyncio.Lock()
        self._url = ""
        self._folder: TemporaryDirectory[str] | None = None

    async def start(self, *, on_socket: bool) -> Path | None:
        """Start the proxy if it is not running. With `on_socket`, return the unix socket on which it then listens too,
        otherwise None. Raises `OSError` if it cannot listen.
        """
        async with self._starting:
            if self._runner is None:
                self._runner = await self._listen()
            if not on_socket:
                return None
            if self._folder is None:
                folder = TemporaryDirectory(prefix="karenina-", ignore_cleanup_errors=True)
                place = Path(folder.name, "model")
                await web.UnixSite(self._runner, place).start()
                # A sandbox may use another user id. Other users cannot enter the folder.
                await asyncio.to_thread(place.chmod, 0o666)
                self._folder = folder
            return Path(self._folder.name, "model")

    async def _listen(self) -> web.ServerRunner:
        """Listen on a free port of the loopback interface, store its URL, and return the running server. Raises
        `OSError` if that fails.
        """
        runner = web.ServerRunner(
            web.Server(self._serve, handler_cancellation=True, access_log=None), shutdown_timeout=0.1
        )
        try:
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        except BaseException:  # also if cancelled; the next run then starts it again
            await asyncio.shield(runner.cleanup())
            raise
        self._url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    @contextmanager
    def answering(self, answer: Answer) -> Iterator[str]:
        """Let `answer` reply to the requests of one run inside the block, and yield the run's base URL.

        Call `start` first.
        """
        name = secrets.token_urlsafe(24)
        self._runs[name] = answer
        try:
            yield f"{self._url}/{name}"
        finally:
            del self._runs[name]

    async def aclose(self) -> None:
        """Stop listening, and remove the folder of the socket. A later run would start the proxy again."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request with the reply of its run, or with status 404 if the run or path is unknown. If the run is
        over, there is no response.
        """
        name, _, path = request.path.lstrip("/").partition("/")
        answer = self._runs.get(name)
        if answer is None or request.method != "POST" or path != "v1/messages":
            error = {"type": "not_found_error", "message": "there is nothing here"}
            return web.json_response({"type": "error", "error": error}, status=404)
        request._client_max_size = _LONGEST_REQUEST
        body: WireMessage = await request.json()
        asked = asyncio.ensure_future(answer(body, request.headers))
        try:
            if not body.get("stream"):
                return web.json_response(await self._wait_for_reply(asked))
            return await self._stream(request, asked)
        finally:
            asked.cancel()

    async def _stream(self, request: web.BaseRequest, asked: asyncio.Future[WireMessage | None]) -> web.StreamResponse:
        """Send the reply as an event stream, with pings until `asked`, from which it comes, is done, and return the
        finished response.
        """
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await response.prepare(request)
        while not (await asyncio.wait([asked], timeout=_PING_SECONDS))[0]:
            await response.write(PING)
        for event in events_of(await self._wait_for_reply(asked)):
            await response.write(event)
        return response

    @staticmethod
    async def _wait_for_reply(asked: asyncio.Future[WireMessage | None]) -> WireMessage:
        """Return the reply or, if there is none because the run is over, wait until the CLI is ended.

        The wait ends because this task is cancelled then.
        """
        reply = await asked
        if reply is None:
            await asyncio.Event().wait()
            raise AssertionError
        return reply


class CLITask(Protocol[T]):
    """One run of the CLI, which answers its requests and decides when the run is over."""

    @property
    def end(self) -> asyncio.Future[T]:
        """A future with the run's result or a `PortError`."""

    async def answer(self, request: WireMessage, headers: Mapping[str, str]) -> WireMessage | None:
        """Return the reply to a request from the CLI, or None if the run is over."""

    def on_message(self, message: claude_agent_sdk.Message) -> None:
        """Handle a message from the CLI. May raise `CLIError` to end the run."""


class CLIRunner:
    """Runs the CLI for one model. Creating a runner does no I/O."""

    def __init__(self, model: ModelConfig) -> None:
        self.extra = extra_of(model)
        self.model_name = model.model_name or ""
        self.messages_client = MessagesClient(model)
        self.where = self.messages_client.where
        # Sampling parameters are refused for a model that thinks.
        self.thinking = self.extra.thinking or ("disabled" if model.temperature is not None else None)
        self._model_proxy = ModelProxy()

    async def run(self, setting: CLISettings, wire: Sequence[WireMessage], work: CLITask[T]) -> T:
        """Run the CLI on a conversation until `work.end` is done, and return its result or raise its `PortError`. Also
        raises `PortError` if the CLI fails, or if the last message is not from the user.
        """
        if not wire or wire[-1]["role"] != "user":
            raise PortError(
                f"{self.where}: the last message must be from the user because the Claude CLI answers only user "
                "messages",
                category=ErrorCategory.PERMANENT,
            )
        try:
            place = await self._model_proxy.start(on_socket=setting.sandbox is not None)
            with self._model_proxy.answering(work.answer) as url:
                async with start_cli(setting, Endpoint(url, place)) as cli:
                    await _run_until_done(cli.converse(wire), work)
        except CLIError as error:
            raise PortError(
                f"{self.where}: the Claude CLI failed: {error}",
                category=ErrorCategory.PERMANENT if error.lasting else ErrorCategory.SERVER,
            ) from None
        return work.end.result()

    async def aclose(self) -> None:
        """Close the proxy and the connections."""
        await self._model_proxy.aclose()
        await self.messages_client.aclose()


async def _run_until_done(received: AsyncGenerator[claude_agent_sdk.Message, None], work: CLITask[T]) -> None:
    """Handle the CLI's messages until the task ends. Raises `CLIError` if the CLI ends first."""

    async def listen() -> None:
        async with aclosing(received) as messages:
            async for message in messages:
                work.on_message(message)

    listening = asyncio.create_task(listen())
    try:
        over: list[asyncio.Future[Any]] = [work.end, listening]
        await asyncio.wait(over, return_when=asyncio.FIRST_COMPLETED)
        if not work.end.done():
            listening.result()
    finally:
        listening.cancel()
        await asyncio.wait([listening])


class SingleReply:
    """The task for ports that need a single reply, which is not passed on to the CLI.

    `fields` replace those in the CLI's request. If the prompt has attachments, they include its messages, because the
    CLI would scale pictures down.
    """

    def __init__(self, runner: CLIRunner, prompt: Sequence[Message], fields: WireMessage) -> None:
        self.end: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        self._runner = runner
        self._prompt = prompt
        self._fields = fields

    async def answer(self, request: WireMessage, headers: Mapping[str, str]) -> WireMessage | None:
        """Send the first request to the model, end the run with its reply or error, and return None: the CLI gets no
        reply. Later requests are ignored.
        """
        if not self.end.done():
            try:
                fields = await fill(self._fields) if has_attachments(self._prompt) else self._fields
                turn = await self._runner.messages_client.post({**request, **fields}, headers, self._prompt)
            except PortError as error:
                self.end.set_exception(error)
            else:
                self.end.set_result(turn)
        return None

    def on_message(self, message: claude_agent_sdk.Message) -> None:
        """Ignore a message. Raises `CLIError` if it says that the CLI has ended."""
        refuse_end(message)


def refuse_end(message: claude_agent_sdk.Message) -> None:
    """Raise `CLIError` if a message says that the CLI has ended. Normally, the port ends the run first."""
    from claude_agent_sdk import ResultMessage

    if isinstance(message, ResultMessage):
        why = message.result or "; ".join(message.errors or ()) or message.subtype
        raise CLIError(f"the process ended the run unexpectedly: {why}", lasting=True)
