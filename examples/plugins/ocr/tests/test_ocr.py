"""Ten doses are read from their pixels, and none without the pictures. Needs RapidOCR."""

import asyncio
import random
import re
from pathlib import Path

import pytest
from karenina_core import Message, ModelConfig
from karenina_core.models.attachments import Attachment
from karenina_toolkit.attachments.files import examine

pytest.importorskip("rapidocr")

from PIL import Image, ImageDraw, ImageFont

from ocr import OCR, text_of

DOSES = random.Random(4).sample(range(10, 1000), 10)


def label(folder: Path, dose: int) -> Attachment:
    """Return a picture of a label with this dose."""
    picture = Image.new("RGB", (420, 130), "white")
    font = ImageFont.load_default(size=34)
    ImageDraw.Draw(picture).text((20, 15), f"TAKE {dose} mg\nTWICE A DAY", fill="black", font=font)
    picture.save(folder / f"{dose}.png")
    return examine(Attachment.of(folder / f"{dose}.png"))


def ask(*files: Attachment) -> str:
    """Return what the model says about the files."""
    port = OCR(ModelConfig(id="m", interface="ocr.text", model_name="rapidocr"))
    return asyncio.run(port.invoke([Message("user", "Which dose?", attachments=files)])).text


def test_ten_doses_are_read_from_their_pixels(tmp_path: Path) -> None:
    said = [ask(label(tmp_path, dose)) for dose in DOSES]

    assert [int(re.findall(r"\d+", text)[0]) for text in said] == DOSES
    assert all("TWICE" in text.splitlines()[1] for text in said)


def test_without_a_picture_nothing_is_read() -> None:
    assert [ask() for _ in DOSES] == [""] * 10


def test_texts_are_joined_by_their_position() -> None:
    boxes = [[(90, 2), (0, 0), (99, 12)], [(5, 30), (0, 0), (60, 40)], [(5, 0), (0, 0), (60, 10)]]

    assert text_of(boxes, ["42 mg", "daily", "TAKE"]) == "TAKE 42 mg\ndaily"
