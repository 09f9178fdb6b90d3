"""A client for local models that evaluates each prompt in two steps: its constant start, then the rest."""

from __future__ import annotations

import asyncio
import secrets
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final, TypeVar

from karenina_local.plain_text import PlainTextClient
from karenina_local.prompt_cache import Slot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Message
    from karenina_local.server import Address, LlamaServer
    from karenina_openai.client import Watch

T = TypeVar("T")
LEAST_CHARACTERS: Final = 400
"""The number of characters below which a start is evaluated faster than it is restored from a file."""


class SlotClient(PlainTextClient):
    """A client that waits for a free slot, and always evaluates the same prompt in the same batches.

    Otherwise, llama.cpp would reuse the start that a slot's previous prompt shares with the next one. The way in which
    a prompt is split into batches changes the last bits of its evaluation and, rarely, the reply, even at temperature
    0. Replies would then depend on earlier calls.
    """

    def __init__(
        self, model: ModelConfig, server: LlamaServer, address: Address, *, watch: Watch | None = None
    ) -> None:
        super().__init__(model, watch=watch)
        self._queue, self._prompts = server.queue, server.prompts
        self._address = address
        self._starts: dict[tuple[str, ...], str] = {}

    async def post(self, messages: Sequence[Message], wire: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Send messages like `PlainTextClient.post` when a slot is free. If they begin with long constant messages, the
        slot is first put into the state after these, unless there are `tools`, because the turns of a conversation
        continue each other. Raises `PortError` if a request fails.
        """
        constant = list(takewhile(lambda message: message.is_constant, messages[:-1]))
        is_short = sum(len(message.content) for message in constant) < LEAST_CHARACTERS
        async with self._queue.one() as slot:
            if "tools" in fields or (is_short and len(messages) > len(constant) + 1):
                # each turn of a conversation continues the last one, which llama.cpp finds in one of its slots
                return await super().post(messages, wire, **fields)
            if not is_short:
                await self._load_start(slot, constant, wire[: len(constant)])
                return await super().post(messages, wire, id_slot=slot, **fields)
            return await super().post(messages, wire, id_slot=slot, cache_prompt=False, **fields)

    async def _load_start(self, slot: int, messages: Sequence[Message], wire: Sequence[dict[str, Any]]) -> None:
        """Put a slot into the state after the constant messages, by restoring it or by evaluating and saving it. Raises
        `PortError` if a request fails.
        """
        start = await self._render_start(messages, wire)
        at = Slot(f"{self._address.url}/slots/{slot}", self._address.key)
        if await _to_its_end(self._prompts.restore, at, start):
            return
        await self._completions.post(messages, [], prompt=start, id_slot=slot, cache_prompt=False, n_predict=0)
        await _to_its_end(self._prompts.save, at, start)

    async def _render_start(self, messages: Sequence[Message], wire: Sequence[dict[str, Any]]) -> str:
        """Return the text of the prompt up to where the first message after `messages`, whose encoding is `wire`,
        begins. It is cached. Raises `PortError` if a request fails.
        """
        key = tuple(f"{message.role}:{message.content}" for message in messages)
        if key not in self._starts:
            mark = f"text{secrets.token_hex(12)}"
            reply = await self._template.post(messages, [*wire, {"role": "user", "content": mark}])
            self._starts[key] = str(reply["prompt"]).partition(mark)[0]
        return self._starts[key]


async def _to_its_end(call: Callable[[Slot, str], T], slot: Slot, start: str) -> T:
    """Run a call in a thread and return its result. If cancelled, wait for the call, because it uses the slot."""
    task = asyncio.ensure_future(asyncio.to_thread(call, slot, start))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
