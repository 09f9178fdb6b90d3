"""A file that is not a benchmark is rejected as a whole, with file, place, problem and cure."""

import json
from pathlib import Path

import pytest

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_core.data.question import Question


def checkpoint(*items, **keys):
    feed = {"@type": "DataFeed", "name": "b", "dataFeedElement": list(items)}
    return json.dumps({**feed, **keys})


def item(text="q?", **keys):
    return {"@type": "DataFeedItem", "item": {"@type": "Question", "text": text, **keys}}


def version(name, value):
    return [{"@type": "PropertyValue", "name": name, "value": value}]


def error_of(file, text):
    """Return the error for a file with this text."""
    file.write_text(text)
    with pytest.raises(BenchmarkFileError) as caught:
        Benchmark.load(file)
    return caught.value


JSON_CASES = [
    ("", "", "empty"),
    ("  \n", "", "empty"),
    ("{", "line 1", "JSON is not valid"),
    ("[1]", "", "expected a JSON object, got a value of type list"),
    ("[" * 200_000, "", "nested too deeply"),
    (f'{{"name": {"1" * 5000}}}', "", "more than 4300 digits"),
    ('{"name": NaN}', "", "NaN is not valid in JSON"),
    ('{"name": -1e999}', "", "the number -1e999 is too large"),
    ('{"name": "a", "name": "b"}', "", "the key 'name' appears more than once"),
    (checkpoint(**{"@type": "Dataset"}), "@type", "'Dataset', not a DataFeed"),
    (json.dumps({"@type": "DataFeed"}), "the benchmark", "'name' is missing"),
    (checkpoint(name=7), "the benchmark", "'name' must be a string, not 7"),
    (checkpoint({}), "question 1", "the `item` key must contain a Question object"),
    (checkpoint(item(), 5), "question 2", "DataFeedItem"),
    (checkpoint({"@id": "x", "item": {}}), "question 1 (x)", "'text' is missing"),
    (checkpoint(item("a"), item(" ")), "question 2", "question: the text has no visible characters"),
    (checkpoint({**item("a"), "@id": "x"}, {**item("b"), "@id": "x"}), "question 2 (x)", "question 1 has the same id"),
    (checkpoint(item(acceptedAnswer="Paris")), "question 1", "acceptedAnswer must be a single object"),
    (checkpoint(item(acceptedAnswer={"text": 7})), "question 1", "raw_answer"),
    (checkpoint(rating=[{"description": "d"}]), "rating 1", "a rating must be a Rating object with a name"),
    (checkpoint(additionalProperty="x"), "the benchmark", "additionalProperty must be a list"),
    (
        checkpoint(additionalProperty=version("karenina_format_version", 2)),
        "karenina_format_version",
        "pip install -U karenina",
    ),
    (
        checkpoint(additionalProperty=version("karenina_format_version", "1")),
        "karenina_format_version",
        "set the format version to 1",
    ),
    (
        checkpoint(additionalProperty=version("benchmark_format_version", "4.0.0-jsonld")),
        "benchmark_format_version",
        "version '4.0.0-jsonld'",
    ),
]


@pytest.mark.parametrize(("text", "where", "what"), JSON_CASES, ids=[case[2] for case in JSON_CASES])
def test_a_wrong_checkpoint_is_an_error(tmp_path, text, where, what):
    file = tmp_path / "b.jsonld"
    error = error_of(file, text)
    assert error.file == file
    assert where in error.where
    assert what in f"{error.what}; {error.cure}"
    assert error.cure
    assert str(file) in str(error)


HEAD = "karenina: 1\nname: b\n"
YAML_CASES = [
    ("", "", "empty"),
    ("- a\n", "", "must be a mapping of keys to values"),
    ("name: b\n", "line 1", "`karenina: 1`"),
    ("karenina: 2\nname: b\n", "line 1", "version 2"),
    ("karenina: 1\n", "line 1", "no name"),
    ("karenina: 1\nname: b\nquestions: [\n", "line 4", "YAML is not valid"),
    (HEAD + "name: c\n", "line 3", "'name' appears twice (first in line 2)"),
    (HEAD + "qestions: []\n", "line 3", "unknown key 'qestions'; did you mean 'questions'?"),
    (HEAD + "questions:\n  - question: a\n  - question: b\n    awnser: {}\n", "line 6", "did you mean 'answer'?"),
    (HEAD + "questions:\n  - raw_answer: a\n", "line 4", "no text"),
    (HEAD + "questions:\n  - question: a\n  - question: a\n", "line 5", "question 1 (line 4) has the same text"),
    (HEAD + "questions: 5\n", "line 3", "'questions' must be a list"),
    (HEAD + "questions:\n  - question: [a]\n", "line 4", "'question' must be a string, not a list"),
    (HEAD + "questions:\n  - question: a\n    strategy: {any_of: [x]}\n", "line 5", "`answer`, which is missing"),
    (HEAD + "questions:\n  - question: a\n    answer:\n      x: {ground_truth: 1}\n", "line 6", "no 'description'"),
    (
        HEAD + "questions:\n  - question: a\n    answer:\n      x: {description: d,\n          ground_trut: 1}\n",
        "line 7",
        "did you mean 'ground_truth'?",
    ),
    (
        HEAD + "questions:\n  - question: a\n    template: t\n    answer: {x: {description: d, ground_truth: 1}}\n",
        "line 5",
        "both `answer` and `template`",
    ),
    (HEAD + "rubric:\n  - {type: regex, name: t, pattern: '(['}\n", "line 4", "does not compile"),
    (HEAD + "rubric:\n  - {name: t}\n", "line 4", "the trait needs a `type`"),
    (HEAD + "questions_from: {file: absent.csv}\n", "line 3", "absent.csv: the file does not exist"),
    (HEAD + "metadata: &m {a: *m}\n", "line 3", "alias refers to a value that contains it"),
    (HEAD + "metadata: {a: !!python/name:os.system x}\n", "line 3", "python/name:os.system"),
    (HEAD + "metadata: {? [a] : b}\n", "line 3", "a key must be a string"),
]


