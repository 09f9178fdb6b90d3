"""The contracts for benchmark formats, and for other tools' formats for `karenina import`."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Protocol

import pytest

from karenina_core.errors import KareninaError
from karenina_testing.contracts.command import BAD_INPUT, run_command
from karenina_testing.contracts.plugin import PluginContract

_KEY: Final = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")
_COMMON: Final = (
    '{"question": "Which gene?", "answer": "BCL2"}\n',
    '[{"id": "1", "text": "no question"}]',
    "question,answer\nWhich gene?,BCL2\n",
    "{}",
    "",
)
"""Files that belong to no particular tool, which no format may recognize as its own."""


class AnyFormat(Protocol):
    """A `karenina_benchmark.formats.format.Format`."""

    @property
    def name(self) -> str:
        """The format's name for messages."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The file suffixes."""

    @property
    def read(self) -> Callable[[Path, Any], Any]:
        """The function that reads a file."""

    @property
    def write(self) -> Callable[[Any, Path], Iterable[str | bytes]] | None:
        """The function that yields the parts of a benchmark's file, or None if the format cannot be written."""


class FormatContract(PluginContract):
    """The contract for a benchmark file format.

    - `format`: the format.
    - `sample`: the contents of a file; `questions`: its questions, as a mapping from ids to text.
    - `broken`: contents of files that are not benchmarks, each with the location of the error (such as `line 2`; empty
      for the whole file).
    - `writes`: whether benchmarks can be saved in the format.
    """

    format: ClassVar[AnyFormat]
    sample: ClassVar[str | bytes]
    questions: ClassVar[Mapping[str, str]]
    broken: ClassVar[Sequence[tuple[str | bytes, str]]]
    writes: ClassVar[bool] = True

    @property
    def file_suffix(self) -> str:
        """The suffix of the sample files."""
        return self.format.suffixes[0]

    def read(self, folder: Path, content: str | bytes) -> Any:
        """Write `content` to a file in `folder`, and return the benchmark that the format reads from it."""
        folder.mkdir(exist_ok=True)
        file = folder / f"sample{self.file_suffix}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.format.read(file, lambda _file, _names: True)

    def saved(self, benchmark: Any, file: Path) -> bytes:
        """Return the contents of `file` after saving the benchmark, without writing it."""
        assert self.format.write is not None
        pieces = self.format.write(benchmark, file)
        return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)

    def test_the_format_has_a_name_and_suffixes(self) -> None:
        assert self.format.name.strip()
        assert self.format.suffixes
        wrong = [suffix for suffix in self.format.suffixes if not suffix.startswith(".") or suffix != suffix.lower()]
        assert wrong == [], "a suffix must start with a dot and be in lower case"

    def test_a_file_gives_its_questions(self, tmp_path: Path) -> None:
        benchmark = self.read(tmp_path, self.sample)
        assert {question.id: question.question for question in benchmark} == self.questions

    def test_saving_and_reading_gives_the_same_benchmark(self, tmp_path: Path) -> None:
        assert (self.format.write is not None) is self.writes
        if self.writes:
            benchmark = self.read(tmp_path, self.sample)
            again = self.read(tmp_path / "again", self.saved(benchmark, tmp_path / "other"))
            assert again == benchmark
            assert list(again) == list(benchmark)

    def test_saving_twice_gives_the_same_file(self, tmp_path: Path) -> None:
        if self.writes:
            benchmark, other = self.read(tmp_path, self.sample), tmp_path / "other"
            assert self.saved(benchmark, other) == self.saved(benchmark, other)

    def test_an_error_names_the_file_the_place_and_the_cure(self, tmp_path: Path) -> None:
        for content, place in self.broken:
            error = self.error(tmp_path, content)
            assert (error.file.parent, bool(error.cure.strip())) == (tmp_path, True), str(error)
            assert place in error.where if place else not error.where, str(error)

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01"], ids=["empty", "not text"])
    def test_a_file_without_a_benchmark_is_an_error(self, tmp_path: Path, content: bytes) -> None:
        assert str(tmp_path) in str(self.error(tmp_path, content))

    def test_a_missing_file_is_an_error(self, tmp_path: Path) -> None:
        with pytest.raises(KareninaError, match="nowhere"):
            self.format.read(tmp_path / f"nowhere{self.file_suffix}", lambda _file, _names: True)

    def error(self, folder: Path, content: str | bytes) -> Any:
        """Return the error in a file with this content: the exception raised, or else the benchmark's first problem.
        Fails if there is no error.
        """
        try:
            benchmark = self.read(folder, content)
        except KareninaError as error:
            return error
        problems = [*benchmark.problems, *benchmark.broken]
        assert problems, f"invalid content was accepted as a benchmark: {content[:200]!r}"
        return problems[0]


