"""The files of a run belong together by its id: results, scored again or moved, find their journal, cost and labels."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

import pytest
from servers import recording_server
from typer.testing import CliRunner, Result

from karenina import calibrate
from karenina_cli.app import build_app

QUESTIONS = "".join(
    f"  - {{id: q{n}, question: 'Which gene {n}?', answer: {{gene: {{description: The gene, ground_truth: BCL2}}}}}}\n"
    for n in range(12)
)


def karenina(*arguments: str | Path) -> Result:
    done = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(
        build_app(), [str(argument) for argument in arguments], catch_exceptions=False
    )
    assert done.exit_code == 0, done.stderr
    return done


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a run: results, scored again with other truths, and a journal."""
    for name in [name for name in os.environ if name.startswith("KARENINA_")]:
        monkeypatch.delenv(name)
    for name in ("CONFIG", "STATE"):
        monkeypatch.setenv(f"KARENINA_{name}_HOME", str(tmp_path / name.lower()))
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    run = tmp_path / "run"
    run.mkdir()
    monkeypatch.chdir(run)
    Path("genes.yaml").write_text(f"karenina: 1\nname: Genes\nquestions:\n{QUESTIONS}", "utf-8")
    with recording_server(lambda body: '{"gene": "BCL2"}' if "json" in json.dumps(body) else "It is BCL2.") as server:
        karenina("run", "genes.yaml", "-a", f"openai:m@{server.url}", "-j", f"openai:j@{server.url}/v1")
    Path("genes.yaml").write_text(Path("genes.yaml").read_text("utf-8").replace("BCL2", "TP53", 6), "utf-8")
    karenina("rescore", "genes.journal", "-o", "again.jsonl")
    return run


def calls(results: Path) -> int:
    """Return the calls in what `show` prints of the journal's cost."""
    money = json.loads(karenina("show", results, "--json").stdout)["money"]
    return sum(line["calls"] for line in money["lines"]) if money is not None else 0


@pytest.mark.parametrize("name", ["genes.results.jsonl", "again.jsonl"])
def test_results_keep_their_journal_wherever_the_folder_is(
    folder: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = folder.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)

    assert calls(moved / name) == 24
    assert calls(Path("moved") / name) == 24
    (moved / "genes.journal").rename(moved / "renamed.journal")
    assert calls(moved / name) == 24
    assert "renamed.journal" in karenina("status", moved / name).stdout
    page = tmp_path / "report.html"
    assert "left out" not in karenina("report", moved / name, "-o", page).stderr
    exported = tmp_path / "calls.csv"
    karenina("export", moved / name, "--table", "calls", "-o", exported)
    assert len(exported.read_text("utf-8").splitlines()) > 24


def test_another_journal_of_that_name_is_not_used(folder: Path) -> None:
    shutil.copy("genes.results.jsonl", "other.results.jsonl")
    shutil.copy("genes.journal", "kept.journal")
    with recording_server(lambda _: '{"gene": "BCL2"}') as server:
        models = ("-a", f"openai:n@{server.url}", "-j", f"openai:j@{server.url}/v1")
        karenina("run", "genes.yaml", *models, "-o", "x.results.jsonl", "--journal", "other.journal")
    Path("kept.journal").unlink()
    Path("genes.journal").unlink()

    assert calls(Path("other.results.jsonl")) == 0
    karenina("export", "other.results.jsonl", "-o", "out.csv")
    assert "openai:n" not in Path("out.csv").read_text("utf-8")
    refused = CliRunner().invoke(build_app(), ["status", "other.results.jsonl"])
    assert refused.exit_code == 2
    assert "other.journal belongs to another run" in " ".join(refused.stderr.split())


def test_scored_again_results_are_exported_as_they_are(folder: Path) -> None:
    karenina("export", "again.jsonl", "-o", "again.csv")
    karenina("export", "genes.results.jsonl", "-o", "first.csv")

    assert Path("first.csv").read_text("utf-8").count(",correct,") == 12
    assert Path("again.csv").read_text("utf-8").count(",correct,") == 6


def test_labels_hold_for_rescored_results_unless_the_truth_changed(folder: Path) -> None:
    karenina("label", "genes.results.jsonl", "--sheet", "sheet.csv", "--n", "12")
    with Path("sheet.csv").open(encoding="utf-8-sig", newline="") as opened:
        rows = [row | {"right": "yes"} for row in csv.DictReader(opened)]
    with Path("sheet.csv").open("w", encoding="utf-8", newline="") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    karenina("label", "genes.results.jsonl", "--from", "sheet.csv", "--labeller", "ann")

    first, again = (calibrate(name).corrected[0] for name in ("genes.results.jsonl", "again.jsonl"))
    assert (first.labels, again.labels) == (12, 6)
    assert "Corrected" in karenina("show", "again.jsonl", "--quiet").stdout


def test_nothing_is_written_if_no_item_can_be_scored_again(folder: Path) -> None:
    other = QUESTIONS.replace("gene", "town").replace("BCL2", "Lima")
    Path("towns.yaml").write_text(f"karenina: 1\nname: Towns\nquestions:\n{other}", "utf-8")
    before = Path("again.jsonl").read_bytes()
    refused = CliRunner().invoke(build_app(), ["rescore", "genes.journal", "towns.yaml", "-o", "again.jsonl"])
    message = " ".join(refused.stderr.split())

    assert refused.exit_code == 2
    assert "so nothing was written; use the benchmark of that run" in message
    assert "--replay" not in message
    assert Path("again.jsonl").read_bytes() == before
    assert not list(Path().glob("again-*"))


@pytest.mark.parametrize("redraw", [False, True])
def test_labels_from_a_wrong_file_write_nothing(folder: Path, redraw: bool) -> None:
    if redraw:
        karenina("label", "genes.results.jsonl", "--sheet", "sheet.csv")
    label = {"item": "another answer", "labeller": "ann", "time": "2026-01-01T00:00:00Z", "right": True}
    Path("others.jsonl").write_text(json.dumps({"label": label}) + "\n", "utf-8")
    before = {path: path.read_bytes() for path in Path().glob("*.labels*")}
    for wrong in ("genes.yaml", "genes.results.jsonl", "others.jsonl", "missing.jsonl"):
        arguments = ["label", "genes.results.jsonl", "--from", wrong, *(["--redraw"] if redraw else [])]
        assert CliRunner().invoke(build_app(), arguments).exit_code == 2, wrong

    assert {path: path.read_bytes() for path in Path().glob("*.labels*")} == before
