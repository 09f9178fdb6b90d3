"""Files as each tool writes them, with all of their keys: which are questions, right answers and recorded answers."""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path
from typing import Any, Final
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
import zstandard
from imports import import_file, write_json, write_lines

from karenina_benchmark import Benchmark

FILES: Final = Path(__file__).with_name("files")
FRANCE: Final = "Which city is the capital of France?"
PERU: Final = "Which city is the capital of Peru?"
BRIEFLY: Final = "{} Reply in one sentence."
CITIES: Final = {"France": "Paris", "Peru": "Lima", "Chile": "Santiago"}
CHAT_OF_DEVELOPER: Final = "Developer: Reply in one sentence.\n\nUser: Which city is the capital of {}?"
CHAT: Final = "System: Reply in one sentence.\n\nUser: {}"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def questions() -> dict[str, str | None]:
    """Return the questions that were written, with their right answers."""
    return {question.question: question.raw_answer for question in Benchmark.load("out.yaml")}


def recordings() -> list[tuple[str | None, str]]:
    """Return the models and answers that were written."""
    lines = map(json.loads, Path("answers.jsonl").read_text("utf-8").splitlines())
    return [(line.get("model"), line["response"]) for line in lines]


A, B = "openai:chat:a", "openai:chat:b"
RIGHT, WRONG = "The answer is Paris.", "The answer is Cusco."


@pytest.mark.parametrize(
    ("name", "expected", "answers"),
    [
        (
            "promptfoo.json",
            {BRIEFLY.format(FRANCE): "Paris", BRIEFLY.format(PERU): "Lima"},
            [(A, RIGHT), (B, "The answer is Lyon."), (B, "The answer is Lima.")],
        ),
        (
            "promptfoo.jsonl",
            {BRIEFLY.format(FRANCE): "Paris", BRIEFLY.format(PERU): "Lima"},
            [(A, RIGHT), (B, "The answer is Lyon."), (B, "The answer is Lima.")],
        ),
        (
            "samples_capitals_2026-01-01T10-00-00.000000.jsonl",
            {FRANCE: "Paris or paris, france", PERU: "Lima or City of Kings"},
            [(None, RIGHT), (None, WRONG)],
        ),
        (
            "260101100000ABCDEFGH_gpt-x_capitals.jsonl",
            {CHAT.format(FRANCE): "Paris", CHAT.format(PERU): "Lima or City of Kings"},
            [("gpt-x", RIGHT), ("gpt-x", WRONG)],
        ),
        (
            "eval_output_items.json",
            {CHAT_OF_DEVELOPER.format(name): city for name, city in CITIES.items()},
            [("gpt-x-2026-01-01", RIGHT), ("gpt-x-2026-01-01", WRONG)],
        ),
        (
            "inspect.json",
            {FRANCE: "Paris or paris, france", PERU: "Lima"},
            [("openai/gpt-x", RIGHT), ("openai/gpt-x", WRONG)],
        ),
    ],
    ids=["promptfoo", "promptfoo-lines", "lm-eval", "openai-evals", "openai-items", "inspect"],
)
def test_a_file_as_its_tool_writes_it(
    name: str, expected: dict[str, str], answers: list[tuple[str | None, str]]
) -> None:
    done = import_file(FILES / name, "--recordings", "answers.jsonl", "--map", "answer=text")

    assert done.code == 0, done.err
    assert questions() == expected
    assert recordings() == answers
    assert done.err.count("timed out after 5000ms") == (1 if "promptfoo" in name or "items" in name else 0)


def test_a_page_of_the_dataset_server() -> None:
    done = import_file(FILES / "dataset_rows.json", "--map", "answer=text", "--map", "keywords=topic")

    assert done.code == 0, done.err
    assert questions() == {FRANCE: "Paris or paris, france", PERU: "Lima"}
    assert next(iter(Benchmark.load("out.yaml"))).keywords == ("geography",)