def test_each_mistake_of_a_yaml_file_is_one_error(tmp_path):
    text = f"{HEAD}questions:\n  - qestion: a\n    answer:\n      x: {{type: strr, ground_truth: b}}\n"
    assert [error.what for error in error_of(tmp_path / "b.yaml", text).each()] == [
        "unknown key 'qestion'",
        "the field 'x' has no 'description'",
        "unknown type 'strr'",
    ]


@pytest.mark.parametrize(("text", "where", "what"), YAML_CASES, ids=[case[2] for case in YAML_CASES])
def test_a_wrong_yaml_file_is_an_error(tmp_path, text, where, what):
    error = error_of(tmp_path / "b.yaml", text)
    assert error.where.split(",")[0] == where
    assert what in str(error)


def test_expanded_aliases_are_limited(tmp_path):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    file = tmp_path / "b.yaml"
    file.write_text(HEAD + "metadata:\n" + "".join(f"  {line}\n" for line in lines))
    with pytest.raises(BenchmarkFileError, match="aliases make this file too large"):
        Benchmark.load(file)


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(BenchmarkFileError, match=r"absent\.jsonld: the file does not exist"):
        Benchmark.load(tmp_path / "absent.jsonld")


def test_a_file_that_is_not_utf_8_is_an_error(tmp_path):
    (tmp_path / "b.yaml").write_bytes(HEAD.encode() + b"description: \xff\n")
    with pytest.raises(BenchmarkFileError, match="byte 33: the text is not UTF-8"):
        Benchmark.load(tmp_path / "b.yaml")


def test_saving_needs_a_known_suffix(tmp_path):
    with pytest.raises(BenchmarkFileError, match=r"\.txt.*\.jsonld.*\.yaml"):
        Benchmark.create("b").save(tmp_path / "b.txt")


def test_a_failed_save_keeps_the_old_file(tmp_path):
    file = tmp_path / "b.jsonld"
    benchmark = Benchmark.create("b")
    benchmark.save(file)
    before = file.read_bytes()
    benchmark.metadata = {"value": float("nan")}
    with pytest.raises(BenchmarkFileError, match="cannot be saved as JSON"):
        benchmark.save(file)
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


def test_a_lone_surrogate_cannot_be_saved(tmp_path):
    with pytest.raises(BenchmarkFileError, match="unpaired surrogate"):
        Benchmark.create("b", description="half \ud800").save(tmp_path / "b.jsonld")


def test_a_save_that_fails_midway_leaves_nothing_behind(tmp_path):
    (tmp_path / "b.jsonld").mkdir()
    with pytest.raises(BenchmarkFileError, match="the file cannot be written"):
        Benchmark.create("b").save(tmp_path / "b.jsonld")
    assert [path.name for path in tmp_path.iterdir()] == ["b.jsonld"]


def test_saving_into_a_missing_folder_is_an_error(tmp_path):
    with pytest.raises(BenchmarkFileError, match="check that the folder exists"):
        Benchmark.create("b").save(tmp_path / "absent" / "b.jsonld")


def test_unknown_content_is_kept_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    benchmark = Benchmark.create("b")
    benchmark.add_question("a", question_id="q")
    benchmark.save(tmp_path / "b.jsonld")
    document = json.loads((tmp_path / "b.jsonld").read_text())
    document["colour"] = "blue"
    (tmp_path / "b.jsonld").write_text(json.dumps(document))
    with caplog.at_level("WARNING", logger="karenina"):
        loaded = Benchmark.load(tmp_path / "b.jsonld")
    assert "unknown content is kept but has no effect: colour" in caplog.text
    assert loaded.unread == {"colour": "blue"}


@pytest.mark.parametrize(
    ("unread", "words"),
    [
        ({"code": 5}, "`unread.code` must be an object"),
        ({"answer": {"text": "x"}}, "`unread.answer` contains 'text'"),
        ({"@id": "other"}, "`unread` contains '@id'"),
        ({"properties": 1}, "`unread.properties` must be a list"),
        ({"properties": [{"name": "author", "value": "7"}]}, "`unread.properties` contains 'author'"),
        ({"properties": [{"name": "custom_x", "value": 7}]}, "`unread.properties` contains 'custom_x'"),
    ],
)
def test_unread_content_that_cannot_be_saved_is_refused(unread: dict[str, object], words: str, tmp_path: Path) -> None:
    benchmark = Benchmark.create("Genes")
    benchmark.add_question(Question(question="Which?", unread=unread))
    with pytest.raises(BenchmarkFileError, match=words):
        benchmark.save(tmp_path / "genes.jsonld")
