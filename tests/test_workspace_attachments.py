"""Pictures that agents leave in their workspaces, and judges of traits who see them."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from karenina_cli.app import build_app
from karenina_core.models.ports import ToolCall
from karenina_testing.server import Request, Say, ScriptedServer, Side

GIF = "GIF89a, drawn by the agent"
TRAIT = {"name": "bars", "type": "llm", "kind": "boolean", "description": "The plot has three bars"}
JUDGED = '{"reasoning": "r", "score": true}'


def agent(**files: str) -> Any:
    """Return a model that writes these files, and then answers. In names, `_` stands for a dot."""
    steps = [
        Say(calls=[ToolCall(f"c_{name}", "write_file", {"path": name.replace("_", "."), "content": content})])
        for name, content in files.items()
    ]

    def reply(request: Request) -> Any:
        done = sum(message["role"] == "assistant" for message in request.body["messages"])
        return steps[done] if done < len(steps) else "Drawn."

    return Side(reply)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "root/task").mkdir(parents=True)
    (tmp_path / "root/task/given.gif").write_text("GIF89a, given", "utf-8")
    return write(tmp_path, glob="*.gif")


def write(folder: Path, *, glob: str = "*.gif", **changes: Any) -> Path:
    question = {"id": "plot", "question": "Draw a plot with three bars.", "workspace_path": "task", **changes}
    trait = {**TRAIT, "attachments": {"from": "workspace", "glob": glob}}
    content = {"karenina": 1, "name": "Plots", "workspace_root": "root", "questions": [question], "rubric": [trait]}
    (folder / "plots.yaml").write_text(json.dumps(content), "utf-8")
    return folder / "plots.yaml"


def karenina(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    return done.exit_code, " ".join(done.output.split())


def run(server: ScriptedServer, file: Path, *more: object, media: Any = ("image/*",)) -> tuple[int, Any, str]:
    """Run the benchmark, and return the exit code, the result or None, and the output."""
    answering = {"id": "m", "interface": "openai", "model_name": "m", "endpoint_base_url": f"{server.url}/v1"}
    judge = {"id": "j", "interface": "openai", "model_name": "j", "endpoint_base_url": f"{server.url}/judge/v1"}
    output = file.parent / "r.jsonl"
    output.unlink(missing_ok=True)
    code, printed = karenina(
        *("run", file, "-o", output, "--journal", file.parent / "r.journal", "--trust-all", "--sandbox", "none"),
        *("--set", "evaluation_mode=rubric_only", "--set", f"answering_models={json.dumps([answering])}"),
        *("--set", f"parsing_models={json.dumps([{**judge, 'extra': {'media': list(media)}}])}", *more),
    )
    lines = [json.loads(line) for line in output.read_text("utf-8").splitlines()] if output.exists() else []
    return code, next((line for line in lines if "row" in line), None), printed


def judged(server: ScriptedServer) -> list[Any]:
    """Return the content of each request to the judge."""
    requests = [entry.request for entry in server.log if entry.request.path.startswith("/judge")]
    return [request.body["messages"][-1]["content"] for request in requests]


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(agent(plot_gif=GIF, notes_txt="n"), judge=Side(JUDGED)) as server:
        yield server


def test_the_judge_sees_what_the_agent_drew(server: ScriptedServer, file: Path) -> None:
    _, result, _ = run(server, file)

    ((picture, text),) = judged(server)
    assert picture["image_url"]["url"] == f"data:image/gif;base64,{b64encode(GIF.encode()).decode()}"
    assert f'"plot.gif": image/gif, {len(GIF)} bytes' in text["text"]
    assert "given.gif" not in text["text"]
    assert result["rubric"]["llm_trait_scores"] == {"bars": True}
    assert [kept["name"] for kept in result["metadata"]["files"]] == ["plot.gif"]


def test_a_replay_needs_no_workspace(server: ScriptedServer, file: Path) -> None:
    run(server, file)
    before, calls = (file.parent / "r.jsonl").read_bytes(), len(server.log)

    code, _, printed = run(server, file, "--replay")

    assert code == 0, printed
    assert (file.parent / "r.jsonl").read_bytes() == before
    assert len(server.log) == calls


def test_another_judge_sees_the_stored_picture(server: ScriptedServer, file: Path) -> None:
    run(server, file)
    changed = {**TRAIT, "description": "The plot has two bars", "attachments": {"from": "workspace", "glob": "*"}}
    content = json.loads(file.read_text("utf-8"))
    file.write_text(json.dumps({**content, "rubric": [changed]}), "utf-8")
    calls = len(server.log)

    run(server, file)

    assert len(server.log) == calls + 1
    assert b64encode(GIF.encode()).decode() in json.dumps(judged(server)[-1])
    assert '"notes.txt": not attached' in json.dumps(judged(server)[-1]).replace("\\", "")


def test_the_judge_is_told_of_a_missing_file(file: Path) -> None:
    with ScriptedServer(agent(), judge=Side(JUDGED)) as server:
        _, result, _ = run(server, file)

        (text,) = judged(server)
        assert 'left no file that matches "*.gif" in its workspace' in text
        assert result["rubric"]["llm_trait_scores"] == {"bars": True}


def test_a_judge_who_cannot_read_a_file_leaves_the_trait_undecided(server: ScriptedServer, tmp_path: Path) -> None:
    (tmp_path / "root/task").mkdir(parents=True)

    _, result, _ = run(server, write(tmp_path, glob="plot*"), media=["image/png"])

    assert not judged(server)
    assert "the judge 'j' cannot read image/gif" in result["rubric"]["trait_errors"]["bars"]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"workspace_path": None}, "the question has no workspace_path"),
        ({"glob": "*.svg"}, "files that match '*.svg' cannot be sent"),
        ({"glob": "../*.png"}, "relative to the workspace"),
        ({"glob": "*.pdf"}, "the judge 'j' cannot read application/pdf"),
    ],
)
def test_files_that_no_judge_can_get_are_refused(
    server: ScriptedServer, file: Path, changes: dict[str, Any], why: str
) -> None:
    code, _, printed = run(server, write(file.parent, **changes))

    assert code == 2
    assert why in printed
    assert not server.log


def test_the_plugin_that_records_workspaces_is_named(server: ScriptedServer, file: Path) -> None:
    (file.parent / "k.toml").write_text('[plugins]\nblock = ["karenina-sandbox"]\n', "utf-8")
    judge = {"id": "j", "interface": "openai", "model_name": "j", "endpoint_base_url": f"{server.url}/judge/v1"}

    code, printed = karenina(
        *("run", file, "--config", file.parent / "k.toml", "-a", f"openai:m@{server.url}/v1", "--trust-all"),
        *("--set", "evaluation_mode=rubric_only", "--set", f"parsing_models={json.dumps([judge])}"),
    )

    assert code == 2
    assert "karenina-sandbox" in printed


def test_a_budget_needs_the_price_of_pictures_for_the_judge(server: ScriptedServer, file: Path) -> None:
    prices = 'prices={"m": {"input": 1, "output": 4}, "j": {"input": 1, "output": 4}}'

    code, _, printed = run(server, file, "--set", prices, "--budget", "1")

    assert code == 2
    assert "the tokens that 'j' counts for image/" in printed


def test_the_plan_states_what_the_judge_can_read(file: Path) -> None:
    _, printed = karenina("plan", file, "-j", "openai:gpt-4o", "--set", "evaluation_mode=rubric_only")

    assert "Attachments: gpt-4o: images, PDFs: yes (known from the model's name)" in printed


def test_reports_and_exports_have_the_picture(server: ScriptedServer, file: Path) -> None:
    run(server, file)
    results = file.parent / "r.jsonl"

    _, shown = karenina("show", results)
    karenina("report", results, "-o", file.parent / "report.html")
    karenina("export", results, "-o", file.parent / "r.csv", "--files", file.parent / "files")

    assert "plot.gif (image/gif" in shown
    (chunk,) = re.findall(r'id="karenina-chunk-0">([^<]*)<', (file.parent / "report.html").read_text("utf-8"))
    assert b64encode(GIF.encode()) in gzip.decompress(b64decode(chunk))
    assert [path.read_text("utf-8") for path in (file.parent / "files").rglob("plot.gif")] == [GIF]
