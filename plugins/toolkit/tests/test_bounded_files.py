"""Files within bounds: what the system states of a file is not believed while it is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from karenina_toolkit.files.bounded_files import FileError, iter_lines, limit_file_size, open_file, read_bytes


@pytest.mark.parametrize(
    ("added", "what"),
    [(b"{}\n" * 1000, "contains more than 1,000 bytes"), (b"x" * 3000, "line 11: the line is longer than 1,000 bytes")],
    ids=["lines", "one line"],
)
def test_a_file_that_grows_after_it_was_opened_is_refused(tmp_path: Path, added: bytes, what: str) -> None:
    file = tmp_path / "b.jsonl"
    file.write_bytes(b"{}\n" * 10)

    with limit_file_size(1000), open_file(file) as opened:
        lines = iter_lines(opened, file)
        assert next(lines) == b"{}\n"
        with file.open("ab") as more:
            more.write(added)
        with pytest.raises(FileError, match=what):
            list(lines)


def test_a_pipe_that_delivers_more_than_the_bound_is_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "c.toml"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that what is written stays until it is read
    try:
        pipe.write_bytes(b"#" * 3000)
        with pytest.raises(FileError, match="the file contains more than 1,000 bytes"):
            read_bytes(pipe, max_bytes=1000)
    finally:
        os.close(reader)


def test_only_own_results_may_exceed_the_bound(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    file.write_bytes(b"{}\n" + b"x" * 3000 + b"\n")

    with limit_file_size(1000), open_file(file, any_size=True) as opened:
        assert len(list(iter_lines(opened, file, any_size=True))) == 2
    with limit_file_size(1000), pytest.raises(FileError, match="the limit is 1,000 bytes"):
        open_file(file)


def test_a_pointer_of_git_lfs_is_refused(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
    file, text = tmp_path / "a.parquet", tmp_path / "a.md"
    file.write_bytes(pointer)
    text.write_bytes(pointer.ljust(2000))

    for read in (read_bytes, open_file):
        with pytest.raises(FileError, match="is a Git LFS pointer, not the actual content; run `git lfs pull`"):
            read(file)
    assert read_bytes(text).startswith(b"version")
