"""Files in the results of tools: attached for models that understand them, and described for others."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

import pytest

from karenina_core.models.ports import Message, ToolCall
from karenina_toolkit.agents.tools import ToolResult, run_tool
from karenina_toolkit.attachments.files import AttachmentProblem, read_attachment, store_contents

PNG = b"\x89PNG\r\n\x1a\n-a picture"
CALL = ToolCall("1", "camera")


class Camera:
    name = "camera"
    description = "Takes a picture."
    schema: Mapping[str, Any] = {"type": "object", "properties": {}}

    async def call(self, arguments: Mapping[str, Any]) -> str:
        result = ToolResult("[image: not shown]")
        result.attachments, result.with_attachments = (store_contents("result-1", PNG),), "[image: attached]"
        return result


def answer(sees: Collection[str]) -> Message:
    return asyncio.run(run_tool(CALL, {"camera": Camera()}, sees))


def test_a_model_that_sees_gets_the_picture() -> None:
    message = answer({"image/png"})

    assert message.content == "[image: attached]"
    assert [read_attachment(file) for file in message.attachments] == [PNG]
    assert [file.name for file in message.attachments] == ["result-1.png"]


@pytest.mark.parametrize("sees", [(), ("image/jpeg", "application/pdf")])
def test_another_model_gets_a_description(sees: Collection[str]) -> None:
    message = answer(sees)

    assert (message.content, message.attachments) == ("[image: not shown]", ())


def test_contents_of_another_type_cannot_be_attached() -> None:
    with pytest.raises(AttachmentProblem):
        store_contents("result-1", b"<svg/>")