def test_a_parquet_file_names_its_classes(tmp_path: Path) -> None:
    """The library `datasets` writes the types of columns into the metadata of the file."""
    from pyarrow import Table
    from pyarrow.parquet import write_table

    page = json.loads((FILES / "dataset_rows.json").read_text("utf-8"))
    features = {feature["name"]: feature["type"] for feature in page["features"]}
    described = {"huggingface": json.dumps({"info": {"features": features}})}
    rows = Table.from_pylist([row["row"] for row in page["rows"]]).replace_schema_metadata(described)
    write_table(rows, tmp_path / "validation-00000-of-00001.parquet")

    done = import_file("validation-00000-of-00001.parquet", "--map", "keywords=topic")

    assert done.code == 0, done.err
    assert next(iter(Benchmark.load("out.yaml"))).keywords == ("geography",)


def test_an_archive_of_inspect_with_samples_in_folders(tmp_path: Path) -> None:
    """Logs of version 3 store long texts in files that are named after the position of their first text."""
    log = json.loads((FILES / "inspect.json").read_text("utf-8"))
    first, second = log.pop("samples")
    shell = {**first, "input": "attachment://1", "output": {"completion": "attachment://0"}, "message_refs": [[0, 2]]}
    with ZipFile(tmp_path / "log.eval", "w", ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({**log, "version": 3}))
        archive.writestr("samples/france_epoch_1/sample.json", json.dumps(shell))
        archive.writestr("samples/france_epoch_1/messages/0.json", json.dumps(first["messages"]))
        archive.writestr("samples/france_epoch_1/attachments/0.json", json.dumps([RIGHT]))
        archive.writestr("samples/france_epoch_1/attachments/1.json", json.dumps([FRANCE]))
        archive.writestr("samples/peru_epoch_1.json", json.dumps(second))

    done = import_file("log.eval", "--recordings", "answers.jsonl")

    assert done.code == 0, done.err
    assert list(questions()) == [FRANCE, PERU]
    assert recordings() == [("openai/gpt-x", RIGHT), ("openai/gpt-x", WRONG)]


def _add_zstandard(archive: ZipFile, name: str, value: Any) -> None:
    """Add a file compressed with Zstandard, which `zipfile` can only write from Python 3.14 on."""
    data = json.dumps(value).encode()
    archive.writestr(name, zstandard.compress(data))
    entry = archive.getinfo(name)
    entry.compress_type, entry.file_size, entry.CRC = 93, len(data), zlib.crc32(data)


def test_archives_of_inspect_are_compressed_with_zstandard(tmp_path: Path) -> None:
    log = json.loads((FILES / "inspect.json").read_text("utf-8"))
    first, second = log.pop("samples")
    second["store"] = {"long": list(range(100_000))}
    with ZipFile(tmp_path / "log.eval", "w") as archive:
        _add_zstandard(archive, "header.json", log)
        _add_zstandard(archive, "samples/france_epoch_1.json", first)
        _add_zstandard(archive, "samples/peru_epoch_1.json", second)
        _add_zstandard(archive, "samples/cut_epoch_1.json", {**first, "id": "cut"})
        _add_zstandard(archive, "samples/larger_epoch_1.json", {**first, "id": "larger"})
        archive.getinfo("samples/cut_epoch_1.json").CRC += 1
        archive.getinfo("samples/larger_epoch_1.json").file_size -= 1

    done = import_file("log.eval", "--recordings", "answers.jsonl", "--partial")

    assert done.code == 0, done.err
    assert done.err.count("the size or checksum of the unpacked entry differs") == 2
    assert list(questions()) == [FRANCE, PERU]
    assert recordings() == [("openai/gpt-x", RIGHT), ("openai/gpt-x", WRONG)]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="zipfile unpacks Zstandard itself")
def test_a_missing_library_for_archives_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZipFile(tmp_path / "log.eval", "w") as archive:
        _add_zstandard(archive, "header.json", {"eval": {}})
    monkeypatch.setitem(sys.modules, "zstandard", None)

    done = import_file("log.eval")

    assert done.code == 2
    assert "requires the zstandard library; install it with: pip install " in done.err
    assert "importing[zstd]" in done.err


