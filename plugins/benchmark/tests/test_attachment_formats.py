"""Attachments in the files of benchmarks: how they are written, read and refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from karenina_benchmark import BenchmarkContent
from karenina_benchmark.benchmark import Benchmark
from karenina_benchmark.errors import BenchmarkFileError
from karenina_benchmark.formats.format import Format
from karenina_core import hookimpl
from karenina_core.models.attachments import Attachment
from karenina_core.plugins import Plugins, use_plugins

TEMPLATE = """
class Answer(BaseAnswer):
    dose: int = VerifiedField(description="The dose", ground_truth=42, verify_with=NumericExact())
"""
FILES = (Attachment.of("images/a.png"), Attachment.of({"file": "b.pdf", "pages": "1-2"}))


@pytest.fixture(autouse=True)
def work_in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sources(path: Path, **options: Any) -> list[tuple[str, str | None]]:
    """Return the paths and pages of the attachments of a file's first question."""
    question = next(iter(Benchmark.load(path, **options)))
    return [(file.source, file.pages) for file in question.attachments]


@pytest.mark.parametrize("name", ["a.yaml", "a.jsonld", "a.jsonl"])
def test_attachments_survive_saving_and_loading(tmp_path: Path, name: str) -> None:
    benchmark = Benchmark.create("Doses")
    benchmark.add_question("Which dose?", answer_template=TEMPLATE, attachments=FILES)
    benchmark.add_question("No file?", answer_template=TEMPLATE)

    benchmark.save(tmp_path / name)

    assert sources(tmp_path / name) == [("images/a.png", None), ("b.pdf", "1-2")]
    assert Benchmark.load(tmp_path / name).questions == benchmark.questions


def test_json_ld_has_attachments_as_an_additional_property(tmp_path: Path) -> None:
    benchmark = Benchmark.create("Doses")
    benchmark.add_question("Which dose?", answer_template=TEMPLATE, attachments=FILES)
    benchmark.save(tmp_path / "a.jsonld")

    (item,) = json.loads((tmp_path / "a.jsonld").read_text("utf-8"))["dataFeedElement"]

    (written,) = (entry for entry in item["item"]["additionalProperty"] if entry["name"] == "attachments")
    assert json.loads(written["value"]) == ["images/a.png", {"file": "b.pdf", "pages": "1-2"}]


@pytest.mark.parametrize(
    ("column", "columns"), [("attachments", None), ("image", {"attachments": "image", "question": "question"})]
)
def test_a_column_of_a_table_names_files(tmp_path: Path, column: str, columns: dict[str, str] | None) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"question,answer,{column}\nWhich dose?,42,a.png; b.png\nNo file?,1,\n", "utf-8")

    assert sources(path, columns=columns) == [("a.png", None), ("b.png", None)]


def test_a_single_path_needs_no_list(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "karenina: 1\nname: n\nquestions: [{question: Which, attachments: a.png, template: x}]\n", "utf-8"
    )

    assert sources(tmp_path / "a.yaml") == [("a.png", None)]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("[https://x.org/a.png]", "are not downloaded"),
        ("[{file: a.pdf, pages: x}]", "pages must be numbers"),
        ("[{path: a.png}]", "unknown key 'path' in an attachment; available: file, pages"),
        ("[{file: a.pdf, page: 1}]", "did you mean 'pages'"),
        ("7", "a path, or a mapping"),
    ],
)
def test_other_values_are_refused_with_their_line(tmp_path: Path, written: str, why: str) -> None:
    text = f"karenina: 1\nname: n\nquestions:\n  - question: Which?\n    attachments: {written}\n"
    (tmp_path / "a.yaml").write_text(text, "utf-8")

    with pytest.raises(BenchmarkFileError, match=rf"(?s)line 5.*{why}"):
        Benchmark.load(tmp_path / "a.yaml")


def test_a_url_in_a_table_is_refused_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer,attachments\nWhich?,42,https://x.org/a.png\n", "utf-8")

    with pytest.raises(BenchmarkFileError, match=r"(?s)line 2.*are not downloaded"):
        Benchmark.load(tmp_path / "a.csv")


@pytest.mark.parametrize("cell", ["a.png,b.png", "a.png\nb.pdf", '["a.png"]'])
def test_another_separator_in_a_table_is_refused(tmp_path: Path, cell: str) -> None:
    quoted = cell.replace('"', '""')
    (tmp_path / "a.csv").write_text(f'question,answer,attachments\nWhich?,42,"{quoted}"\n', "utf-8")

    with pytest.raises(BenchmarkFileError, match="separated by `;`"):
        Benchmark.load(tmp_path / "a.csv")


def test_a_question_is_not_equal_with_another_file(tmp_path: Path) -> None:
    one, other = Benchmark.create("n"), Benchmark.create("n")
    one.add_question("Which?", attachments=["a/x.png"])
    other.add_question("Which?", attachments=["b/x.png"])

    assert one.questions[0].changed(date_created=None) != other.questions[0].changed(date_created=None)


@pytest.mark.parametrize(
    ("name", "data", "warned"),
    [
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(9) + b"IEND....", []),
        ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(9), ["is probably cut off"]),
        ("a.jpg", b"\xff\xd8\xff" + bytes(9), ["is probably cut off"]),
        ("a.pdf", b"%PDF-1.7\ntrailer << /Encrypt 5 0 R >>\n%%EOF", ["is encrypted"]),
    ],
)
def test_check_warns_of_files_that_services_refuse(tmp_path: Path, name: str, data: bytes, warned: list[str]) -> None:
    (tmp_path / name).write_bytes(data)
    benchmark = Benchmark.create("Doses")
    benchmark.add_question("Which dose?", answer_template=TEMPLATE, attachments=[name])
    benchmark.save(tmp_path / "a.yaml")

    found = Benchmark.check_file(tmp_path / "a.yaml", "all").warnings

    assert [what for what in warned if what in str(found)] == warned
    assert len(found) == len(warned)


