"""A llama.cpp client that treats message text as plain text, even if it looks like a special token.

llama.cpp parses special tokens in the whole prompt, so an answer that contains `<|im_end|>` would end its turn. Most
messages have no special tokens and are sent as chat requests. For others, the chat template is applied to placeholders,
the template and the messages are tokenized separately, and the prompt is sent as tokens. Attachments cannot be sent in
this way, so prompts with both are refused.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import ErrorCategory, PortError
from karenina_openai.client import Client
from karenina_openai.settings import base_url_of
from karenina_toolkit.attachments.wire import has_attachments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import Message
    from karenina_openai.client import Watch

_MOST_KNOWN: Final = 512
_LONGEST_KNOWN: Final = 20_000


class PlainTextClient(Client):
    """A client for the server of one local model."""

    def __init__(self, model: ModelConfig, *, watch: Watch | None = None) -> None:
        super().__init__(model, watch=watch)
        root = model.model_copy(update={"endpoint_base_url": base_url_of(model).removesuffix("/v1")})
        self._tokenizer = Client(root, path="/tokenize")
        self._template = Client(root, path="/apply-template")
        self._completions = Client(root, path="/v1/completions", watch=watch)
        self._known: OrderedDict[str, None] = OrderedDict()

    async def post(self, messages: Sequence[Message], wire: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
        """Send messages like `Client.post`, but treat special tokens in their text as plain text. Raises `PortError` if
        a request fails, or if there are special tokens and attachments, which cannot be sent as tokens.
        """
        new = [text for text in dict.fromkeys(_texts(wire)) if text not in self._known]
        joined = "\n".join(new)
        if not new or await self._tokenize(messages, joined) == await self._tokenize(messages, joined, special=True):
            for text in new:
                self._remember(text)
            return await super().post(messages, wire, **fields)
        if has_attachments(messages):
            raise PortError(
                f"{self.where}: the prompt has attachments, and its text contains a special token of the model (such "
                "as <|im_end|>), which llama.cpp would not read as text; remove the token, or the attachments",
                category=ErrorCategory.PERMANENT,
            )
        prompt = await self._tokenize_chat(messages, wire, fields)
        reply = await self._completions.post(messages, [], prompt=prompt, **_completion_fields(fields))
        return _as_chat(reply)

    async def aclose(self) -> None:
        """Close the connections."""
        for client in (self._tokenizer, self._template, self._completions):
            await client.aclose()
        await super().aclose()

    def _remember(self, text: str) -> None:
        """Remember that a text contains no special tokens, because instructions and examples are the same in every
        request.

        Long texts are not remembered, and the oldest ones are dropped.
        """
        if len(text) <= _LONGEST_KNOWN:
            self._known[text] = None
        while len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    async def _tokenize(self, messages: Sequence[Message], text: str, *, special: bool = False) -> list[int]:
        """Return the tokens of `text`. Special tokens are treated as plain text unless `special` is set.

        `messages` are masked in errors.
        """
        reply = await self._tokenizer.post(messages, [], content=text, parse_special=special)
        tokens: list[int] = reply["tokens"]
        return tokens

    async def _tokenize_chat(
        self, messages: Sequence[Message], wire: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
    ) -> list[int]:
        """Return the tokens of a chat. Only the template's own special tokens are treated as special. `wire` is the
        encoded form of `messages`, and only `tools` is used from `fields`.
        """
        marks: dict[str, str] = {}
        marked = [_with_marks(message, marks) for message in wire]
        tools = {"tools": fields["tools"]} if "tools" in fields else {}
        rendered: str = (await self._template.post(messages, marked, **tools))["prompt"]
        tokens = await self._tokenize_start(messages)
        while rendered:
            at, mark = min(
                ((at, mark) for mark in marks if (at := rendered.find(mark)) >= 0), default=(len(rendered), "")
            )
            if at:
                tokens += await self._tokenize(messages, rendered[:at], special=True)
            if mark:
                tokens += await self._tokenize(messages, marks[mark])
            rendered = rendered[at + len(mark) :]
        return tokens

    async def _tokenize_start(self, messages: Sequence[Message]) -> list[int]:
        """Return the tokens at the start of every prompt."""
        reply = await self._tokenizer.post(messages, [], content="", add_special=True)
        tokens: list[int] = reply["tokens"]
        return tokens


def _texts(wire: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text in chat messages: contents, and names and arguments of tool calls."""
    for message in wire:
        content = message.get("content")
        if isinstance(content, list):
            yield from (part["text"] for part in content if part["type"] == "text")
        elif content is not None:
            yield content
        for call in message.get("tool_calls") or ():
            yield from (call["function"]["name"], call["function"]["arguments"])


def _with_marks(message: Mapping[str, Any], marks: dict[str, str]) -> dict[str, Any]:
    """Return a message with placeholders for its text, and add each placeholder with its text to `marks`. Whitespace
    around the text is kept. Tool calls become part of the text.
    """

    def mark_of(text: str) -> str:
        core = text.strip()
        mark = f"text{secrets.token_hex(12)}"
        marks[mark] = core
        return text.replace(core, mark, 1) if core else text

    marked = dict(message)
    if isinstance(marked.get("content"), str):
        marked["content"] = mark_of(marked["content"])
    if marked.get("tool_calls"):
        marked["content"] = marked["content"] or ""
        calls = [f"{call['function']['name']}({call['function']['arguments']})" for call in marked.pop("tool_calls")]
        marked["content"] += mark_of("\n".join(["", *calls]))
    return marked


def _completion_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the fields of a chat request to those of a completion request: without tools, and with the schema of
    `response_format`, if there is one, as `json_schema`, and the number of log-probabilities as `logprobs`.
    """
    completion = {
        name: value for name, value in fields.items() if name not in ("response_format", "tools", "tool_choice")
    }
    form = fields.get("response_format")
    if form is not None:
        completion["json_schema"] = form["json_schema"]["schema"]
    if completion.pop("logprobs", False):
        completion["logprobs"] = completion.pop("top_logprobs", 1)
    return completion


def _as_chat(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a completion in the format of a chat completion, with its text as the message of the assistant."""
    choices = [
        {**choice, "message": {"role": "assistant", "content": choice.get("text")}} for choice in reply["choices"]
    ]
    return {**reply, "choices": choices}
