"""The contract for every file format of another tool that `karenina import` reads."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Protocol

import pytest

from karenina_testing.contracts.format import AnyFormat, FormatContract
from karenina_testing.contracts.installed.command_run import run_command

_BAD_INPUT: Final = 2
_KEY: Final = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")
_COMMON: Final = (
    '{"question": "Which gene?", "answer": "BCL2"}\n',
    '[{"id": "1", "text": "no question"}]',
    "question,answer\nWhich gene?,BCL2\n",
    "{}",
    "",
)
"""Contents of files from no particular tool, which no format may recognize as its own."""


class AnyRow(Protocol):
    """The fields of a `karenina_importing.SourceRow` that the contract reads."""

    @property
    def place(self) -> str:
        """The place of the row, for messages."""


class AnyImportFormat(AnyFormat, Protocol):
    """The additional fields of a `karenina_importing.ImportFormat` that the contract reads."""

    @property
    def key(self) -> str:
        """The name for `--from`."""

    @property
    def rows(self) -> Callable[[Path], Iterable[AnyRow]]:
        """Yield the rows of a file."""

    @property
    def recognizes(self) -> Callable[[Path], bool] | None:
        """Return whether a file is certainly in this format."""


class ImportFormatContract(FormatContract):
    """The contract for a file format of another tool. Its samples are those of `FormatContract`, and:

    - `suffix`: the suffix of the sample files.
    - `answers`: the recorded answers in `sample`, as pairs of question id and answer text.
    - `others`: more contents of files that are not in this format.
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
        """`suffixes` may be empty; a suffix that other formats use does not belong there."""
        assert self.format.name.strip()
        assert _KEY.fullmatch(self.format.key), "a key has lower-case letters, digits and hyphens"
        assert not {".json", ".jsonl", ".csv", ".yaml"} & {*self.format.suffixes}, "other formats have this suffix"

    def test_an_error_names_the_file_the_place_and_the_cure(self, tmp_path: Path) -> None:
        """A row that cannot be converted has a place and a reason; the command adds how to fix it."""
        for content, place in self.broken:
            error = self.error(tmp_path, content)
            assert error.file.parent == tmp_path
            assert place in error.where if place else not error.where, str(error)
            assert error.what.strip()

    @pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00\x01"], ids=["empty", "not text"])
    def test_a_file_without_a_benchmark_is_an_error(self, tmp_path: Path, content: bytes) -> None:
        file = self.source(tmp_path, content)
        done = run_command(tmp_path, "import", file.name, "--from", self.format.key, "-o", "imported.yaml")
        assert (done.code, (tmp_path / "imported.yaml").exists()) == (_BAD_INPUT, False)
        assert file.name in done.err

    def test_its_files_are_recognized_and_others_are_not(self, tmp_path: Path) -> None:
        recognizes = self.format.recognizes
        assert recognizes is not None, "make it with karenina_importing.make_import_format"
        assert recognizes(self.source(tmp_path, self.sample)), "`detect` says Fit.YES of a file like `sample`"
        taken = [one for one in (*_COMMON, *self.others) if recognizes(self.source(tmp_path, one))]
        assert taken == [], "`detect` takes files of others for its own"
        assert not recognizes(tmp_path / f"absent{self.suffix}")

    def test_each_row_has_its_place(self, tmp_path: Path) -> None:
        rows = list(self.format.rows(self.source(tmp_path, self.sample)))
        assert rows
        assert all(row.place.strip() for row in rows)

    def test_karenina_imports_a_file_that_it_recognizes(self, tmp_path: Path) -> None:
        self.source(tmp_path, self.sample)
        wanted: Mapping[bool, Sequence[str]] = {True: ("--recordings", "answers.jsonl"), False: ()}
        options = wanted[bool(self.answers)]
        done = run_command(tmp_path, "import", f"source{self.suffix}", "-o", "imported.yaml", *options, "--json")
        assert done.code == 0, done.err
        checked = run_command(tmp_path, "check", "imported.yaml")
        assert checked.code == 0, checked.out + checked.err
        if self.answers:
            lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()]
            assert sorted((one["id"], one["response"]) for one in lines) == sorted(self.answers)
