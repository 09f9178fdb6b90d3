"""Each promptfoo assertion, imported and judged: a right answer passes, and a wrong one fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from imports import import_file, judge_imported, karenina, run_imported, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_core.data.rubrics import LLMRubricTrait, UnknownTrait
from karenina_importing.formats.promptfoo.assertions import convert, expected_answer
from karenina_importing.formats.promptfoo.tests import parse_assertion
from karenina_template.templates.primitives.semantic import provide_similarity, withdraw_similarity

COMPARED: list[tuple[dict[str, Any], str, str]] = [
    ({"type": "equals", "value": "Lima"}, "The answer is Lima.", "The answer is Cusco."),
    ({"type": "equals", "value": 42}, "The answer is 42.", "The answer is 24."),
    ({"type": "equals", "value": "Yes, it is.\nAll of it."}, "Yes, it is.\nAll of it.", "Yes, it is."),
    ({"type": "not-equals", "value": "Lima"}, "The answer is Lima.", "Lima"),
    ({"type": "contains", "value": "Lima"}, "I think that Lima is it.", "I think that lima is it."),
    ({"type": "not-contains", "value": "Cusco"}, "It is Lima.", "It is Cusco."),
    ({"type": "icontains", "value": "Lima"}, "IT IS LIMA.", "It is Cusco."),
    ({"type": "not-icontains", "value": "Cusco"}, "It is Lima.", "IT IS CUSCO."),
    ({"type": "contains-any", "value": ["Lima", "Callao"]}, "near Callao", "near Cusco"),
    ({"type": "contains-any", "value": "Lima, Callao"}, "near Callao", "near Cusco"),
    ({"type": "not-contains-any", "value": ["Quito", "La Paz"]}, "It is Lima.", "La Paz or Lima"),
    ({"type": "icontains-any", "value": ["lima", "callao"]}, "CALLAO", "Cusco"),
    ({"type": "contains-all", "value": ["Lima", "Peru"]}, "In Peru,\nit is Lima.", "It is Lima."),
    ({"type": "not-contains-all", "value": ["Lima", "Quito"]}, "It is Lima.", "Lima and Quito"),
    ({"type": "icontains-all", "value": ["lima", "peru"]}, "PERU: LIMA", "PERU"),
    ({"type": "regex", "value": r"\bLi(?:ma|moges)\b"}, "It is Lima.", "It is Limassol."),
    ({"type": "not-regex", "value": r"\d{3}"}, "about 12", "about 1234"),
    ({"type": "regex", "value": "^Lima$"}, "Lima", "Lima\n"),
    ({"type": "regex", "value": r"^\w+$"}, "Lima", "Limá"),
    ({"type": "regex", "value": "Lima[^]*Peru"}, "Lima,\nPeru", "Peru: Lima"),
    ({"type": "starts-with", "value": "Lima (c."}, "Lima (c. 1535) is it.", "It is Lima (c. 1535)."),
    ({"type": "not-starts-with", "value": "Sorry"}, "Lima. Sorry for the delay.", "Sorry, I cannot say."),
    ({"type": "ends-with", "value": "Lima."}, "It is Lima.", "Lima. It is."),
    ({"type": "is-json"}, '{"city": "Lima"}', 'It is {"city": "Lima"}'),
    ({"type": "not-is-json"}, "It is Lima.", '{"city": "Lima"}'),
    ({"type": "contains-json"}, 'It is {"city": "Lima"}', "It is Lima."),
    ({"type": "not-contains-json"}, "It is Lima.", 'It is {"city": "Lima"}'),
    ({"type": "levenshtein", "value": "Lima (Peru)", "threshold": 2}, "Lima, (Peru", "Lima, in Peru"),
    ({"type": "word-count", "value": {"min": 2, "max": 3}}, "It is Lima.", "Lima."),
    ({"type": "word-count", "value": 2}, "Lima, Peru", "It is Lima."),
    ({"type": "similar", "value": "Lima", "threshold": 0.8}, "The answer is Lima.", "The answer is Cusco."),
    (
        {
            "type": "assert-set",
            "threshold": 0.5,
            "assert": [{"type": "contains", "value": text} for text in ("Li", "Qu")],
        },
        "It is Lima.",
        "It is Cusco.",
    ),
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def same(one: str, other: str, _model: str | None) -> float:
        return float(one == other)

    monkeypatch.chdir(tmp_path)
    withdraw_similarity()
    provide_similarity(same)
    yield
    withdraw_similarity()


def _config(*assertions: dict[str, Any]) -> dict[str, Any]:
    tests = [{"vars": {"n": number}, "assert": [assertion]} for number, assertion in enumerate(assertions, 1)]
    return {"prompts": ["Question {{n}}: which city is the capital of Peru?"], "providers": ["echo"], "tests": tests}


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
def test_right_answers_pass_and_wrong_answers_fail(tmp_path: Path, right: bool) -> None:
    source = write_json(tmp_path / "promptfooconfig.json", _config(*(case[0] for case in COMPARED)))
    done = import_file(source)
    assert done.code == 0, done.err
    assert "Not carried over" not in done.err
    ids = [question.id for question in Benchmark.load("out.yaml")]
    answers = [case[1 if right else 2] for case in COMPARED]
    write_lines(
        tmp_path / "answers.jsonl",
        [{"id": id, "response": answer} for id, answer in zip(ids, answers, strict=True)],
    )

    verdicts = run_imported(tmp_path)

    wrong = [
        (case[0], verdict) for case, verdict in zip(COMPARED, verdicts.values(), strict=True) if verdict is not right
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("answer", "passes"),
    [("Lima and Cusco.", True), ("Lima, Cusco and Quito.", False), ("Lima.", False), ("lima and cusco", False)],
)
def test_all_assertions_of_a_test_must_pass(tmp_path: Path, answer: str, passes: bool) -> None:
    asserted = [
        {"type": "contains", "value": "Lima"},
        {"type": "contains", "value": "Cusco"},
        {"type": "not-contains", "value": "Quito"},
    ]
    result = {
        "prompt": {"raw": "Name cities of Peru."},
        "vars": {},
        "provider": {"id": "openai:m"},
        "response": {"output": answer},
        "success": True,
        "testCase": {"assert": asserted},
    }
    write_json(tmp_path / "results.json", {"results": {"version": 3, "results": [result]}})

    assert import_file("results.json", "--recordings", "answers.jsonl").code == 0
    assert list(run_imported(tmp_path).values()) == [passes]


@pytest.mark.parametrize(
    ("threshold", "n"), [(0.5, 2), (0.34, 2), (0.33, 1), (0.67, 3), (1, None), (None, None), ("0.5", 2)]
)
def test_a_threshold_is_a_number_of_fields(threshold: Any, n: int | None) -> None:
    asserted = [{"type": "contains", "value": word} for word in ("one", "two", "three")]

    converted = convert(asserted, {}, threshold=threshold)

    names = ["contains_one", "contains_two", "contains_three"]
    assert list(converted.fields) == names
    assert converted.strategy == (None if n is None else {"at_least": {"n": n, "of": names}})


def test_a_threshold_that_is_no_number_of_fields_is_named() -> None:
    weighted = [{"type": "contains", "value": "one", "weight": 3}, {"type": "contains", "value": "two"}]
    rated = [{"type": "contains", "value": "one"}, {"type": "llm-rubric", "value": "is kind"}]

    assert convert(weighted, {}, threshold=0.5).left_out == ["threshold (all fields must pass)"]
    assert convert(weighted, {}, threshold=0.5).fields["contains_one"]["weight"] == 3
    assert convert(rated, {}, threshold=0.5).left_out == ["threshold (all fields must pass)"]


@pytest.mark.parametrize("threshold", ["0,8", "{{least}}", 0, -1])
def test_a_threshold_that_says_nothing_weakens_no_test(threshold: Any) -> None:
    converted = convert([{"type": "contains", "value": word} for word in ("one", "two")], {}, threshold=threshold)

    assert converted.strategy is None
    assert converted.left_out == ["threshold (all fields must pass)"]


def test_averages_of_scores_that_are_shares_are_no_number_of_fields() -> None:
    """At a threshold of 0.9, one of two in a set and the other field have a score of 0.75 in promptfoo, which fails."""
    words = [{"type": "contains", "value": word} for word in ("one", "two")]
    half = {"type": "assert-set", "threshold": 0.5, "assert": words}
    similar = {"type": "similar", "value": "one"}

    for assertion in (half, similar):
        converted = convert([assertion, {"type": "contains", "value": "three"}], {}, threshold=0.5)
        assert converted.left_out == ["threshold (all fields must pass)"]
        assert "contains_three" in (converted.strategy or {"all_of": list(converted.fields)})["all_of"]


@pytest.mark.parametrize(
    ("assertion", "says"),
    [
        ({"type": "llm-rubric", "value": "is polite to {{who}}"}, "is polite to Ada"),
        ({"type": "model-graded-closedqa", "value": "names a city"}, "names a city"),
        ({"type": "factuality", "value": "Lima is the capital"}, "Lima is the capital"),
        ({"type": "g-eval", "value": "is coherent"}, "is coherent"),
        ({"type": "answer-relevance", "threshold": 0.8}, "answers the question"),
        ({"type": "is-refusal"}, "refuses"),
    ],
)
@pytest.mark.parametrize("negated", [False, True])
def test_what_a_model_grades_is_a_trait_with_its_text(assertion: dict[str, Any], says: str, negated: bool) -> None:
    asserted = {**assertion, "type": f"not-{assertion['type']}" if negated else assertion["type"]}

    converted = convert([asserted], {"who": "Ada"})

    assert not converted.fields
    assert converted.left_out == ([f"threshold of {asserted['type']}"] if "threshold" in asserted else [])
    (trait,) = (LLMRubricTrait.model_validate(data) for data in converted.traits)
    assert says in (trait.description or "")
    assert trait.higher_is_better is not negated


def test_programs_become_traits_to_be_written(tmp_path: Path) -> None:
    program = {"type": "javascript", "value": "output.length < 10", "metric": "isShort"}
    source = write_json(tmp_path / "promptfooconfig.json", _config({"type": "contains", "value": "Lima"}, program))

    done = import_file(source)

    assert "Not carried over: 1 javascript (a trait to be written)" in done.err
    first, question = Benchmark.load("out.yaml")
    assert question.rubric is not None
    (trait,) = question.rubric.traits
    assert isinstance(trait, UnknownTrait)
    assert (trait.name, trait.type, trait.description) == ("is_short", "callable", "output.length < 10")
    assert trait.unscorable is not None
    assert "Rewrite it in `source` as a Python function" in trait.unscorable
    saved = Benchmark.load("out.yaml")
    for name in ("again.jsonld", "again.jsonl", "again.yaml"):
        saved.save(name)
        assert list(Benchmark.load(name)) == [first, question]


@pytest.mark.parametrize(
    ("assertion", "named"),
    [
        ({"type": "latency", "threshold": 100}, "latency"),
        ({"type": "cost", "threshold": 0.1}, "cost"),
        ({"type": "rouge-n", "value": "Lima"}, "rouge-n"),
        ({"type": "not-similar", "value": "Lima"}, "not-similar"),
        ({"type": "equals", "value": {"city": "Lima"}}, "equals"),
        ({"type": "regex", "value": "(unclosed"}, "regex"),
        ({"type": "contains", "value": ""}, "contains"),
        ({"type": "contains", "value": "Lima", "transform": "output.city"}, "contains of a transformed output"),
        ({"type": "contains", "value": "Lima", "weight": 0}, "contains of weight 0"),
        ({"type": "contains", "value": "Lima", "metricOnly": True}, "contains that only measures"),
        ({"type": "contains", "value": "It is {{city}}"}, "the variable city of contains, which has no value"),
        ({"type": "contains", "value": "{% if x %}Lima{% endif %}"}, "contains whose value promptfoo computes"),
        ({"type": "never-heard-of", "value": "Lima"}, "never-heard-of"),
        ({"value": "Lima"}, "assertion without a type"),
        ("contains: Lima", "assertion without a type"),
    ],
)
def test_what_is_not_carried_over_is_named_by_type(assertion: Any, named: str) -> None:
    assert convert([assertion], {}).left_out == [named]


@pytest.mark.parametrize(
    ("others", "any_json"),
    [
        ([], False),
        ([{"type": "cost", "threshold": 0.1}], False),
        ([{"type": "contains", "value": "x", "weight": 0}], False),
        ([{"type": "contains", "value": "x", "transform": "output.x"}], True),
        ([{"type": "contains", "value": "{% if x %}x{% endif %}"}], True),
        ([{"type": "llm-rubric", "value": "x"}], False),
        ([{"type": "contains", "value": "x"}], False),
    ],
)
def test_a_test_of_which_only_json_is_left_has_no_template(others: list[Any], any_json: bool) -> None:
    left = "template of a test in which only is-json remains (any JSON would count as correct)"

    converted = convert([{"type": "is-json"}, *others], {})

    assert (left in converted.left_out) is any_json
    assert ("is_json" in converted.fields) is not any_json
    assert convert([{"type": "is-json", "value": {"type": "object"}}], {}).left_out == ["schema of is-json", left]


def test_check_names_a_question_whose_rules_are_lost(tmp_path: Path) -> None:
    lost = {"type": "contains", "value": "Lima", "transform": "output.city"}
    config = _config({"type": "contains", "value": "Lima"}, {"type": "is-json"})
    config["tests"][1]["assert"].append(lost)
    write_json(tmp_path / "c.json", config)

    assert import_file("c.json").code == 0
    checked = karenina("check", "out.yaml")
    assert checked.code != 0
    assert "the question has no answer template" in checked.out + checked.err


@pytest.mark.parametrize(
    ("transform", "part"),
    [
        ("output.city", "city"),
        ("output?.a.b[0]", "a.b[0]"),
        ("JSON.parse(output).city", "city"),
        ("output['x y']", "['x y']"),
    ],
)
def test_a_judge_reads_the_part_that_a_transform_names(transform: str, part: str) -> None:
    graded = {"type": "llm-rubric", "value": "is a capital", "transform": transform}

    converted = convert([graded], {})

    shown = f"Read only the value of `{part}` in the response's JSON. is a capital"
    assert [trait["description"] for trait in converted.traits] == [shown]
    assert converted.left_out == []
    of_both = convert([{**graded, "transform": "output[1]"}], {}, transform=transform)
    assert f"`{part}[1]`" in of_both.traits[0]["description"]


@pytest.mark.parametrize(
    "transform", ["output.trim()", "output.length", "output.split('x')[0]", "file://t.js", "context.x", 3]
)
def test_what_another_transform_makes_is_not_graded(transform: Any) -> None:
    converted = convert([{"type": "llm-rubric", "value": "x", "transform": transform}], {})

    assert converted.left_out == ["llm-rubric of a transformed output"]
    assert not converted.traits


def test_a_transform_of_the_test_is_in_its_traits(tmp_path: Path) -> None:
    config = _config({"type": "llm-rubric", "value": "is kind"}, {"type": "contains", "value": "Lima"})
    for test in config["tests"]:
        test["options"] = {"transform": "output.reply"}
    write_json(tmp_path / "c.json", config)

    done = import_file("c.json")

    assert "Not carried over: 1 transform of the output" in done.err
    first, _ = Benchmark.load("out.yaml")
    assert first.rubric is not None
    assert [trait.description for trait in first.rubric.traits] == [
        "Read only the value of `reply` in the response's JSON. is kind"
    ]


def test_what_a_transform_makes_is_not_the_right_answer() -> None:
    part = {"type": "equals", "value": "Lima", "transform": "output.city"}

    assert expected_answer([part], {}) is None
    assert expected_answer([part, {"type": "equals", "value": "Peru"}], {}) == "Peru"


def test_a_judge_sees_no_truth_in_the_name_of_a_field() -> None:
    converted = convert(
        [{"type": "equals", "value": "BCL2", "metric": "is BCL2"}, {"type": "similar", "value": "BCL2"}], {}
    )

    assert list(converted.fields) == ["answer", "answer_2"]


@pytest.mark.parametrize("name", ["regex", "verify", "model_fields", "json", "class", "2nd", "id", "é"])
def test_names_that_a_field_cannot_have_are_changed(tmp_path: Path, name: str) -> None:
    named = {"type": "regex", "value": "[a-z]", "metric": name}
    write_json(tmp_path / "promptfooconfig.json", _config(named))

    done = import_file("promptfooconfig.json")

    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("cell", "assertion"),
    [
        ("Paris", {"type": "equals", "value": "Paris"}),
        ("note: Paris", {"type": "equals", "value": "note: Paris"}),
        ("contains: Paris", {"type": "contains", "value": "Paris"}),
        ("not-contains:Paris", {"type": "not-contains", "value": "Paris"}),
        ("similar(0.9): Hello", {"type": "similar", "value": "Hello", "threshold": 0.9}),
        ("is-json", {"type": "is-json"}),
        ("grade: is kind", {"type": "llm-rubric", "value": "is kind"}),
        ("llm-rubric: a: b", {"type": "llm-rubric", "value": "a: b"}),
        ("javascript: output.length < 3", {"type": "javascript", "value": "output.length < 3"}),
        ("file://check.py:grade", {"type": "python", "value": "file://check.py:grade"}),
        ("icontains-all: a, b", {"type": "icontains-all", "value": "a, b"}),
        ("similar: Hello", {"type": "similar", "value": "Hello", "threshold": 0.8}),
        ("levenshtein: cat", {"type": "levenshtein", "value": "cat", "threshold": 0.75}),
        ("latency(1000)", {"type": "latency", "threshold": 1000}),
        ("answer-relevance(0.7)", {"type": "answer-relevance", "threshold": 0.7}),
        ("is-valid-openai-tools-call", {"type": "is-valid-openai-tools-call"}),
        ("not-is-refusal:", {"type": "not-is-refusal"}),
        ("select-best: the shortest", {"type": "select-best", "value": "the shortest"}),
        ("cost", {"type": "equals", "value": "cost"}),
    ],
)
def test_cells_with_assertions(cell: str, assertion: dict[str, Any]) -> None:
    assert parse_assertion(cell) == assertion


def test_a_rated_answer_and_a_compared_one_in_one_run(tmp_path: Path) -> None:
    def result(prompt: str, output: str, *asserted: dict[str, Any]) -> dict[str, Any]:
        about = {"provider": {"id": "openai:m"}, "vars": {}, "success": True}
        return {
            **about,
            "prompt": {"raw": prompt},
            "response": {"output": output},
            "testCase": {"assert": list(asserted)},
        }

    rated = result("Write a line.", "Rain falls.", {"type": "llm-rubric", "value": "mentions weather"})
    compared = result("Which city?", "It is Lima.", {"type": "contains", "value": "Lima"})
    write_lines(tmp_path / "r.jsonl", [{**row, "testIdx": 0, "promptIdx": 0} for row in (rated, compared)])

    assert import_file("r.jsonl", "--recordings", "answers.jsonl").code == 0
    results = judge_imported(tmp_path)

    assert [judged.outcome.value for judged in results] == ["scored", "correct"]
    scores = results[0].rubric
    assert scores is not None
    assert scores.llm_trait_scores == {"mentions_weather": True}


def test_one_answer_of_several_calls_stays_one_answer(tmp_path: Path) -> None:
    calls = [{"functionCall": {"name": "a", "args": {}}}, {"functionCall": {"name": "b", "args": {}}}]
    row = {
        "prompt": {"raw": "Call both."},
        "success": True,
        "testIdx": 0,
        "promptIdx": 0,
        "provider": "google:gemini",
        "response": {"output": calls},
        "testCase": {"assert": [{"type": "contains", "value": "functionCall"}]},
    }
    write_lines(tmp_path / "r.jsonl", [row])

    assert import_file("r.jsonl", "--recordings", "answers.jsonl").code == 0
    (recording,) = map(json.loads, Path("answers.jsonl").read_text("utf-8").splitlines())
    assert json.loads(recording["response"]) == calls
