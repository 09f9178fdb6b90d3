"""Benchmarks are read and written in the installed formats; a plugin can add one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from command_runs import run_karenina

from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_benchmark.formats.format import CheckPaths, Format
from karenina_benchmark.formats.format_registry import list_formats
from karenina_core import hookimpl
from karenina_core.plugins import Plugins, use_plugins
from karenina_core.stages.finalize import plugin as core_plugin


def read_flashcards(path: Path, check_paths: CheckPaths) -> Benchmark:
    """Read a file with a question and its answer on each line, with a tab between them."""
    benchmark = Benchmark.create(name=path.stem)
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        question, tab, answer = line.partition("\t")
        if not tab:
            raise BenchmarkFileError(path, f"line {number}", "it has no answer", "write a tab and the answer")
        benchmark.add_question(question, answer)
    return benchmark


def write_flashcards(benchmark: Benchmark, path: Path) -> Iterable[bytes]:
    """Write such a file."""
    return (f"{one.question}\t{one.raw_answer}\n".encode() for one in benchmark)


class Flashcards:
    """A plugin with a format of its own, `suffixes`."""

    def __init__(self, *suffixes: str) -> None:
        self.suffixes = suffixes

    @hookimpl
    def karenina_formats(self) -> list[Format]:
        """Offer the format."""
        return [Format("flashcards", self.suffixes, read_flashcards, write_flashcards)]


def with_plugins(*added: Flashcards) -> Plugins:
    plugins = Plugins()
    plugins.register(core_plugin)
    for number, plugin in enumerate(added):
        plugins.register(plugin, distribution=f"flashcards-{number}", version="1")
    return plugins


def test_the_built_in_formats_are_offered_through_the_hook() -> None:
    offered = list_formats(Plugins.discover())
    suffixes = [suffix for one in offered for suffix in one.value.suffixes]
    assert sorted(suffixes) == sorted(set(suffixes)), "none is there twice"
    assert {".yaml", ".jsonld", ".jsonl", ".csv", ".xlsx"} <= set(suffixes)
    assert all(one.plugin is not None for one in offered)


@pytest.mark.parametrize("suffix", [".cards.txt", ".cards.json", ".yaml.gz"])
def test_the_longest_suffix_of_a_name_selects_the_format(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"capitals.V2{suffix.upper()}"
    file.write_text("What is the capital of France?\tParis\n")
    with use_plugins(with_plugins(Flashcards(suffix))):
        benchmark = Benchmark.load(file)
        benchmark.save(tmp_path / f"again{suffix}")
        assert [one.question for one in benchmark] == ["What is the capital of France?"]
        assert (tmp_path / f"again{suffix}").read_text("utf-8") == file.read_text("utf-8")


def test_a_plugins_format_is_read_and_written(tmp_path: Path) -> None:
    file = tmp_path / "capitals.cards"
    file.write_text("What is the capital of France?\tParis\n")
    with use_plugins(with_plugins(Flashcards(".cards"))):
        benchmark = Benchmark.load(file)
        benchmark.save(tmp_path / "again.cards")
        benchmark.save(tmp_path / "capitals.yaml")

        assert [(one.question, one.raw_answer) for one in benchmark] == [("What is the capital of France?", "Paris")]
        assert (tmp_path / "again.cards").read_bytes() == file.read_bytes()
        assert Benchmark.load(tmp_path / "capitals.yaml").questions == benchmark.questions


def test_the_command_reads_a_plugins_format(tmp_path: Path) -> None:
    file = tmp_path / "capitals.cards"
    file.write_text("What is the capital of France?\n")
    done = run_karenina("trust", file, plugins=with_plugins(Flashcards(".cards")))
    assert done.code == 2
    assert "line 1: it has no answer" in done.err


@pytest.mark.parametrize("ending", [".xyz", ".cards"])
def test_an_unknown_suffix_names_the_known_ones(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"capitals{ending}"
    file.write_text("What is the capital of France?\tParis\n")
    with use_plugins(with_plugins()):
        with pytest.raises(BenchmarkFileError, match=r"\.jsonld, \.json \(a checkpoint\); \.yaml, \.yml \(YAML\)"):
            Benchmark.load(file)
        with pytest.raises(BenchmarkFileError, match=r"\.yaml, \.yml \(YAML\)"):
            Benchmark.create(name="n").save(file)


def test_two_formats_with_one_suffix_are_an_error(tmp_path: Path) -> None:
    file = tmp_path / "capitals.cards"
    file.write_text("Which?\tThis\n")
    with (
        use_plugins(with_plugins(Flashcards(".cards"), Flashcards(".cards", ".cds"))),
        pytest.raises(BenchmarkFileError, match=r'flashcards-0 1 and flashcards-1 1.*block = \["flashcards-1"\]'),
    ):
        Benchmark.load(file)


@pytest.mark.parametrize("line", ["", "x"])
def test_a_failing_reader_is_an_error_with_its_distribution(tmp_path: Path, line: str) -> None:
    file = tmp_path / "capitals.cards"
    file.write_text(line)

    def read(path: Path, _: CheckPaths) -> Benchmark:
        return Benchmark.create(name=str(1 // int(path.read_text() or 0)))

    class Breaks(Flashcards):
        @hookimpl
        def karenina_formats(self) -> list[Format]:
            return [Format("flashcards", (".cards",), read)]

    with (
        use_plugins(with_plugins(Breaks())),
        pytest.raises(BenchmarkFileError, match=r"flashcards-0 1 failed to read flashcards: (ZeroDivision|Value)Error"),
    ):
        Benchmark.load(file)


def test_a_reader_without_a_benchmark_is_an_error_with_its_distribution(tmp_path: Path) -> None:
    (tmp_path / "capitals.cards").write_text("")

    class Forgets(Flashcards):
        @hookimpl
        def karenina_formats(self) -> list[Format]:
            return [Format("flashcards", (".cards",), lambda _path, _check: None)]  # type: ignore[arg-type,return-value]

    with (
        use_plugins(with_plugins(Forgets())),
        pytest.raises(BenchmarkFileError, match="failed to read flashcards: TypeError: the format returned None, not"),
    ):
        Benchmark.load(tmp_path / "capitals.cards")


def test_a_table_is_a_benchmark_of_its_rows(tmp_path: Path) -> None:
    file = tmp_path / "capitals.csv"
    file.write_text("id,question,raw_answer\nfrance,What is the capital of France?,Paris\n")

    benchmark = Benchmark.load(file)

    assert benchmark.name == "capitals"
    assert [(one.id, one.raw_answer) for one in benchmark] == [("france", "Paris")]
