"""Runs of questions with attachments: what is sent, what is stored, and what happens if a file cannot be sent."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from karenina import Benchmark
from karenina_cli.app import build_app
from karenina_core import VerificationConfig
from karenina_engine.journal.view import JournalView
from karenina_testing.server import Reply, Request, ScriptedServer, Side, faults

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
OTHER = PNG + b"another picture"
ASKED = "Which dose does the label show?"
BENCHMARK = f"""
karenina: 1
name: Labels
questions:
  - id: label
    question: {ASKED}
    attachments: [images/label.png]
    answer: {{dose: {{description: The dose, ground_truth: 42}}}}
"""
JUDGED = '{"dose": 42, "reasoning": "r", "score": true}'
DECLARED = {"media": ["image/*"]}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(Side("It is 42."), judge=Side(JUDGED)) as server:
        yield server


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    (tmp_path / "images/label.png").write_bytes(PNG)
    (tmp_path / "labels.yaml").write_text(BENCHMARK, "utf-8")
    return tmp_path / "labels.yaml"


def karenina(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(build_app(), [str(argument) for argument in arguments])
    return done.exit_code, done.output


def run(
    server: ScriptedServer, file: Path, *more: object, extra: Any = DECLARED, model: str = "m"
) -> tuple[int, list[dict[str, Any]], str]:
    """Run a benchmark, and return the exit code, the result lines and the output."""
    answering = {"id": "m", "interface": "openai", "model_name": model, "endpoint_base_url": f"{server.url}/v1"}
    judge = {"id": "j", "interface": "openai", "model_name": "j", "endpoint_base_url": f"{server.url}/judge/v1"}
    output = file.parent / "results.jsonl"
    output.unlink(missing_ok=True)
    code, printed = karenina(
        *("run", file, "--set", f"answering_models={json.dumps([{**answering, 'extra': extra}])}"),
        *("--set", f"parsing_models={json.dumps([{**judge, 'extra': DECLARED}])}"),
        *("-o", output, *more),
    )
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    return code, [line for line in map(json.loads, lines) if "row" in line], printed


def sent(server: ScriptedServer, side: str = "answer") -> list[str]:
    """Return the bodies of the requests to the model under test or to the judge."""
    return [entry.request.text for entry in server.log if entry.request.path.startswith("/judge") is (side == "judge")]


def test_a_picture_reaches_the_model_but_not_the_judge(server: ScriptedServer, file: Path) -> None:
    code, (result,), _ = run(server, file)

    encoded = b64encode(PNG).decode()
    assert code == 0
    assert result["outcome"] == "correct"
    assert json.loads(sent(server)[0])["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}},
                {"type": "text", "text": ASKED},
            ],
        }
    ]
    assert encoded not in sent(server, "judge")[0]
    assert "image" not in sent(server, "judge")[0]


def test_a_run_without_attachments_mentions_none(server: ScriptedServer, file: Path) -> None:
    file.write_text(BENCHMARK.replace("    attachments: [images/label.png]\n", ""), "utf-8")
    journal = file.parent / "run.journal"

    run(server, file, "--journal", journal)

    assert json.loads(sent(server)[0])["messages"] == [{"role": "user", "content": ASKED}]
    stored = (file.parent / "results.jsonl").read_text("utf-8"), *sent(server), *sent(server, "judge")
    assert not [text for text in stored if "attach" in text or "media" in text]
    with JournalView(journal) as view:
        assert view.attachments() == {}


def test_neither_results_nor_journal_hold_bytes_or_paths(server: ScriptedServer, file: Path) -> None:
    run(server, file, "--journal", file.parent / "run.journal")

    described = {"name": "label.png", "media_type": "image/png", "sha256": hashlib.sha256(PNG).hexdigest()}
    stored = (file.parent / "results.jsonl").read_bytes(), (file.parent / "run.journal").read_bytes()
    assert json.dumps({**described, "size": len(PNG)}, separators=(",", ":")).encode() in stored[0]
    for data in stored:
        assert PNG not in data
        assert b64encode(PNG)[:40] not in data
        assert str(file.parent / "images").encode() not in data


def test_skip_done_asks_again_about_another_picture(server: ScriptedServer, file: Path) -> None:
    run(server, file, "--no-journal")
    first = file.parent / "first.jsonl"
    (file.parent / "results.jsonl").rename(first)
    _, same, _ = run(server, file, "--no-journal", "--skip-done", first)
    (file.parent / "images/label.png").write_bytes(OTHER)

    _, again, printed = run(server, file, "--no-journal", "--skip-done", first)

    assert (len(same), len(again)) == (0, 1)
    assert "the attachments of 1 question changed since the earlier run" in " ".join(printed.split())


def test_a_trait_may_send_the_picture_to_the_judge(server: ScriptedServer, file: Path) -> None:
    traits = """
