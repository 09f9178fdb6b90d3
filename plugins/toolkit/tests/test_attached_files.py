"""Files that can be attached: their types by their bytes, and reading them when they are sent."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path

import pytest

from karenina_core.models.attachments import Attachment
from karenina_core.models.ports import PortError
from karenina_toolkit.attachments.files import AttachmentProblem, MissingAttachment, examine, read_attachment
from karenina_toolkit.attachments.media_types import MAX_FILE
from karenina_toolkit.attachments.photo_position import has_position

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(100))
STARTS = {
    "a.png": PNG,
    "a.JPG": b"\xff\xd8\xff\xe0\0\x10JFIF\0",
    "a.jpeg": b"\xff\xd8\xff\xe1\0\x10Exif\0\0",
    "a.gif": b"GIF89a\1\0\1\0",
    "a.webp": b"RIFF\x10\0\0\0WEBPVP8 ",
    "a.pdf": b"%PDF-1.7\n",
    "a.wav": b"RIFF\x10\0\0\0WAVEfmt ",
    "a.mp3": b"ID3\4\0\0\0\0\0\0",
    "b.mp3": b"\xff\xfb\x90\x00",
}


def write(path: Path, data: bytes) -> Attachment:
    path.write_bytes(data)
    return Attachment.of(path)


def archive() -> bytes:
    """Return a ZIP archive with one file."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as zipped:
        zipped.writestr("evil.sh", "rm -rf /")
    return data.getvalue()


