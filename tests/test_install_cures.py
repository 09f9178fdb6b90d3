"""Every extra that a message or a page names exists, and messages say how to install it from where Karenina is from."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import preloaded
import pytest

from karenina_core.catalog import install_command
from karenina_engine.results.tables import LibraryMissing, result_table

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"""['"](?P<name>karenina[\w-]*|\.(?:/[\w/]+)?)\[(?P<extras>[\w,]+)\]['"]""")
FOLDERS = [
    ROOT,
    *sorted(path.parent for kind in ("plugins", "adapters") for path in ROOT.glob(f"{kind}/*/pyproject.toml")),
]


def extras_of(folder: Path) -> set[str]:
    """Return the extras of a distribution; those of `karenina` are named by its members."""
    found = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    if folder != ROOT:
        return set(found["project"].get("optional-dependencies", ()))
    members = (tomllib.loads((one / "pyproject.toml").read_text("utf-8")) for one in FOLDERS[1:])
    return {"all", *(extra for one in members if (extra := one["tool"]["karenina"].get("extra")) is not None)}


def folder_of(name: str) -> Path:
    """Return the folder of a distribution's name, or of a path in the checkout."""
    if name in ("karenina", "."):
        return ROOT
    if name.startswith("./"):
        return ROOT / name
    short = name.removeprefix("karenina-").replace("-", "_")
    return next(one for one in FOLDERS if one.name == short)


FILES = [
    *(ROOT / "docs").rglob("*.md"),
    *(file for kind in ("plugins", "adapters") for file in ROOT.glob(f"{kind}/*/src/**/*.py")),
    *(file for kind in ("plugins", "adapters") for file in ROOT.glob(f"{kind}/*/README.md")),
]


@pytest.mark.parametrize(
    "file", [one for one in FILES if NAMED.search(one.read_text("utf-8"))], ids=lambda one: one.name
)
def test_an_extra_that_is_named_exists(file: Path) -> None:
    for found in NAMED.finditer(file.read_text("utf-8")):
        assert set(found["extras"].split(",")) <= extras_of(folder_of(found["name"])) | {"tests"}, found[0]


@pytest.mark.parametrize("frame", ["to_pandas", "to_polars", "to_arrow"])
def test_the_extra_of_a_missing_library_of_frames_exists(frame: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in ("pandas", "polars", "pyarrow"):
        monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(LibraryMissing) as caught:
        getattr(result_table([]), frame)()
    extras = extras_of(folder_of("karenina-engine"))
    assert str(caught.value).rpartition(": ")[2] in {install_command(f"karenina-engine[{extra}]") for extra in extras}


@pytest.mark.parametrize(
    "file",
    [one for one in FILES if one.suffix == ".py" and "pip install" in one.read_text("utf-8")],
    ids=lambda one: one.name,
)
def test_commands_that_install_members_are_made_by_the_core(file: Path) -> None:
    assert re.findall(r"""pip install [\\'"]*karenina[\w-]*\[""", file.read_text("utf-8")) == []


def test_the_error_json_and_screen_name_the_same_command(tmp_path: Path) -> None:
    file = tmp_path / "questions.xlsx"
    file.write_bytes(b"")
    load = f"from karenina import Benchmark; Benchmark.load({str(file)!r})"
    check = f"from karenina_cli import main; sys.argv[1:] = ['check', {str(file)!r}]; main()"
    shown = [
        preloaded.run(
            [],
            program=f"import sys; sys.modules['openpyxl'] = None; {code}",
            folder=tmp_path,
            environment=os.environ,
            timeout=120,
        )
        for code in (load, check, check.replace("]; main", ", '--json']; main"))
    ]
    command = install_command("karenina-benchmark[excel]")
    assert command in shown[0].stderr
    assert command in shown[1].stdout
    assert json.dumps(command)[1:-1] in shown[2].stdout
