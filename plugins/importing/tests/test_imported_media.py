"""Files in Inspect logs and promptfoo files, which become attachments of the imported questions."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
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


def test_a_sample_that_only_names_an_image_is_reported_with_the_cure(tmp_path: Path) -> None:
    asked = [{"role": "user", "content": [{"type": "text", "text": "Which?"}, {"type": "image", "image": "a.png"}]}]
    rows = [{"input": asked, "target": "3", "id": "a"}, {"input": "How many?", "target": "3", "id": "b"}]
    (tmp_path / "s.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")

    done = karenina("import", tmp_path / "s.jsonl", "-o", tmp_path / "doses.yaml")

    assert "name them in `attachments`" in " ".join(done.err.split())


URL = f"data:image/png;base64,{b64encode(PNG).decode()}"
ASKED = "Which dose is it?"


def asking(part: dict[str, Any]) -> str:
    """Return a prompt with the question and another content part."""
    return json.dumps([{"role": "user", "content": [{"type": "text", "text": ASKED}, part]}])


def attached_in(folder: Path, source: dict[str, Any]) -> list[bytes]:
    """Import a promptfoo file with one question, and return the contents of the question's attachments."""
    (folder / "source.json").write_text(json.dumps(source), "utf-8")
    done = karenina("import", folder / "source.json", "--from", "promptfoo", "-o", folder / "doses.yaml")
    assert done.code == 0, done.err
    (question,) = Benchmark.load(folder / "doses.yaml")
    assert question.question == ASKED
    return [(folder / file.source).read_bytes() for file in question.attachments]


def configured(prompt: str, image: Any) -> dict[str, Any]:
    asserted = [{"type": "contains", "value": "42"}]
    return {"prompts": [prompt], "providers": ["openai:m"], "tests": [{"vars": {"image": image}, "assert": asserted}]}


@pytest.mark.parametrize(
    ("image", "prompt"),
    [
        *((image, f"{ASKED} {{{{image}}}}") for image in (URL, "file://label.png", ["file://./label.png"])),
        ("file://label.png", asking({"type": "image_url", "image_url": {"url": "{{image}}"}})),
        (URL, asking({"type": "image_url", "image_url": {"url": "data:image/png;base64,{{ image }}"}})),
        (URL, asking({"type": "image", "source": {"type": "base64", "data": "{{image}}"}})),
    ],
)
def test_an_image_in_a_promptfoo_variable_is_attached(tmp_path: Path, image: Any, prompt: str) -> None:
    (tmp_path / "label.png").write_bytes(PNG)

    assert attached_in(tmp_path, configured(prompt, image)) == [PNG]


def test_a_file_that_no_prompt_uses_is_not_attached(tmp_path: Path) -> None:
    assert attached_in(tmp_path, configured(ASKED, URL)) == []


def test_a_promptfoo_image_that_stays_a_url_is_named(tmp_path: Path) -> None:
    source = configured(f"{ASKED} {{{{image}}}}", "https://example.org/label.png")
    (tmp_path / "source.json").write_text(json.dumps(source), "utf-8")

    done = karenina("import", tmp_path / "source.json", "--from", "promptfoo", "-o", tmp_path / "doses.yaml")

    assert done.code == 0, done.err
    assert "URLs of pictures, PDFs and sound are not fetched" in " ".join((done.out + done.err).split())


@pytest.mark.parametrize("name", ["missing.png", "text.png", "../outside.png"])
def test_a_promptfoo_image_that_cannot_be_read_is_reported(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "configuration"
    folder.mkdir()
    (folder / "text.png").write_text("not a picture", "utf-8")
    (tmp_path / "outside.png").write_bytes(PNG)
    (folder / "source.json").write_text(json.dumps(configured(f"{ASKED} {{{{image}}}}", f"file://{name}")), "utf-8")

    done = karenina("import", folder / "source.json", "--from", "promptfoo", "-o", folder / "doses.yaml")

    assert done.code != 0
    assert name in done.err
    assert not (folder / "doses.yaml").exists()


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_image", "image_url": URL},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64encode(PNG).decode()}},
        {"type": "file", "file": {"filename": "label.png", "file_data": URL}},
    ],
)
def test_an_image_in_a_promptfoo_result_is_attached(tmp_path: Path, part: dict[str, Any]) -> None:
    test = {"assert": [{"type": "contains", "value": "42"}]}
    prompt, answer = {"raw": asking(part), "label": "p"}, {"output": "It is 42."}
    result = {"prompt": prompt, "vars": {}, "success": True, "provider": "openai:m", "testCase": test}

    source = {"results": {"version": 3, "results": [{**result, "response": answer}]}}

    assert attached_in(tmp_path, source) == [PNG]