class AnyRow(Protocol):
    """The part of `karenina_importing.SourceRow` that the contract uses."""

    @property
    def place(self) -> str:
        """The location of the row, for messages."""


class AnyImportFormat(AnyFormat, Protocol):
    """The additional part of `karenina_importing.ImportFormat` that the contract uses."""

    @property
    def key(self) -> str:
        """The name used with `--from`."""

    @property
    def rows(self) -> Callable[[Path], Iterable[AnyRow]]:
        """The function that yields the rows of a file."""

    @property
    def recognizes(self) -> Callable[[Path], bool] | None:
        """The function that checks whether a file is certainly in this format."""


class ImportFormatContract(FormatContract):
    """The contract for another tool's file format. It has the same samples as `FormatContract`, and these:

    - `suffix`: the suffix of the sample files.
    - `answers`: the recorded answers in `sample`, as pairs of a question id and an answer text.
    - `others`: contents of further files that are not in this format.
    """

    format: ClassVar[AnyImportFormat]
    suffix: ClassVar[str] = ".json"
    answers: ClassVar[Sequence[tuple[str, str]]] = ()
    others: ClassVar[Sequence[str | bytes]] = ()
    writes: ClassVar[bool] = False

    @property
    def file_suffix(self) -> str:
        """The suffix of the sample files."""
        return self.suffix

    def source(self, folder: Path, content: str | bytes) -> Path:
        """Write `content` to a file in `folder` and return its path."""
        file = folder / f"source{self.suffix}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def test_the_format_has_a_name_and_suffixes(self) -> None:
        """`suffixes` may be empty. It must not contain suffixes that other formats use."""
        assert self.format.name.strip()
        assert _KEY.fullmatch(self.format.key), (
            "a key must consist of lower-case letters and digits, separated by single hyphens or underscores"
        )
        assert not {".json", ".jsonl", ".csv", ".yaml"} & {*self.format.suffixes}, (
            "other formats already use this suffix"
        )

    def test_an_error_names_the_file_the_place_and_the_cure(self, tmp_path: Path) -> None:
        """The error for a row that cannot be converted states its location and the reason; a fix is not required."""
        for content, place in self.broken:
            error = self.error(tmp_path, content)
            assert error.file.parent == tmp_path
            assert place in error.where if place else not error.where, str(error)
            assert error.what.strip()

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01"], ids=["empty", "not text"])
    def test_a_file_without_a_benchmark_is_an_error(self, tmp_path: Path, content: bytes) -> None:
        file = self.source(tmp_path, content)
        done = run_command(tmp_path, "import", file.name, "--from", self.format.key, "-o", "imported.yaml")
        assert (done.code, (tmp_path / "imported.yaml").exists()) == (BAD_INPUT, False)
        assert file.name in done.err

    def test_its_files_are_recognized_and_others_are_not(self, tmp_path: Path) -> None:
        recognizes = self.format.recognizes
        assert recognizes is not None, "create the format with karenina_importing.make_import_format"
        assert recognizes(self.source(tmp_path, self.sample)), "`detect` must return Fit.YES for a file like `sample`"
        taken = [sample for sample in (*_COMMON, *self.others) if recognizes(self.source(tmp_path, sample))]
        assert taken == [], "`detect` must not recognize files of other formats"
        assert not recognizes(tmp_path / f"absent{self.suffix}")

    def test_each_row_has_its_place(self, tmp_path: Path) -> None:
        rows = list(self.format.rows(self.source(tmp_path, self.sample)))
        assert rows
        assert all(row.place.strip() for row in rows)

    def test_karenina_imports_a_file_that_it_recognizes(self, tmp_path: Path) -> None:
        self.source(tmp_path, self.sample)
        choices: Mapping[bool, Sequence[str]] = {True: ("--recordings", "answers.jsonl"), False: ()}
        options = choices[bool(self.answers)]
        done = run_command(tmp_path, "import", f"source{self.suffix}", "-o", "imported.yaml", *options, "--json")
        assert done.code == 0, done.err
        checked = run_command(tmp_path, "check", "imported.yaml")
        assert checked.code == 0, checked.out + checked.err
        if self.answers:
            lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()]
            assert sorted((line["id"], line["response"]) for line in lines) == sorted(self.answers)
