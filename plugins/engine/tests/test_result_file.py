"""The result file: each line is written before the event loop waits, and at the end all are in order."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from pathlib import Path

import pytest

from karenina_engine.results.result_file import ResultFile, header_line, read_header

FULL = Path("/dev/full")


async def written(path: Path, lines: dict[int, str]) -> None:
    with ResultFile(path) as file:
        for place, line in lines.items():
            file.write(place, line)
        file.sort_lines()


@pytest.mark.parametrize("length", [0, 100, 9_000, 30_000])
@pytest.mark.parametrize("shuffled", ["not", "near", "backwards", "wholly"])
def test_lines_are_sorted_by_their_indexes_at_the_end(tmp_path: Path, shuffled: str, length: int) -> None:
    chance = random.Random(length)
    keys = {
        "not": lambda place: place,
        "near": lambda place: place + chance.random() * 20,
        "backwards": lambda place: -place,
        "wholly": lambda _place: chance.random(),
    }
    lines = {place: f"{place} é" + "x" * chance.randint(0, length) for place in sorted(range(300), key=keys[shuffled])}

    asyncio.run(written(tmp_path / "r.jsonl", lines))

    expected = [lines[place] for place in sorted(lines)]
    assert lines_of(tmp_path) == expected


@pytest.mark.parametrize("places", [(0, 1), (1, 0)])
def test_the_working_folder_may_change_during_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, places: tuple[int, int]
) -> None:
    async def write() -> None:
        with ResultFile(Path("r.jsonl")) as file:
            for place in places:
                file.write(place, f"line {place}")
            monkeypatch.chdir("/")
            file.sort_lines()

    monkeypatch.chdir(tmp_path)
    asyncio.run(write())

    assert lines_of(tmp_path) == ["line 0", "line 1"]


def lines_of(folder: Path) -> list[str]:
    """Return the lines of the only file in the folder."""
    (path,) = folder.iterdir()
    return path.read_text("utf-8").splitlines()


@pytest.mark.anyio
async def test_lines_are_written_before_the_event_loop_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultFile(path) as file:
        for burst in ([3, 1], [2]):
            for place in burst:
                file.write(place, f"line {place}")
            await asyncio.sleep(0)
            assert lines_of(tmp_path)[-len(burst) :] == [f"line {place}" for place in burst]
        assert lines_of(tmp_path) == ["line 3", "line 1", "line 2"]


def test_the_last_lines_are_written_if_the_run_fails(tmp_path: Path) -> None:
    async def fail() -> None:
        with ResultFile(tmp_path / "r.jsonl") as file:
            file.write(0, "line")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        asyncio.run(fail())
    assert lines_of(tmp_path) == ["line"]


@pytest.mark.skipif(not FULL.exists(), reason="this system has no disk that is always full")
def test_a_full_disk_ends_the_run_with_the_next_line() -> None:
    async def fill(count: int) -> None:
        with ResultFile(FULL) as file:
            for place in range(count):
                file.write(place, "line")
                await asyncio.sleep(0)
                begun.append(place)

    for count in (1, 3):
        begun: list[int] = []
        with pytest.raises(OSError, match="No space left"):  # after the last line from leaving, which tries once more
            asyncio.run(fill(count))
        assert begun == [0]


@pytest.mark.anyio
async def test_a_file_truncated_during_the_run_is_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    with ResultFile(path) as file:
        for place in (1, 0):
            file.write(place, f"line {place}")
        await asyncio.sleep(0)
        with path.open("r+b") as other:
            other.truncate(9)
        with pytest.raises(OSError, match="changed by another program"):
            file.sort_lines()
    assert lines_of(tmp_path) == ["line 1", "li"]


@pytest.mark.skipif(not Path("/dev/stdout").is_symlink(), reason="needs a link for standard output")
def test_standard_output_in_a_file_is_refused(tmp_path: Path) -> None:
    check = "from karenina_engine.results.result_file import *; check_output(Path('/dev/stdout'))"
    with (tmp_path / "out").open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", check], stdout=file, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )

    assert "the output path /dev/stdout is a device" in done.stderr


def test_joined_files_of_several_runs_have_no_header(tmp_path: Path) -> None:
    """The journal, the cost and the distributions of the first run do not apply to the results of the others."""
    path = tmp_path / "r.jsonl"
    first, second = (header_line({"karenina-core": "1"}, run, free=run == "a") for run in "ab")
    results = '{"metadata":{}}\n' * 3
    for text, run in (
        (f"{first}\n{results}", "a"),
        (f"{first}\n{results}{first}\r\n{results}", "a"),
        (f"{first}\n{results}{second}\n{results}", None),
    ):
        path.write_text(text, "utf-8")
        assert read_header(path).get("id") == run
        assert read_header(path).get("free") is (True if run else None)