rubric:
  - {name: faithful, type: llm, kind: boolean, description: Faithful to the picture, attachments: true}
  - {name: polite, type: llm, kind: boolean, description: Polite}
"""
    file.write_text(BENCHMARK + traits, "utf-8")

    run(server, file, "--set", "evaluation_mode=template_and_rubric")

    seeing = [body for body in sent(server, "judge") if b64encode(PNG).decode() in body]
    assert len(seeing) == 1
    assert "Faithful to the picture" in seeing[0]
    assert "The attached files belong to the question." in seeing[0]
    assert "Polite" not in seeing[0]
    assert sum("attached" in body for body in sent(server, "judge")) == 1


@pytest.mark.parametrize("trait", ["no files", "blind judge"])
def test_a_trait_whose_judge_cannot_see_is_refused(server: ScriptedServer, file: Path, trait: str) -> None:
    text = BENCHMARK + "rubric: [{name: f, type: llm, kind: boolean, description: F, attachments: true}]\n"
    file.write_text(text.replace("    attachments: [images/label.png]\n", "") if trait == "no files" else text, "utf-8")
    judge = {"id": "j", "interface": "openai", "model_name": "j", "endpoint_base_url": f"{server.url}/judge/v1"}
    models = [judge] if trait == "no files" else [{**judge, "extra": {"media": []}}]

    code, _, printed = run(
        *(server, file, "--set", "evaluation_mode=template_and_rubric", "--set", f"parsing_models={json.dumps(models)}")
    )

    assert code == 2
    assert ("but there are none" if trait == "no files" else "cannot read image/png") in printed
    assert not server.log


@pytest.mark.parametrize("written", ["[images/second.png]", "images/second.png", "{file: images/second.png}"])
def test_a_later_turn_of_a_conversation_may_attach_files(server: ScriptedServer, file: Path, written: str) -> None:
    (file.parent / "images/second.png").write_bytes(OTHER)
    turns = f'    turns: ["Sure?", {{say: "And here?", attachments: {written}}}]\n'
    file.write_text(BENCHMARK + turns, "utf-8")

    _, (result,), _ = run(server, file)

    last = json.loads(sent(server)[-1])["messages"]
    assert [len(message["content"]) for message in last if message["role"] == "user"] == [2, len("Sure?"), 2]
    assert b64encode(OTHER).decode() in sent(server)[-1]
    trace = result["template"]["trace_messages"]
    assert [message["attachments"][0]["name"] for message in trace if "attachments" in message] == ["second.png"]


def test_a_replay_needs_no_files_and_writes_the_same(server: ScriptedServer, file: Path) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    before = (file.parent / "results.jsonl").read_bytes()
    (file.parent / "images/label.png").unlink()
    calls = len(server.log)

    code, _, printed = run(server, file, "--journal", journal, "--replay")

    assert code == 0, printed
    assert (file.parent / "results.jsonl").read_bytes() == before
    assert len(server.log) == calls


def test_answered_items_are_resumed_without_files(server: ScriptedServer, file: Path) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    (file.parent / "images/label.png").unlink()
    calls = len(server.log)

    code, results, printed = run(server, file, "--journal", journal)

    assert code == 0, printed
    assert [result["outcome"] for result in results] == ["correct"]
    assert len(server.log) == calls


def test_show_and_report_need_no_files(server: ScriptedServer, file: Path) -> None:
    run(server, file)
    (file.parent / "images/label.png").unlink()

    assert karenina("show", file.parent / "results.jsonl")[0] == 0
    assert karenina("report", file.parent / "results.jsonl", "-o", file.parent / "report.html")[0] == 0


def test_a_missing_file_stops_items_that_still_run(server: ScriptedServer, file: Path) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    (file.parent / "images/label.png").unlink()

    code, _, printed = run(server, file, "--journal", journal, "--set", "replicate_count=2")

    assert code == 2
    assert "does not exist" in printed


def test_a_missing_file_leaves_the_journal_of_fresh_runs(server: ScriptedServer, file: Path) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    (file.parent / "images/label.png").unlink()

    code, _, printed = run(server, file, "--journal", journal, "--fresh")

    assert code == 2
    assert "does not exist" in printed
    with JournalView(journal) as view:
        assert view.first_questions(1) == ["label"]
    assert [path.name for path in file.parent.glob("*.journal")] == ["run.journal"]


def judged_by(server: ScriptedServer, name: str) -> tuple[str, str]:
    """Return the option for another judge."""
    judge = {"id": name, "interface": "openai", "model_name": name, "endpoint_base_url": f"{server.url}/judge/v1"}
    return "--set", f"parsing_models={json.dumps([{**judge, 'extra': DECLARED}])}"


def test_a_stored_answer_is_judged_without_its_file(server: ScriptedServer, file: Path) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    (file.parent / "images/label.png").unlink()

    code, results, printed = run(server, file, "--journal", journal, *judged_by(server, "other"))

    assert code == 0, printed
    assert [result["outcome"] for result in results] == ["correct"]
    assert (len(sent(server)), len(sent(server, "judge"))) == (1, 2)


def test_a_judge_who_sees_the_file_needs_it(server: ScriptedServer, file: Path) -> None:
    trait = "rubric: [{name: f, type: llm, kind: boolean, description: F, attachments: true}]\n"
    file.write_text(BENCHMARK + trait, "utf-8")
    options = ("--journal", file.parent / "run.journal", "--set", "evaluation_mode=rubric_only")
    run(server, file, *options)
    (file.parent / "images/label.png").unlink()

    code, _, printed = run(server, file, *options, *judged_by(server, "other"))

    assert code == 2
    assert "does not exist" in printed
    assert len(sent(server)) == 1


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        *(("check", problem) for problem in ("missing", "huge", "mistyped", "polyglot", "svg")),
        *(("run", problem) for problem in ("missing", "polyglot")),
    ],
)
def test_a_file_that_cannot_be_sent_is_an_error(server: ScriptedServer, file: Path, problem: str, command: str) -> None:
    picture = file.parent / "images/label.png"
    picture.unlink()
    if problem == "huge":
        with picture.open("wb") as made:
            made.truncate(20_000_001)
    elif problem != "missing":
        data = {"mistyped": b"GIF89a", "polyglot": PNG + b"%PDF-1.7", "svg": b"<svg/>"}
        picture.write_bytes(data[problem])

    code, printed = karenina("check", file) if command == "check" else run(server, file)[::2]

    assert code != 0
    assert "label.png" in printed
    assert not server.log


def test_too_many_bytes_for_a_question_are_refused(server: ScriptedServer, file: Path) -> None:
    names = [f"{number}.png" for number in range(3)]
    for name in names:
        (file.parent / name).write_bytes(PNG.ljust(17_000_000, b"x"))
    file.write_text(BENCHMARK.replace("[images/label.png]", json.dumps(names)), "utf-8")

    code, _, printed = run(server, file)

    assert code == 2
    assert "51 MB" in printed
    assert "50 MB" in printed


def test_the_lower_limit_of_an_adapter_counts(file: Path) -> None:
    (file.parent / "images/label.png").write_bytes(PNG.ljust(5_000_000, b"x"))

    code, printed = karenina(
        *("run", file, "-a", "claude_tool:claude-opus-4-5@http://127.0.0.1:9", "-j", "openai:j@http://127.0.0.1:9/v1")
    )

    assert code == 2
    assert "5 MB" in printed


def test_a_file_that_changes_during_the_run_is_a_model_error(file: Path) -> None:
    picture = file.parent / "images/label.png"
    two = BENCHMARK + BENCHMARK.partition("questions:\n")[2].replace("id: label", "id: second").replace("Which", "What")
    file.write_text(two, "utf-8")

    def change(_request: object) -> str:
        picture.write_bytes(OTHER)
        return "It is 42."

    with ScriptedServer(Side(change), judge=Side(JUDGED)) as server:
        code, results, _ = run(server, file, "--set", "max_concurrency=1")
        outcomes = sorted(result["outcome"] for result in results)

    assert code == 0
    assert outcomes == ["correct", "model_error"]
    (failed,) = (result for result in results if result["outcome"] == "model_error")
    assert "has changed since the run began" in json.dumps(failed)


def test_a_picture_that_the_server_rejects_is_a_model_error(file: Path) -> None:
    said = "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj"
    body = {"error": {"code": 500, "message": said, "type": "server_error"}}
    with ScriptedServer(Side(faults.status(500, body=body)), judge=Side(JUDGED)) as server:
        code, (result,), _ = run(server, file)

        assert code == 4  # nothing was judged
        assert result["outcome"] == "model_error"
        assert "llama.cpp: --mmproj" in result["metadata"]["error"]
        assert len(server.log) == 1  # a retry would be refused, too


@pytest.mark.parametrize(
    ("model", "extra", "why"),
    [
        ("gpt-3.5-turbo", {}, "known from the model's name"),
        ("m", {"media": []}, "declared in extra.media"),
        ("gpt-4-0613", {}, "known from the model's name"),
        ("gpt-4o", {"media": ["application/pdf"]}, "declared in extra.media"),
    ],
)
def test_a_model_that_cannot_see_is_a_plan_error(
    server: ScriptedServer, file: Path, model: str, extra: dict[str, Any], why: str
) -> None:
    code, _, printed = run(server, file, extra=extra, model=model)

    assert code == 2
    assert "cannot read image/png" in " ".join(printed.split())
    assert why in " ".join(printed.split())
    assert not server.log


def test_a_model_of_which_nothing_is_known_runs_with_a_warning(server: ScriptedServer, file: Path) -> None:
    code, (result,), printed = run(server, file, extra={})

    assert code == 0
    assert result["outcome"] == "correct"
    assert "it is unknown whether the model 'm'" in " ".join(printed.split())


def test_a_judge_of_which_nothing_is_known_gets_files_with_a_warning(server: ScriptedServer, file: Path) -> None:
    trait = "rubric: [{name: f, type: llm, kind: boolean, description: F, attachments: true}]\n"
    file.write_text(BENCHMARK + trait, "utf-8")
    judge = {"id": "j", "interface": "openai", "model_name": "j", "endpoint_base_url": f"{server.url}/judge/v1"}

    code, _, printed = run(
        *(server, file, "--set", "evaluation_mode=rubric_only", "--set", f"parsing_models={json.dumps([judge])}")
    )

    assert code == 0
    assert "it is unknown whether the model 'j' (openai:j) understands image/png;" in " ".join(printed.split())


def test_a_recorded_answer_ignores_the_files(server: ScriptedServer, file: Path) -> None:
    (file.parent / "answers.json").write_text(json.dumps({"label": "It is 42."}), "utf-8")

    code, printed = karenina(
        *("run", file, "--recordings", file.parent / "answers.json", "-j", f"openai:j@{server.url}/judge/v1"),
        *("-o", file.parent / "results.jsonl"),
    )

    assert code == 0, printed
    assert [entry.request.path for entry in server.log] == ["/judge/v1/chat/completions"]


def test_recorded_answers_about_another_picture_are_named(server: ScriptedServer, file: Path) -> None:
    run(server, file)
    recording = file.parent / "answers.jsonl"
    karenina("export", file.parent / "results.jsonl", "--format", "recording", "-o", recording)
    again = ("run", file, "--recordings", recording, "-j", f"openai:j@{server.url}/judge/v1", "--no-journal", "-o")
    _, same = karenina(*again, file.parent / "same.jsonl")
    (file.parent / "images/label.png").write_bytes(OTHER)

    code, other = karenina(*again, file.parent / "other.jsonl")

    assert code == 0, other
    assert ["is about other attachments" in " ".join(printed.split()) for printed in (same, other)] == [False, True]


def test_another_picture_is_another_call_and_another_folder_is_not(server: ScriptedServer, file: Path) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    calls = len(server.log)
    (file.parent / "elsewhere").mkdir()
    (file.parent / "images/label.png").rename(file.parent / "elsewhere/label.png")
    file.write_text(BENCHMARK.replace("images/", "elsewhere/"), "utf-8")

    run(server, file, "--journal", journal)
    moved = len(server.log)
    (file.parent / "elsewhere/label.png").write_bytes(OTHER)
    run(server, file, "--journal", journal)

    assert moved == calls
    assert len(sent(server)) == 2


def test_a_path_out_of_the_folder_needs_trust(server: ScriptedServer, file: Path) -> None:
    secret = file.parent.parent / "secret.png"
    secret.write_bytes(PNG)
    (file.parent / "images/label.png").unlink()
    (file.parent / "images/label.png").symlink_to(secret)

    code, _, printed = run(server, file)
    trusted, results, _ = run(server, file, "--trust-all")

    assert code == 2
    assert "attachments = " in " ".join(printed.split())
    assert trusted == 0
    assert [result["outcome"] for result in results] == ["correct"]


@pytest.mark.parametrize("url", ["https://example.org/a.png", "data:image/png;base64,iVBORw0KGgo="])
def test_a_url_is_refused_with_the_cure(server: ScriptedServer, file: Path, url: str) -> None:
    file.write_text(BENCHMARK.replace("[images/label.png]", f'["{url}"]'), "utf-8")

    code, _, printed = run(server, file)

    assert code == 2
    assert "line 7" in printed
    assert "attachments are not downloaded; give a file's path" in " ".join(printed.split())
    assert not server.log


def test_check_warns_of_a_position_in_a_photo(file: Path) -> None:
    gps = b"II*\0\x08\0\0\0\x01\0\x25\x88\x04\0\x01\0\0\0\x1a\0\0\0\0\0\0\0\x01\0\x02\0\x05\0\x03\0\0\0\0\0\0\0"
    (file.parent / "images/photo.jpg").write_bytes(b"\xff\xd8\xff\xe1\0\x50Exif\0\0" + gps)
    file.write_text(BENCHMARK.replace("images/label.png", "images/photo.jpg"), "utf-8")

    code, printed = karenina("check", file)

    assert code == 0
    assert "where it was taken" in " ".join(printed.split())


def test_a_budget_needs_the_price_of_a_picture(server: ScriptedServer, file: Path) -> None:
    priced = ("--set", 'prices={"m": {"input": 1, "output": 4}, "j": {"input": 1, "output": 4}}', "--budget", "1")

    refused, _, printed = run(server, file, *priced)
    stated, (result,), _ = run(server, file, *priced, extra={**DECLARED, "media_tokens": 1000})

    assert refused == 2
    assert "media_tokens" in printed
    assert stated == 0
    assert result["outcome"] == "correct"


def test_a_budget_covers_the_most_that_a_picture_costs(server: ScriptedServer, file: Path) -> None:
    prices = 'prices={"m": {"input": 1000, "output": 4}, "j": {"input": 1, "output": 4}}'

    _, results, printed = run(
        *(server, file, "--set", prices, "--budget", "0.9"), extra={**DECLARED, "media_tokens": 1000}
    )

    assert results == []
    assert "does not cover" in " ".join(printed.split())
    assert not sent(server)


def test_a_dry_run_prints_the_tokens_of_attachments_apart(file: Path) -> None:
    code, printed = karenina(
        *("run", file, "-a", "openai:gpt-4o@http://127.0.0.1:9/v1", "-j", "openai:j@http://127.0.0.1:9/v1", "--dry-run")
    )

    assert code == 0
    assert "722 tokens (at most 1,445) of gpt-4o in GenerateAnswer are for attachments" in " ".join(printed.split())


def test_plan_and_doctor_state_what_is_known_about_models(file: Path) -> None:
    models = ("-a", "openai:gpt-4o@http://127.0.0.1:9/v1", "-a", "openai:m@http://127.0.0.1:9/v1")

    plan = " ".join(karenina("plan", file, *models)[1].split())
    doctor = " ".join(karenina("doctor", *models)[1].split())

    for printed in (plan, doctor):
        assert "images, PDFs: yes (known from the model's name); sound: no (known from the model's name)" in printed
        assert "images, PDFs, sound: unknown (declare it in extra.media)" in printed


def test_dated_vision_models_are_known_to_see(file: Path) -> None:
    _, printed = karenina("plan", file, "-a", "openai:gpt-4-1106-vision-preview@http://127.0.0.1:9/v1")

    assert "images: yes (known from the model's name)" in " ".join(printed.split())


def test_prompts_names_the_files_of_a_question(file: Path) -> None:
    models = ("-a", "openai:gpt-4o@http://127.0.0.1:9/v1", "-j", "openai:j@http://127.0.0.1:9/v1")

    code, printed = karenina("prompts", file, *models)

    assert code == 0
    assert printed.count("[attachment label.png, image/png, sha256 ") == 1


def test_python_attaches_files_relative_to_the_current_folder(
    file: Path, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    benchmark = Benchmark.create("Labels")
    benchmark.add_question(ASKED, answer_template=TEMPLATE, attachments=["images/label.png"])
    config = {"interface": "openai", "endpoint_base_url": f"{server.url}/v1", "extra": DECLARED}
    judge = {**config, "endpoint_base_url": f"{server.url}/judge/v1"}

    results = benchmark.run_verification(
        VerificationConfig(
            answering_models=[{"id": "m", "model_name": "m", **config}],
            parsing_models=[{"id": "j", "model_name": "j", **judge}],
        )
    )

    assert [result.outcome for result in results] == ["correct"]
    assert b64encode(PNG).decode() in sent(server)[0]


TEMPLATE = """
class Answer(BaseAnswer):
    dose: int = VerifiedField(description="The dose", ground_truth=42, verify_with=NumericExact())
