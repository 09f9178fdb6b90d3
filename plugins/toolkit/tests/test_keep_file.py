"""`keep_file`: names and types of files that belong to an item."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from karenina_core.data.sections import KeptFile
from karenina_toolkit.kept_files import file_name, keep_file, keeping_files, picture_type


class Noted:
    """A keeper that stores nothing, and notes the media types."""

    def __init__(self) -> None:
        self.types: list[str] = []

    def keep(self, name: str, data: bytes | Path, media_type: str, below: Path | None) -> KeptFile:
        self.types.append(media_type)
        return KeptFile(name=name, media_type=media_type)


@pytest.mark.parametrize(
    ("given_name", "expected"),
    [
        ("plot.png", "plot.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\work\\log.txt", "log.txt"),
        ("..", "file"),
        (".bashrc", "bashrc"),
        ("a\x00b\x1b[31m.txt", None),
        ("", "file"),
        ("x" * 300 + ".csv", "x" * 96 + ".csv"),
        ("x" * 95 + ". " + "y" * 9 + ".csv", "x" * 95 + ".csv"),
        ("x" * 99 + ". and more words", "x" * 99),
    ],
)
def test_a_name_is_a_word_without_folders(given_name: str, expected: str | None) -> None:
    found = file_name(given_name)

    assert expected in (None, found)
    assert "\x00" not in found
    assert "\x1b" not in found


@given(st.text())
def test_any_text_becomes_a_plain_name(text: str) -> None:
    name = file_name(text)

    assert name
    assert name not in (".", "..")
    assert not set(name) & set('/\\\x00\n<>:"|?*')
    assert len(name) <= 100
    assert not name.startswith(".")


def test_outside_of_a_run_the_entry_says_so() -> None:
    assert keep_file("x.txt", b"1") == KeptFile(
        name="x.txt", media_type="text/plain", left_out="the file was provided outside of a run"
    )


def test_the_type_is_given_or_that_of_content_or_name() -> None:
    keeper = Noted()
    with keeping_files(keeper):
        keep_file("a.txt", b"\xff\xd8\xff", media_type="Application/X-Log")
        keep_file("a.txt", b"\xff\xd8\xff")
        keep_file("a.csv", b"1")
        keep_file("a", b"1")
        keep_file("a.csv", b"1", media_type="text/html\r\nx: y")

    assert keeper.types == ["application/x-log", "image/jpeg", "text/csv", "application/octet-stream", "text/csv"]


def test_only_four_types_of_pictures_are_shown() -> None:
    assert picture_type(b"RIFF\0\0\0\0WEBPVP8 ") == "image/webp"
    assert picture_type(b"GIF89a") == "image/gif"
    assert picture_type(b"<svg onload='alert(1)'>") is None
    assert picture_type(b"<html>") is None
