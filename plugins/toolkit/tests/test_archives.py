"""Zip archives of unknown origin are unpacked within bounds, whatever they state."""

from __future__ import annotations

import re
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import pytest

from karenina_toolkit.files import FileError, read_records
from karenina_toolkit.files.archives import open_archive
from karenina_toolkit.files.bounded_files import limit_file_size

SIZE_AT = {b"PK\x03\x04": 22, b"PK\x01\x02": 24}
"""The places of the unpacked size in the two headers of an entry."""


def write(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def state_size(path: Path, size: int, crc: int | None = None) -> Path:
    """Write another unpacked size, and check sum, into the headers of all entries."""
    data = bytearray(path.read_bytes())
    for mark, at in SIZE_AT.items():
        for found in re.finditer(re.escape(mark), bytes(data)):
            struct.pack_into("<I", data, found.start() + at, size)
            if crc is not None:
                struct.pack_into("<I", data, found.start() + at - 8, crc)
    path.write_bytes(data)
    return path


def read(path: Path, name: str = "a.json") -> bytes:
    with path.open("rb") as file, open_archive(path, file, zstandard_extra="x[zstd]") as archive:
        return archive.read(name)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("size", [0, 1, 65_536, 300_000])
def test_entries_are_read_whole(tmp_path: Path, method: int, size: int) -> None:
    content = (b"abcdefg" * size)[:size]

    assert read(write(tmp_path / "a.zip", {"a.json": content}, method)) == content


def test_no_more_is_unpacked_than_is_stated(tmp_path: Path) -> None:
    path = state_size(write(tmp_path / "a.zip", {"a.json": bytes(200_000_000)}), 1000, zipfile.crc32(bytes(1000)))
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match=r"a\.json: the size or checksum of the unpacked entry differs"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [10, 2000])
def test_an_entry_has_its_stated_size(tmp_path: Path, size: int) -> None:
    with pytest.raises(FileError, match="differs from the one stated in the archive"):
        read(state_size(write(tmp_path / "a.zip", {"a.json": bytes(1000)}, zipfile.ZIP_STORED), size))


@pytest.mark.parametrize(("method", "name"), [(zipfile.ZIP_LZMA, "LZMA"), (zipfile.ZIP_BZIP2, "bzip2")])
def test_methods_without_a_bound_are_refused(tmp_path: Path, method: int, name: str) -> None:
    with pytest.raises(FileError, match=f"the entry is compressed with {name}, which is not supported"):
        read(write(tmp_path / "a.zip", {"a.json": b"{}"}, method))


def test_a_name_stands_for_one_entry(tmp_path: Path) -> None:
    """Or many small entries of one name could each be read as the large one."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr("a.json", "")
        archive.writestr("a.json", "{}")

    with pytest.raises(FileError, match=r"more than one entry named 'a\.json'"):
        read(tmp_path / "a.zip")


def test_the_number_of_entries_is_bounded(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", {f"{number}.json": b"" for number in range(10_001)}, zipfile.ZIP_STORED)

    with limit_file_size(2_000_000), pytest.raises(FileError, match="the archive has more than 10,000 entries"):
        read(path, "1.json")
    assert read(path, "1.json") == b""


@pytest.mark.parametrize("place", [0, 40])
def test_a_damaged_archive_is_an_error(tmp_path: Path, place: int) -> None:
    path = write(tmp_path / "a.zip", {"a.json": b"some text that is compressed"})
    data = bytearray(path.read_bytes())
    data[place] ^= 0xFF
    path.write_bytes(data)

    with pytest.raises(FileError, match=r"damaged|unpacked"):
        read(path)


def test_excel_parts_have_the_size_that_they_state(tmp_path: Path) -> None:
    """openpyxl itself unpacks up to 2 GB of each part."""
    names = ("[Content_Types].xml", "xl/workbook.xml", "xl/sharedStrings.xml")
    path = state_size(write(tmp_path / "t.xlsx", dict.fromkeys(names, bytes(100_000_000))), 100)
    tracemalloc.start()
    try:
        with pytest.raises(FileError, match="the size or checksum of the unpacked entry differs"):
            list(read_records(path))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000  # the modules of openpyxl among them
    finally:
        tracemalloc.stop()


def test_excel_parts_have_methods_with_a_bound(tmp_path: Path) -> None:
    path = write(tmp_path / "t.xlsx", {"xl/workbook.xml": bytes(1000)}, zipfile.ZIP_LZMA)

    with pytest.raises(FileError, match="the entry is compressed with LZMA"):
        list(read_records(path))


@pytest.mark.parametrize(
    ("name", "row"), [("t.jsonl", "{}\n"), ("t.jsonl", "\n"), ("t.jsonl", "x\n"), ("t.json", "{},")]
)
def test_rows_of_json_count_as_those_of_tables(tmp_path: Path, name: str, row: str) -> None:
    rows = row * 30_000
    (tmp_path / name).write_text(rows if name == "t.jsonl" else f"[{rows[:-1]}]", "utf-8")

    with pytest.raises(FileError, match="the table has more than 100,000 cells"):
        list(read_records(tmp_path / name, keep_problems=True, max_bytes=1_000_000))


def test_the_values_of_a_document_are_bounded(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(f"[[{'[],' * 100_000}[]]]", "utf-8")
    (tmp_path / "u.json").write_text('["' + "[],{" * 100_000 + '"]', "utf-8")

    with pytest.raises(FileError, match="the JSON has more than 100,000 values"):
        list(read_records(tmp_path / "t.json", max_bytes=1_000_000))
    assert len(list(read_records(tmp_path / "u.json", max_bytes=1_000_000))) == 1
