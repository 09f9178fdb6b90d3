"""The LLM and parser ports, which start llama.cpp and call it like any OpenAI-compatible server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from pydantic import SecretStr

from karenina_core.models.ports import NO_INFO, CallInfo, LLMReply, Message, ParserReply, Port, PortError
from karenina_local.recorded_replies import RecordedClient
from karenina_local.server import POOL, Address, LlamaServer, ServerSettings
from karenina_local.settings import settings_of
from karenina_local.slot_client import SlotClient
from karenina_local.store import find_model
from karenina_openai.parser import OpenAILLM, OpenAIParser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from karenina_core.models.model import ModelConfig
    from karenina_openai.client import NewClient

_ONE: Final = ("items", "additionalProperties", "not", "if", "then", "else", "contains")
_MANY: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED: Final = ("properties", "$defs", "definitions", "patternProperties")
_SETTLED: Final = ("const", "enum", "pattern", "format", "maxLength")
MAX_TOKENS: Final = 1024
"""The default for `max_tokens`, which is needed because small models do not always end their replies."""
NO_SERVER: Final = Address("http://127.0.0.1:9", "none")
"""The address for clients that open no connections."""

P = TypeVar("P", bound=Port)
P_co = TypeVar("P_co", bound=Port, covariant=True)
logger = logging.getLogger("karenina")


def limit_schema(schema: Mapping[str, Any], *, max_items: int, max_length: int) -> dict[str, Any]:
    """Return a copy of `schema` with the limits `max_items` for all arrays and `max_length` for all strings, but never
    less than `minItems` or `minLength`. Limits that are present stay, and strings with `enum`, `const`, `pattern` or
    `format` get none. Anything that is not a schema, such as a description, is unchanged.
    """
    limited = dict(schema)
    for key in _ONE:
        if isinstance(limited.get(key), Mapping):
            limited[key] = limit_schema(limited[key], max_items=max_items, max_length=max_length)
    for key in _MANY:
        if isinstance(limited.get(key), list):
            limited[key] = [
                limit_schema(inner, max_items=max_items, max_length=max_length) if isinstance(inner, Mapping) else inner
                for inner in limited[key]
            ]
    for key in _NAMED:
        if isinstance(limited.get(key), Mapping):
            limited[key] = {
                name: limit_schema(inner, max_items=max_items, max_length=max_length)
                if isinstance(inner, Mapping)
                else inner
                for name, inner in limited[key].items()
            }
    types = _schema_types(limited)
    if "array" in types and "maxItems" not in limited:
        limited["maxItems"] = max(max_items, limited.get("minItems", 0))
    if "string" in types and not any(key in limited for key in _SETTLED):
        limited["maxLength"] = max(max_length, limited.get("minLength", 0))
    return limited


def _schema_types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the types in a schema. There may be none."""
    kind = schema.get("type", ())
    return (kind,) if isinstance(kind, str) else tuple(kind)


@dataclass(frozen=True, slots=True)
class Speed:
    """Token counts and durations in milliseconds, summed over `calls`.

    Cached prompt tokens are not counted. Each call is timed separately, so concurrent calls look slower than they are
    together.
    """

    calls: int = 0
    read_tokens: int = 0
    read_ms: float = 0.0
    written_tokens: int = 0
    written_ms: float = 0.0

    @property
    def read_per_second(self) -> float | None:
        """Prompt tokens per second, or None if no tokens were read."""
        return 1000 * self.read_tokens / self.read_ms if self.read_ms > 0 else None

    @property
    def written_per_second(self) -> float | None:
        """Reply tokens per second, or None if no tokens were written."""
        return 1000 * self.written_tokens / self.written_ms if self.written_ms > 0 else None

    def __add__(self, other: Speed) -> Speed:
        return Speed(
            self.calls + other.calls,
            self.read_tokens + other.read_tokens,
            self.read_ms + other.read_ms,
            self.written_tokens + other.written_tokens,
            self.written_ms + other.written_ms,
        )

    def __sub__(self, other: Speed) -> Speed:
        """Return the speed of the calls made since the earlier value `other`."""
        return Speed(
            self.calls - other.calls,
            self.read_tokens - other.read_tokens,
            self.read_ms - other.read_ms,
            self.written_tokens - other.written_tokens,
            self.written_ms - other.written_ms,
        )

    def __str__(self) -> str:
        return (
            f"{_rate(self.read_per_second)} tokens/s read, {_rate(self.written_per_second)} tokens/s written "
            f"({self.calls} {'call' if self.calls == 1 else 'calls'}, {self.read_tokens} and "
            f"{self.written_tokens} tokens)"
        )


def speed_of(reply: Mapping[str, Any]) -> Speed:
    """Return the speed of one call, from `timings` in llama.cpp's reply. Without them, token counts are 0."""
    timings = reply.get("timings")
    if not isinstance(timings, Mapping):
        return Speed(calls=1)

    def number(key: str) -> float:
        value = timings.get(key)
        return float(value) if isinstance(value, (int, float)) and value > 0 else 0.0

    return Speed(1, int(number("prompt_n")), number("prompt_ms"), int(number("predicted_n")), number("predicted_ms"))


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


class ClientFactory(Protocol[P_co]):
    """A function that creates a client port for a model.

    `watch` is called with each reply from the server, and `client` creates the HTTP client.
    """

    def __call__(self, model: ModelConfig, *, watch: Callable[[Mapping[str, Any]], None], client: NewClient) -> P_co:
        """Return a new client port."""


