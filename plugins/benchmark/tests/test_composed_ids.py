"""Ids that look the same, with composed or with separate accents, are treated as one id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_core.data.question import Question

COMPOSED, SEPARATE = "caf\u00e9", "cafe\u0301"
ITEMS = [
    {"@type": "DataFeedItem", "@id": id, "item": {"@type": "Question", "text": id + "?"}} for id in (COMPOSED, SEPARATE)
]


@pytest.mark.parametrize("ids", [(COMPOSED, SEPARATE), (SEPARATE, COMPOSED)])
@pytest.mark.parametrize(
    ("name", "line", "place", "first"),
    [
        ("a.yaml", '  - {{id: "{id}", question: "{n}?"}}\n', "line 5", "line 4"),
        ("a.jsonl", '{{"id": "{id}", "question": "{n}?"}}\n', "line 2", "line 1"),
        ("a.csv", "{id},{n}?\n", "line 3", "line 2"),
    ],
)
def test_a_repeated_id_names_both_lines(
    ids: tuple[str, str], name: str, line: str, place: str, first: str, tmp_path: Path
) -> None:
    head = {"a.yaml": "karenina: 1\nname: a\nquestions:\n", "a.csv": "id,question\n"}.get(name, "")
    file = tmp_path / name
    file.write_text(head + "".join(line.format(id=id, n=n) for n, id in enumerate(ids)), encoding="utf-8")
    with pytest.raises(BenchmarkFileError) as caught:
        Benchmark.load(file)
    assert place in str(caught.value)
    assert f"the question in {first} has the same id {ids[1]!r}" in str(caught.value)


def test_a_repeated_id_of_a_checkpoint_names_the_question(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonld"
    file.write_text(json.dumps({"@type": "DataFeed", "name": "a", "dataFeedElement": ITEMS}), encoding="utf-8")
    with pytest.raises(BenchmarkFileError, match="question 1 has the same id"):
        Benchmark.load(file)


def test_a_repeated_id_is_refused_in_code_too() -> None:
    benchmark = Benchmark.create("a")
    benchmark.add_question("One?", question_id=COMPOSED)
    with pytest.raises(ValueError, match="two questions have the id"):
        benchmark.add_question("Two?", question_id=SEPARATE)
    other = Benchmark.create("b")
    with pytest.raises(ValueError, match=r"two questions have the id .*'One\?' and 'Two\?'"):
        other.add_questions(Question(id=id, question=text) for id, text in ((SEPARATE, "One?"), (COMPOSED, "Two?")))
    assert (benchmark.ids, other.ids) == ((COMPOSED,), ())


def test_a_question_is_replaced_and_removed_by_either_form() -> None:
    benchmark = Benchmark.create("a")
    benchmark.add_question("One?", question_id=COMPOSED)
    benchmark.replace(Question(id=SEPARATE, question="Two?"))
    assert [(question.id, question.question) for question in benchmark] == [(COMPOSED, "Two?")]
    assert benchmark.remove(SEPARATE).question == "Two?"
    assert SEPARATE not in benchmark
    benchmark.add_question("Three?", question_id=SEPARATE)
    assert benchmark.get(COMPOSED).question == "Three?"


def test_many_ids_with_accents_are_found_in_one_go() -> None:
    benchmark = Benchmark.create("a")
    for number in range(5_000):
        benchmark.add_question("One?", question_id=f"{COMPOSED}{number}")
    assert all(f"{SEPARATE}{number}" in benchmark for number in range(5_000))
    assert f"{SEPARATE}x" not in benchmark
