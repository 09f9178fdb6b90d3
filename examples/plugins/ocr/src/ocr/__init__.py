"""An adapter that reads the text in the attached pictures with RapidOCR, whose models are in its wheel.

It needs no key and no network, so it shows what a model under test could see. It understands no question: its answer is
the text of all pictures of the last message, from top to bottom and from left to right.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from karenina_core import AdapterSpec, Message, ModelConfig, hookimpl
from karenina_core.models.attachments import MediaLimit
from karenina_core.models.ports import NO_INFO, CallInfo, ErrorCategory, LLMReply, PortError, Usage
from karenina_toolkit.attachments.files import read_attachment
from karenina_toolkit.attachments.media_types import MAX_FILE

READS = ("image/png", "image/jpeg", "image/webp")


class OCR:
    """The port for text."""

    def __init__(self, model: ModelConfig) -> None:
        self.where = model.display_string

    async def invoke(self, messages: Sequence[Message], *, info: CallInfo = NO_INFO) -> LLMReply:
        """Return the text in the pictures of the last message. Raises `PortError` if a picture cannot be read."""
        texts = [await asyncio.to_thread(self.read, read_attachment(file)) for file in messages[-1].attachments]
        return LLMReply("\n".join(filter(None, texts)), Usage(calls=1))

    def read(self, picture: bytes) -> str:
        """Return the text in a picture. Raises `PortError` if it is damaged."""
        try:
            found = engine()(picture)
        except Exception as error:
            raise PortError(f"{self.where}: {error}", category=ErrorCategory.PERMANENT) from error
        return text_of(() if found.boxes is None else found.boxes, found.txts or ())

    async def aclose(self) -> None:
        """Do nothing: nothing is open between calls."""


@cache
def engine() -> Any:
    """Load the models, once."""
    from rapidocr import RapidOCR

    return RapidOCR(params={"Global.log_level": "warning"})


def text_of(boxes: Sequence[Any], texts: Sequence[str]) -> str:
    """Return texts in the order in which they stand. A box has four corners."""
    placed = sorted(
        (float(box[0][1]), float(box[2][1]), float(box[0][0]), text) for box, text in zip(boxes, texts, strict=True)
    )
    lines: list[list[tuple[float, str]]] = []
    middle = float("-inf")
    for top, bottom, left, text in placed:
        if top > middle:  # it begins below the middle of the line before it
            lines.append([])
            middle = (top + bottom) / 2
        lines[-1].append((left, text))
    return "\n".join(" ".join(text for _, text in sorted(line)) for line in lines)


def media(_model: ModelConfig) -> Mapping[str, MediaLimit]:
    """Return the pictures that it reads. They cost nothing."""
    return dict.fromkeys(READS, MediaLimit(MAX_FILE, 1))


def unavailable() -> str | None:
    """Return how RapidOCR is installed, if it is missing."""
    return None if find_spec("rapidocr") else "RapidOCR is not installed: pip install rapidocr onnxruntime"


@hookimpl
def karenina_adapters() -> list[AdapterSpec]:
    """Provide the interface `ocr.text`."""
    return [
        AdapterSpec(
            interface="ocr.text",
            description="The text in the attached pictures, read by RapidOCR on this machine.",
            llm=OCR,
            free=True,
            uses=(),
            media=media,
            unavailable=unavailable,
            concurrency=lambda _model: 1,
            allowed_in_files=True,  # a benchmark may choose it: it starts no program and opens no connection
        )
    ]