def _result(**changes: Any) -> dict[str, Any]:
    fields = {
        "prompt": {"raw": PERU, "label": "p"},
        "response": {"output": "Lima"},
        "success": True,
        "vars": {"a": "Lima"},
    }
    return {**fields, "testIdx": 0, "promptIdx": 0, "provider": {"id": "p"}, **changes}


@pytest.mark.parametrize(
    ("asserted", "truth"),
    [
        ({"type": "equals", "value": "{{a}}"}, "Lima"),
        ({"type": "contains-any", "value": ["Lima", "City of Kings"]}, "Lima or City of Kings"),
        ({"type": "equals", "value": "file://truth.txt"}, None),
        ({"type": "contains", "value": "{{ a | lower }}"}, "lima"),
        ({"type": "contains", "value": "{{ a | reverse }}"}, None),
        ({"type": "not-contains", "value": "Cusco"}, None),
        ({"type": "llm-rubric", "value": "names a city"}, None),
    ],
)
def test_only_filled_comparisons_of_promptfoo_are_truths(tmp_path: Path, asserted: Any, truth: str | None) -> None:
    source = write_lines(tmp_path / "r.jsonl", [_result(testCase={"vars": {}, "assert": [asserted]})])

    assert import_file(source).code == 0
    assert questions() == {PERU: truth}


def test_texts_that_promptfoo_left_out_are_not_imported(tmp_path: Path) -> None:
    hidden = [_result(prompt={"raw": "[prompt stripped]"}), _result(response={"output": "[output stripped]"})]
    source = write_json(tmp_path / "r.json", {"results": {"version": 3, "results": [*hidden, _result(response=None)]}})

    done = import_file(source, "--partial", "--json")

    assert [problem["problem"] for problem in done.json["problems"]] == [
        "the prompt was left out by promptfoo (PROMPTFOO_STRIP_PROMPT_TEXT)"
    ]
    assert "the output was left out by promptfoo" in done.json["unanswered"][0]["problem"]


def test_other_outputs_of_promptfoo_are_refused_with_the_cure(tmp_path: Path) -> None:
    (tmp_path / "results.yaml").write_text("evalId: e\nresults: {version: 3, results: []}\n", "utf-8")

    done = import_file("results.yaml", "--from", "promptfoo")

    assert done.code == 2
    assert "To create a results file, run `promptfoo eval -o results.json`" in done.err


def test_results_of_promptfoo_in_csv_are_refused_with_the_cure(tmp_path: Path) -> None:
    columns = "Status,Score,Named Scores,Grader Reason,Comment"
    head = f'"country","[openai:a] Which capital has\n{{{{country}}}}?",{columns},"[openai:b] Which ...?",{columns}'
    (tmp_path / "results.csv").write_text(f"{head}\nPeru,Lima,PASS,1,{{}},,,Cusco,FAIL,0,{{}},,\n", "utf-8")

    done = import_file("results.csv")

    assert done.code == 2
    assert "the file contains results as a table" in done.err
    assert "run `promptfoo eval -o results.json` and import the results" in done.err


def test_a_target_that_is_itself_a_list_stays_one_text(tmp_path: Path) -> None:
    row = {
        "doc_id": 0,
        "doc": {"question": "f('a')?", "output": "['a', 'b']"},
        "target": "['a', 'b']",
        "resps": [["?"]],
    }
    source = write_lines(tmp_path / "samples_code.jsonl", [row])

    assert import_file(source, "--map", "answer=text").code == 0
    assert questions() == {"f('a')?": "['a', 'b']"}


def test_options_under_letters_are_a_multiple_choice(tmp_path: Path) -> None:
    row = {"question": PERU, "options": {"A": "Cusco", "B": "Lima"}, "answer": "Lima", "answer_idx": "B"}
    source = write_lines(tmp_path / "medical.jsonl", [row])

    assert import_file(source, "--map", "answer=choice").code == 0
    assert questions() == {f"{PERU}\n\nA. Cusco\nB. Lima": "B. Lima"}