"""


@pytest.mark.parametrize("option", ["--dry-run", "--skip-broken"])
def test_a_finished_item_without_its_file_is_a_warning(server: ScriptedServer, file: Path, option: str) -> None:
    journal = file.parent / "run.journal"
    run(server, file, "--journal", journal)
    (file.parent / "images/label.png").unlink()
    calls = len(server.log)

    code, _, printed = run(server, file, "--journal", journal, option)
    fresh, _, refused = run(server, file, "--journal", journal, option, "--fresh")

    assert code == 0, printed
    assert "does not exist" in " ".join(printed.split())
    assert len(server.log) == calls
    assert (fresh, "does not exist" in " ".join(refused.split())) == (2, True)


PROPS = {"total_slots": 1, "model_path": "/m.gguf", "modalities": {"vision": False, "audio": False}}
SHOWN = {"details": {"family": "gemma3"}, "capabilities": ["completion", "vision"]}


@pytest.mark.parametrize(
    ("path", "body", "extra", "stated"),
    [
        ("/props", PROPS, {}, "images: no, sound: no (stated by the server, llama.cpp); a run does not ask"),
        ("/props", PROPS, DECLARED, "but yes is declared in extra.media; start llama.cpp with --mmproj"),
        ("/props", {**PROPS, "modalities": {"vision": True}}, DECLARED, "images: yes, sound: no (stated by the server"),
        ("/api/show", SHOWN, {}, "images: yes, sound: no (stated by the server, Ollama)"),
        ("/v1/models", {}, {}, None),
        ("/props", {"modalities": "text"}, {}, None),
    ],
)
def test_doctor_states_what_own_servers_say_of_their_models(
    path: str, body: Any, extra: Any, stated: str | None
) -> None:
    def reply(request: Request) -> Reply:
        return Reply(body if request.path.partition("?")[0] == path else {"error": "not found"})

    with ScriptedServer(Side(reply), is_call=lambda _: True) as server:
        model = {"id": "m", "interface": "openai", "model_name": "m", "endpoint_base_url": f"{server.url}/v1"}
        _, printed = karenina("doctor", "--set", f"answering_models={json.dumps([{**model, 'extra': extra}])}")

    text = " ".join(printed.split())
    assert stated in text if stated is not None else "stated by" not in text