def archive_64() -> bytes:
    """Return a ZIP64 archive with one file."""
    data = archive()
    end = len(data) - 22
    count, size, offset = struct.unpack("<HLL", data[end + 10 : end + 20])
    record = struct.pack("<4sQHHLLQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, end, 1)
    return data[:end] + record + locator + data[end : end + 8] + b"\xff" * 12 + b"\0\0"


def test_a_zip64_archive_in_a_picture_is_refused(tmp_path: Path) -> None:
    attachment = write(tmp_path / "a.png", PNG + archive_64())

    assert zipfile.ZipFile(tmp_path / "a.png").namelist() == ["evil.sh"]
    with pytest.raises(AttachmentProblem, match="archive"):
        examine(attachment)


@pytest.mark.parametrize("name", STARTS)
def test_the_first_bytes_decide_the_media_type(tmp_path: Path, name: str) -> None:
    found = examine(write(tmp_path / name, STARTS[name]))

    kinds = {"png": "image", "gif": "image", "webp": "image", "pdf": "application", "wav": "audio", "mp3": "audio"}
    assert found.media_type.partition("/")[0] == kinds.get(name.rpartition(".")[2].lower(), "image")
    assert found.size == len(STARTS[name])
    assert len(found.sha256) == 64


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.pdf", b"<!DOCTYPE html>\n<html>404</html>", "a web page"),
        ("a.jpg", PNG, r"its name does not end in \.png"),
        ("scan", PNG, "rename or convert"),
        ("a.png", b"", "is empty"),
        ("a.png", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("a.png", b"hello", "is not a PNG"),
        ("a.svg", b"<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        ("a.png", b"\xef\xbb\xbf <?xml version='1.0'?><svg/>", "SVG"),
        ("a.png", PNG + archive(), "archive"),
        ("a.pdf", b"%PDF-1.7\n" + archive(), "archive"),
        ("a.gif", b"GIF89a" + b"Rar!\x1a\x07\x01\x00" + b"x" * 100, "archive"),
        ("a.jpg", b"\xff\xd8\xff\xe0" + b"x" * 500 + b"%PDF-1.4", "and as application/pdf"),
        ("a.bmp", b"BM" + b"x" * 100, "is not a PNG"),
    ],
)
def test_other_and_ambiguous_files_are_refused(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    with pytest.raises(AttachmentProblem, match=why):
        examine(write(tmp_path / name, data))


def test_an_archive_across_two_pieces_is_found(tmp_path: Path) -> None:
    data = PNG.ljust((1 << 20) - 3, b"x") + b"Rar!\x1a\x07\x01\x00"

    with pytest.raises(AttachmentProblem, match="archive"):
        examine(write(tmp_path / "a.png", data))


def test_a_photo_with_two_jpegs_is_accepted(tmp_path: Path) -> None:
    jpeg = STARTS["a.JPG"] + b"\xff\xd9"

    assert examine(write(tmp_path / "a.jpg", jpeg + jpeg)).media_type == "image/jpeg"


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with path.open("wb") as file:
        file.truncate(MAX_FILE + 1)

    with pytest.raises(AttachmentProblem, match=r"20\.0 MB|20 MB"):
        examine(Attachment.of(path))


@pytest.mark.parametrize("make", ["missing", "folder", "pipe"])
def test_a_file_that_cannot_be_read_is_missing(tmp_path: Path, make: str) -> None:
    path = tmp_path / "a.png"
    if make == "folder":
        path.mkdir()
    elif make == "pipe":
        os.mkfifo(path)

    with pytest.raises(MissingAttachment):
        examine(Attachment.of(path))


def test_pages_of_a_picture_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.png", PNG)

    with pytest.raises(AttachmentProblem, match="applies to PDFs"):
        examine(Attachment.of({"file": tmp_path / "a.png", "pages": 1}))


@pytest.mark.parametrize("change", ["other", "longer", "gone"])
def test_a_changed_file_is_not_sent(tmp_path: Path, change: str) -> None:
    path = tmp_path / "a.png"
    found = examine(write(path, PNG))
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(PNG[:-1] + b"!" if change == "other" else PNG + b"!")

    with pytest.raises(PortError, match=r"has changed|cannot be read"):
        read_attachment(found)


def test_an_unchanged_file_is_read_whole(tmp_path: Path) -> None:
    assert read_attachment(examine(write(tmp_path / "a.png", PNG))) == PNG


def test_a_rewritten_file_gets_a_new_digest(tmp_path: Path) -> None:
    before = examine(write(tmp_path / "a.png", PNG))
    after = examine(write(tmp_path / "a.png", PNG + b"more"))

    assert before.sha256 != after.sha256


@pytest.mark.parametrize(
    "value",
    [
        "https://x.org/a.png",
        "data:image/png;base64,AA",
        "file:///etc/a.png",
        3,
        {"pages": 1},
        "",
        {"file": "a.png", "page": 1},
    ],
)
def test_only_paths_are_attachments(value: object) -> None:
    with pytest.raises(ValueError, match=r"a path|is a URL|unknown key 'page'"):
        Attachment.of(value)


@pytest.mark.parametrize("pages", [0, "0", "2-", "a", "1;2", True, "-1", "", [1]])
def test_pages_must_be_numbers_and_ranges(pages: object) -> None:
    with pytest.raises(ValueError, match="pages must be numbers"):
        Attachment.of({"file": "a.pdf", "pages": pages})


def exif(*, order: str, gps: bool) -> bytes:
    """Return the Exif data of a photo, with a latitude in it if `gps` is set."""
    mark = b"II*\0" if order == "<" else b"MM\0*"
    first = struct.pack(f"{order}HHHII", 1, 0x8825 if gps else 0x0110, 4, 1, 26)
    return mark + struct.pack(f"{order}I", 8) + first + b"\0\0\0\0" + struct.pack(f"{order}HHHII", 1, 2, 5, 3, 0)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("gps", [True, False])
def test_the_position_of_a_photo_is_found(order: str, gps: bool) -> None:
    data = exif(order=order, gps=gps)
    wrapped = [
        b"\xff\xd8\xff\xe1\0\x50Exif\0\0" + data,
        b"\x89PNG\r\n\x1a\n\0\0\0\x50eXIf" + data,
        b"RIFF\x50\0\0\0WEBPEXIF\x50\0\0\0" + data,
    ]

    assert [has_position(photo) for photo in wrapped] == [gps] * 3
    assert not has_position(wrapped[0][:30])
