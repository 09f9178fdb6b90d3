"""Keywords that a file contains as a single string, in each format."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark

FORMS = {
    "math,easy": ("math", "easy"),
    "math, easy ,": ("math", "easy"),
    "math; easy": ("math", "easy"),
    "Smith, John; easy": ("Smith, John", "easy"),
    "math": ("math",),
    "": (),
}


@pytest.mark.parametrize("text", FORMS)
def test_a_text_of_a_table_or_line_is_split(text: str, tmp_path: Path) -> None:
    table, lines = tmp_path / "t.csv", tmp_path / "t.jsonl"
    table.write_text(f'question,keywords\nWho?,"{text}"\n', "utf-8")
    lines.write_text(json.dumps({"question": "Who?", "keywords": text}), "utf-8")
    for file in (table, lines):
        benchmark = Benchmark.create("read")
        benchmark.import_questions(file)
        assert benchmark.get(benchmark.ids[0]).keywords == FORMS[text]


@pytest.mark.parametrize("text", FORMS)
def test_a_text_of_a_benchmark_is_split(text: str, tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    question = {"question": "Who?", "id": "q", "keywords": text}
    file.write_text(json.dumps({"karenina": 1, "name": "B", "questions": [question]}), "utf-8")
    benchmark = Benchmark.load(file)
    benchmark.save(tmp_path / "b.jsonld")
    checkpoint = json.loads((tmp_path / "b.jsonld").read_text("utf-8"))
    checkpoint["dataFeedElement"][0]["keywords"] = text
    (tmp_path / "c.jsonld").write_text(json.dumps(checkpoint), "utf-8")
    assert benchmark.get("q").keywords == Benchmark.load(tmp_path / "c.jsonld").get("q").keywords == FORMS[text]


def test_keywords_of_a_list_are_not_split(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text('karenina: 1\nname: B\nquestions: [{question: "Who?", id: q, keywords: ["Smith, John"]}]', "utf-8")
    assert Benchmark.load(file).get("q").keywords == ("Smith, John",)


def test_a_separator_replaces_the_default_ones(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("question,keywords\nWho?,math/easy; short\n", "utf-8")
    benchmark = Benchmark.create("read")
    benchmark.import_questions(table, separator="/")
    assert benchmark.get(benchmark.ids[0]).keywords == ("math", "easy; short")
