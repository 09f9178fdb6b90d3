"""Files in the messages of Inspect logs, which become attachments of the imported questions."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

from imports import karenina

from karenina_benchmark.benchmark import Benchmark

PNG = b"\x89PNG\r\n\x1a\n-a picture"


def write_log(folder: Path, image: str) -> Path:
    parts = [{"type": "text", "text": "Which dose is it?"}, {"type": "image", "image": image}]
    sample = {"id": 1, "input": [{"role": "user", "content": parts}], "target": "42"}
    (folder / "log.json").write_text(json.dumps({"version": 2, "status": "success", "samples": [sample]}), "utf-8")
    return folder / "log.json"


def test_an_image_becomes_a_file_beside_the_benchmark(tmp_path: Path) -> None:
    log = write_log(tmp_path, f"data:image/png;base64,{b64encode(PNG).decode()}")

    done = karenina("import", log, "--from", "inspect", "-o", tmp_path / "doses.yaml")

    assert done.code == 0, done.err
    (question,) = Benchmark.load(tmp_path / "doses.yaml")
    assert question.question == "Which dose is it?"
    assert [(tmp_path / file.source).read_bytes() for file in question.attachments] == [PNG]


def test_an_image_that_is_only_named_is_reported(tmp_path: Path) -> None:
    log = write_log(tmp_path, "https://example.org/a.png")

    done = karenina("import", log, "--from", "inspect", "-o", tmp_path / "doses.yaml")

    assert "not only text" in done.err
    assert "attachments" in done.err
    assert not (tmp_path / "doses.yaml").exists()
