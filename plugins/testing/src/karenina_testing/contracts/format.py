"""The contract for every benchmark file format."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pytest

from karenina_core.errors import KareninaError
from karenina_testing.contracts.plugin import PluginContract


class AnyFormat(Protocol):
    """A `karenina_benchmark.formats.format.Format`."""

    @property
    def name(self) -> str:
        """The name in messages."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The file suffixes."""

    @property
    def read(self) -> Callable[[Path, Any], Any]:
        """Read a file."""

    @property
    def write(self) -> Callable[[Any, Path], Iterable[str | bytes]] | None:
        """Write a benchmark."""


class FormatContract(PluginContract):
    """The contract for a benchmark file format, with samples.

    - `format`: the format.
    - `sample`: the content of a file; `questions`: its questions, as a mapping of ids to texts.
    - `broken`: contents of files that are not benchmarks, each with the place of the error (`line 2`; empty for the
      whole file).
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
        """Write `content` to a file in `folder` and return the benchmark read from it."""
        folder.mkdir(exist_ok=True)
        file = folder / f"sample{self.file_suffix}"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.format.read(file, lambda _file, _names: True)

    def saved(self, benchmark: Any, file: Path) -> bytes:
        """Return what saving the benchmark to `file` would write; nothing is written."""
        assert self.format.write is not None
        pieces = self.format.write(benchmark, file)
        return b"".join(piece if isinstance(piece, bytes) else piece.encode() for piece in pieces)

    def test_the_format_has_a_name_and_suffixes(self) -> None:
        assert self.format.name.strip()
        assert self.format.suffixes
        wrong = [one for one in self.format.suffixes if not one.startswith(".") or one != one.lower()]
        assert wrong == [], "a suffix begins with a dot and is in lower case"

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
        """Return the error in a file with this content: the one raised, else the benchmark's first problem."""
        try:
            benchmark = self.read(folder, content)
        except KareninaError as error:
            return error
        found = [*benchmark.problems, *benchmark.broken]
        assert found, f"the content is accepted as a benchmark: {content[:200]!r}"
        return found[0]
