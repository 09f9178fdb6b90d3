"""The files of a benchmark's folder that a command can start."""

from __future__ import annotations

from pathlib import Path

import pytest

from karenina_engine.journal.named_files import find_programs


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a benchmark, below that of the user."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "given"
    (folder / "package").mkdir(parents=True)
    for name in ("tool", "a&b", "two words", "package/__main__.py"):
        (folder / name).touch()
    return folder


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("./tool --fast", {"tool"}),
        ("run given/a&b", {"a&b"}),
        ("sh -c 'given/tool; true'", {"tool"}),
        ("sh -c 'cd given && (./tool|cat)'", {"tool"}),
        ("sh -c \"exec sh -c 'given/tool'\"", {"tool"}),
        ("sh -c 'exec \"given/two words\"'", {"two words"}),
        ('sh -c "echo it\'s; given/tool"', {"tool"}),
        ("node -rgiven/tool --require=tool", {"tool"}),
        ("python given/package", {"package/__main__.py"}),
    ],
)
def test_programs_are_found_in_commands(given: Path, command: str, named: set[str]) -> None:
    found = find_programs(given, [command])

    assert {str(Path(one.resolved).relative_to(given.resolve())) for one in found if one.digest is not None} == named


@pytest.mark.parametrize("script", ["given/late.py", "given/more/late", "./late", "late.py"])
def test_an_absent_script_is_compared_later(given: Path, script: str) -> None:
    commands = [
        f"run {script} --token sk-4711 abc/def Bearer",
        f"env KEY=sk-4711 {script}",
        f"sh -c '{script} sk-4711'",
    ]
    found = [one.name for command in commands for one in find_programs(given, [command])]

    assert set(found) == {script}


def test_a_folder_without_a_program_is_compared_later(given: Path) -> None:
    (given / "package/__main__.py").unlink()
    (absent,) = find_programs(given, ["python given/package"])
    (given / "package/__main__.py").touch()

    assert "did not exist" in (absent.dangerous_change(absent.now()) or "")
