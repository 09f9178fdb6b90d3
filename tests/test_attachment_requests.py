"""The requests with attachments that adapters send, checked against the types of the official SDKs."""

from __future__ import annotations

import asyncio
import json
import struct
import zlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from karenina_core import ModelConfig
from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import AgentOptions, Message, PortError, ToolCall
from karenina_core.plugins import active_plugins
from karenina_testing.server import ScriptedServer
from karenina_toolkit.attachments.files import examine
from karenina_toolkit.plugin_lookup import find_adapter

CONTENTS = {
    "plot.png": b"\x89PNG\r\n\x1a\n-plot",
    "scan.pdf": b"%PDF-1.7 scan",
    "said.wav": b"RIFF\x10\0\0\0WAVEfmt ",
    "said.mp3": b"ID3\4\0\0\0\0\0\0",
}
CALL = ToolCall("c1", "camera", {"of": "door"})


@cache
def openai_messages() -> TypeAdapter[Any]:
    """Return the type of messages of OpenAI's SDK, whose import takes a second."""
    from openai.types.chat import ChatCompletionMessageParam

    return TypeAdapter(list[ChatCompletionMessageParam])


@cache
def anthropic_messages() -> TypeAdapter[Any]:
    """Return the type of messages of Anthropic's SDK."""
    from anthropic.types import MessageParam

    return TypeAdapter(list[MessageParam])


def encoded(name: str) -> str:
    return b64encode(CONTENTS[name]).decode()


def requests(interface: str, messages: Sequence[Message], provider: str | None = None) -> list[Any]:
    """Return the messages that an adapter sends to a server."""
    path = "" if "claude" in interface or provider == "anthropic" else "/v1"
    with ScriptedServer("ok") as server:
        model = ModelConfig(
            id="m",
            interface=interface,
            model_name="m",
            model_provider=provider,
            endpoint_base_url=f"{server.url}{path}",
            endpoint_api_key="key",
        )

        async def ask() -> None:
            make = find_adapter(active_plugins(), interface).spec.llm
            assert make is not None
            port = make(model)
            try:
                await port.invoke(messages)
            finally:
                await port.aclose()

        asyncio.run(ask())
        (entry,) = [entry for entry in server.log if entry.request.method == "POST"]
    sent: list[Any] = json.loads(entry.request.text)["messages"]
    return sent


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Attachment]:
    for name, data in CONTENTS.items():
        (tmp_path / name).write_bytes(data)
    return {name: examine(Attachment.of(tmp_path / name)) for name in CONTENTS}


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint"])
def test_chat_completions_carry_images_pdfs_and_sound(files: dict[str, Attachment], interface: str) -> None:
    sent = requests(interface, [Message("user", "What is it?", attachments=tuple(files.values()))])

    url = f"data:image/png;base64,{encoded('plot.png')}"
    pdf = {"filename": "attachment-2.pdf", "file_data": f"data:application/pdf;base64,{encoded('scan.pdf')}"}
    assert sent == [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "file", "file": pdf},
                {"type": "input_audio", "input_audio": {"data": encoded("said.wav"), "format": "wav"}},
                {"type": "input_audio", "input_audio": {"data": encoded("said.mp3"), "format": "mp3"}},
                {"type": "text", "text": "What is it?"},
            ],
        }
    ]
    openai_messages().validate_python(sent, strict=True)


@pytest.mark.parametrize(("interface", "provider"), [("claude_tool", None), ("langchain", "anthropic")])
def test_the_messages_api_carries_images_and_pdfs(
    files: dict[str, Attachment], interface: str, provider: str | None
) -> None:
    attached = (files["plot.png"], files["scan.pdf"])

    sent = requests(interface, [Message("user", "What is it?", attachments=attached)], provider)

    image, document, text = sent[0]["content"]
    assert image == {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": encoded("plot.png")},
    }
    assert document["source"] == {"type": "base64", "media_type": "application/pdf", "data": encoded("scan.pdf")}
    assert "scan" not in json.dumps(sent)
    assert text["text"] == "What is it?"
    anthropic_messages().validate_python(sent, strict=True)


def test_the_claude_cli_changes_neither_images_nor_pdfs(files: dict[str, Attachment]) -> None:
    attached = (files["plot.png"], files["scan.pdf"])

    sent = requests("claude_agent_sdk", [Message("user", "What is it?", attachments=attached)])

    assert [block["type"] for block in sent[0]["content"]] == ["image", "document", "text"]
    assert [block["source"]["data"] for block in sent[0]["content"][:2]] == [encoded("plot.png"), encoded("scan.pdf")]
    assert sent[0]["content"][1]["title"] == "attachment-2.pdf"
    anthropic_messages().validate_python(sent, strict=True)


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint", "claude_tool"])
def test_attachments_of_tool_results_are_sent(files: dict[str, Attachment], interface: str) -> None:
    messages = [
        Message.user("Who is at the door?"),
        Message.assistant("", [CALL]),
        Message("tool", "a photo", tool_call_id="c1", tool_name="camera", attachments=(files["plot.png"],)),
    ]

    sent = requests(interface, messages)

    if interface == "claude_tool":
        (result,) = sent[-1]["content"]
        assert [block["type"] for block in result["content"]] == ["text", "image"]
        anthropic_messages().validate_python(sent, strict=True)
    else:
        assert sent[-2]["content"] == "a photo"
        assert [part["type"] for part in sent[-1]["content"]] == ["text", "image_url"]
        openai_messages().validate_python(sent, strict=True)


@pytest.mark.parametrize("interface", ["openai", "openai_endpoint", "claude_tool"])
def test_requests_without_attachments_contain_plain_texts(interface: str) -> None:
    sent = requests(interface, [Message.system("Be brief."), Message.user("Hi")])

    assert "Hi" in (sent[-1]["content"], sent[-1]["content"][0].get("text") if interface == "claude_tool" else None)


@pytest.mark.release
@pytest.mark.parametrize("damaged", [False, True])
def test_the_agent_of_the_claude_cli_sees_whole_pictures_only(tmp_path: Path, damaged: bool) -> None:
    pixels = zlib.compress(b"\0\xff\xff\xff")
    header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", b"damaged" if damaged else pixels), (b"IEND", b"")]
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    (tmp_path / "dot.png").write_bytes(b"\x89PNG\r\n\x1a\n" + (b"" if damaged else b"".join(parts)))
    picture = examine(Attachment.of(tmp_path / "dot.png"))

    with ScriptedServer("a dot") as server:
        model = ModelConfig(
            id="m", interface="claude_agent_sdk", model_name="m", endpoint_base_url=server.url, endpoint_api_key="key"
        )

        async def ask() -> str:
            make = find_adapter(active_plugins(), "claude_agent_sdk").spec.agent
            assert make is not None
            port = make(model)
            try:
                reply = await port.run([Message("user", "What is it?", attachments=(picture,))], AgentOptions())
            finally:
                await port.aclose()
            return reply.trace[-1].content

        if damaged:
            with pytest.raises(PortError, match="left out an attachment"):
                asyncio.run(ask())
            assert not server.log
        else:
            assert asyncio.run(ask()) == "a dot"
            assert b64encode((tmp_path / "dot.png").read_bytes()).decode() in next(iter(server.log)).request.text
