"""A whole run about ten doses: a server reads them from the pixels that it gets, and none without the pictures.

Needs RapidOCR and Karenina's tools (`tox -e ocr`).
"""

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rapidocr")
pytest.importorskip("karenina_cli")

from karenina_cli.app import build_app
from karenina_testing.server import ScriptedServer, Side
from rapidocr import RapidOCR
from test_ocr import DOSES, label
from typer.testing import CliRunner


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    """Provide a server that answers with the text in the pictures, and a judge that finds the dose in the answer."""
    engine = RapidOCR()

    def answer(request) -> str:
        contents = [message["content"] for message in json.loads(request.text)["messages"]]
        parts = [part for content in contents if isinstance(content, list) for part in content]
        urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        texts = [engine(b64decode(url.partition(",")[2])).txts or () for url in urls]
        return " ".join(text for one in texts for text in one) or "UNKNOWN"

    def judge(request) -> str:
        response = json.loads(request.text)["messages"][-1]["content"].rpartition("<response")[2]
        found = re.search(r"TAKE\s*(\d+)", response)
        return json.dumps({"dose": int(found[1]) if found else None})

    with ScriptedServer(Side(answer), judge=Side(judge)) as server:
        yield server


def run(folder: Path, answering: str, judge: str, *, attached: bool) -> list[str]:
    """Run the ten questions, and return the outcomes."""
    questions = []
    for dose in DOSES:
        label(folder, dose)
        truth = {"dose": {"description": "The dose in mg", "ground_truth": dose}}
        files = {"attachments": [f"{dose}.png"]} if attached else {}
        questions.append({"id": str(dose), "question": f"Which dose is on label {dose % 7}?", "answer": truth, **files})
    text = json.dumps({"karenina": 1, "name": "Doses", "questions": questions})  # JSON is YAML
    (folder / "doses.yaml").write_text(text, "utf-8")
    command = ["run", "doses.yaml", "--set", f"answering_models={answering}", "-j", judge, "-o", "results.jsonl"]
    done = CliRunner().invoke(build_app(), [*command, "--set", "max_concurrency=1"])
    assert done.exit_code == 0, done.output
    lines = map(json.loads, (folder / "results.jsonl").read_text().splitlines())
    return [line["outcome"] for line in lines if "row" in line]


@pytest.mark.parametrize("attached", [True, False])
def test_ten_doses_are_correct_with_the_pictures_only(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attached: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    model = {"id": "ocr", "interface": "openai", "model_name": "rapidocr", "endpoint_base_url": f"{server.url}/v1"}
    model |= {"extra": {"media": ["image/*"]}, "request_timeout": 600}

    outcomes = run(tmp_path, json.dumps([model]), f"openai:j@{server.url}/judge/v1", attached=attached)

    assert len(outcomes) == 10
    assert outcomes.count("correct") == (10 if attached else 0)