def test_check_names_the_package_that_pages_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    (tmp_path / "b.pdf").write_bytes(b"%PDF-1.7\n")
    benchmark = Benchmark.create("Doses")
    benchmark.add_question("Which dose?", answer_template=TEMPLATE, attachments=[{"file": "b.pdf", "pages": 1}])
    benchmark.save(tmp_path / "a.yaml")

    (error,) = Benchmark.check_file(tmp_path / "a.yaml", "all").errors

    assert "pypdfium2" in str(error)
    assert "pip install" in str(error)


PAIRS = {
    "a.yaml": "karenina: 1\nname: n\nquestions:\n"
    "  - {question: Count, attachments: [a.png]}\n  - {question: Count, attachments: [b.png]}\n",
    "a.csv": "question,answer,attachments\nHow many bars?,3,a.png\nHow many bars?,5,b.png\n",
    "a.jsonl": '{"question": "How many bars?", "attachments": "a.png"}\n'
    '{"question": "How many bars?", "attachments": "b.png"}\n',
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_same_question_about_two_pictures_is_two_questions(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(PAIRS[name], "utf-8")

    assert len(set(Benchmark.load(path).ids)) == 2
    assert not [finding for finding in Benchmark.check_file(path).findings if "the text is the same" in str(finding)]


@pytest.mark.parametrize("name", ["a.yaml", "a.csv"])
def test_the_same_question_about_one_picture_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(PAIRS[name].replace("b.png", "a.png"), "utf-8")

    with pytest.raises(BenchmarkFileError, match="has the same text"):
        Benchmark.load(path)


def test_automatic_ids_depend_on_attachments() -> None:
    benchmark = Benchmark.create("n")
    plain = benchmark.add_question("How many bars?")
    benchmark.add_question("How many bars?", attachments=["a.png"])
    benchmark.add_question("How many bars?", attachments=["b.pdf"])
    benchmark.add_question("How many bars?", attachments=[{"file": "b.pdf", "pages": 1}])

    assert len(set(benchmark.ids)) == 4
    assert plain.id == "urn:uuid:34e4e5f5-de2c-5682-80a8-a1025b7c3afc"
    with pytest.raises(ValueError, match="two questions have the id"):
        benchmark.add_question("How many bars?", attachments=["a.png"])


@pytest.mark.parametrize("name", ["b.yaml", "b.jsonld", "b.jsonl"])
def test_saving_into_another_folder_keeps_the_files(tmp_path: Path, name: str) -> None:
    absolute = (tmp_path / "d.png").as_posix()
    benchmark = Benchmark.create("Doses")
    turns: list[Any] = ["Sure?", {"say": "And here?", "attachments": ["images/c.png"]}]
    benchmark.add_question("Which dose?", attachments=[*FILES, absolute], turns=turns)
    benchmark.save(tmp_path / "a.yaml")
    (tmp_path / "v2").mkdir()

    Benchmark.load(tmp_path / "a.yaml").save(tmp_path / "v2" / name)
    saved = Benchmark.load(tmp_path / "v2" / name, "all")

    assert sources(tmp_path / "v2" / name) == [("../images/a.png", None), ("../b.pdf", "1-2"), (absolute, None)]
    assert saved.questions[0].extra["turns"] == ["Sure?", {"say": "And here?", "attachments": ["../images/c.png"]}]
    saved.save(tmp_path / name)
    assert sources(tmp_path / name) == [("images/a.png", None), ("b.pdf", "1-2"), (absolute, None)]


def test_files_of_a_benchmark_without_a_file_are_those_of_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "v2").mkdir()
    benchmark = Benchmark.create("Doses")
    benchmark.add_question("Which dose?", attachments=["a.png"])

    benchmark.save("v2/a.yaml")

    assert sources(tmp_path / "v2/a.yaml") == [("../a.png", None)]


class Cards:
    """A format of another distribution, which knows nothing of folders."""

    @staticmethod
    @hookimpl
    def karenina_formats() -> list[Format]:
        return [Format("cards", (".cards",), lambda path, _: BenchmarkContent.of_questions(path, ()), write_cards)]


def write_cards(benchmark: BenchmarkContent, _path: Path) -> Iterator[str]:
    yield from (f"{file.source}\n" for question in benchmark for file in question.attachments)


def test_formats_of_others_get_the_paths_for_the_new_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plugins = Plugins()
    plugins.register(Cards, distribution="cards")
    benchmark = Benchmark.create("Doses")
    benchmark.add_question("Which dose?", attachments=FILES)
    (tmp_path / "v2").mkdir()

    with use_plugins(plugins):
        benchmark.save(tmp_path / "v2/a.cards")

    assert (tmp_path / "v2/a.cards").read_text("utf-8").split() == ["../images/a.png", "../b.pdf"]
    assert "not in its folder, such as '../images/a.png', so a run needs your trust: karenina trust" in caplog.text


def test_check_names_the_line_of_a_path_that_needs_trust(tmp_path: Path) -> None:
    (tmp_path / "v2").mkdir()
    (tmp_path / "v2/a.yaml").write_text(
        "karenina: 1\nname: D\nquestions:\n  - id: q\n    question: Which dose?\n    attachments: [../a.png]\n", "utf-8"
    )

    (finding,) = [found for found in Benchmark.load(tmp_path / "v2/a.yaml").check().warnings if "trusted" in found.what]

    assert finding.where == "line 6"