class ServerClient(Generic[P]):
    """A model's server, which other ports may share, and the client ports that call it.

    The first call starts the server. If the server dies, it is started again at another URL with a new client. If
    replies are sampled, each replicate has its own seed and client, because the same seed would give the same answer.
    `speed` covers all replies and is logged at the end. If the model has a file of recorded replies, no server is used.
    """

    def __init__(self, model: ModelConfig, client: ClientFactory[P]) -> None:
        self.settings = settings = settings_of(model)
        self._model = model
        self._client = client
        self._source: LlamaServer | Path = settings.replies or POOL.acquire(
            ServerSettings(
                model=find_model(model.model_name).resolve(),
                slots=settings.slots,
                context=settings.context,
                threads=settings.threads,
                start_timeout=settings.start_timeout,
                # llama.cpp cannot save the slots of a model that reads images
                prompt_cache=settings.prompt_cache if settings.mmproj is None else 0,
                mmproj=settings.mmproj.resolve() if settings.mmproj is not None else None,
            )
        )
        self._clients: dict[tuple[Address, int], P] = {}
        self.speed = Speed()
        self._closed = False

    async def port(self, info: CallInfo) -> P:
        """Return the client for a call, which uses the seed of its replicate (with temperature 0, the same one),
        starting the server if necessary. Raises a permanent `PortError` if the server cannot be started.
        """
        new_client: NewClient
        if isinstance(self._source, LlamaServer):
            running = self._source.address_if_running()
            address = running if running is not None else await asyncio.to_thread(self._source.address)
            new_client = partial(SlotClient, server=self._source, address=address)
        else:
            address, new_client = NO_SERVER, partial(RecordedClient, file=self._source)
        seed = self.settings.seed + (0 if self._model.temperature == 0 else info.replicate - 1)
        if (address, seed) not in self._clients:
            config = self._client_config(address, seed)
            self._clients[address, seed] = self._client(config, watch=self._add_speed, client=new_client)
        return self._clients[address, seed]

    async def aclose(self) -> None:
        """Close the clients, release the server, which stops when its last user releases it, and log the speed."""
        if self._closed:
            return
        self._closed = True
        if self.speed.calls:
            logger.info("model %r (%s): %s", self._model.id, self._model.display_string, self.speed)
        try:
            for client in self._clients.values():
                await client.aclose()
        finally:
            if isinstance(self._source, LlamaServer):
                await asyncio.to_thread(POOL.release, self._source)

    def with_hint(self, error: PortError) -> PortError:
        """Return `error`, with a hint about the context size if the server rejected the request (status 400).

        Such a request is usually too long.
        """
        if error.status != 400:
            return error
        return PortError(
            f"{error} (the prompt and reply of this model can have at most {self.settings.context} tokens in total; "
            "raise `context` in the model's `extra`)",
            category=error.category,
            status=error.status,
            partial=error.partial,
            usage=error.usage,
        )

    def _add_speed(self, reply: Mapping[str, Any]) -> None:
        self.speed += speed_of(reply)

    def _client_config(self, address: Address, seed: int) -> ModelConfig:
        """Return the model's configuration for the server at `address` and the given sampling seed."""
        changed = {
            "endpoint_base_url": f"{address.url}/v1",
            "endpoint_api_key": SecretStr(address.key),
            "max_tokens": self._model.max_tokens or MAX_TOKENS,
            "extra": {
                "structured": "json_schema",
                "max_tokens_field": "max_tokens",
                "max_concurrency": self.settings.slots,
                "option_logprobs": True,
                "body": {"seed": seed},
            },
        }
        return self._model.model_copy(update=changed)


class LocalLLM:
    """The LLM port for local models."""

    def __init__(self, model: ModelConfig) -> None:
        self._local: ServerClient[OpenAILLM] = ServerClient(model, OpenAILLM)

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Send messages and return the reply. The first call waits until the model is loaded.

        Raises `PortError` if the server cannot be started or the call fails.
        """
        port = await self._local.port(info)
        try:
            return await port.invoke(messages, info=info)
        except PortError as error:
            raise self._local.with_hint(error) from error

    @property
    def speed(self) -> Speed:
        """The total speed of the replies so far."""
        return self._local.speed

    async def aclose(self) -> None:
        """Release the server."""
        await self._local.aclose()


class LocalParser:
    """The parser port for local models. The schema constrains decoding, so every complete reply fits it.

    A reply that was cut off (`finish_reason` "length") may not fit. Lists and strings without a limit get one (see
    `LocalSettings`), and the default temperature is 0.
    """

    def __init__(self, model: ModelConfig) -> None:
        # A run sets 0 for the judges of every adapter. This is for a port that is used outside a run: llama.cpp would
        # sample with its own default temperature.
        cold = model if model.temperature is not None else model.model_copy(update={"temperature": 0.0})
        self._local: ServerClient[OpenAIParser] = ServerClient(cold, OpenAIParser)

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        """Request a JSON object, and return the reply, which fits `schema` unless it was cut off. The first call waits
        until the model is loaded. Raises `PortError` if the server cannot be started or the call fails.
        """
        settings = self._local.settings
        limited = limit_schema(schema, max_items=settings.max_list_items, max_length=settings.max_string_length)
        port = await self._local.port(info)
        try:
            return await port.parse(messages, limited, info=info)
        except PortError as error:
            raise self._local.with_hint(error) from error

    async def aclose(self) -> None:
        """Release the server."""
        await self._local.aclose()
