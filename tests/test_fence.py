"""The contracts of `.importlinter` cover every distribution and room without exceptions, and the core stays small.

`tox -e lint` checks the imports themselves.
"""

from __future__ import annotations

import tomllib
from configparser import ConfigParser
from pathlib import Path
from runpy import run_path

import pytest
from source_counts import ROOT, lines_of_code, packages


def fence() -> ConfigParser:
    """Return the configuration of import-linter."""
    parser = ConfigParser()
    parser.read(ROOT / ".importlinter", "utf-8")
    return parser


def lines(value: str) -> list[str]:
    """Return the entries of a setting of several lines."""
    return [line.strip() for line in value.splitlines() if line.strip()]


def test_no_import_is_exempt() -> None:
    exempting = {"ignore_imports", "skip_descendants"}
    found = [name for name, section in fence().items() if exempting & set(section)]

    assert found == []
    assert "exclude_type_checking_imports" not in fence()["importlinter"]


@pytest.mark.parametrize("file", [".importlinter", "requirements-dev.txt"])
def test_lists_of_members_are_those_of_their_projects(file: str) -> None:
    """Write them with `python scripts/member_lists.py`."""
    text = (ROOT / file).read_text("utf-8")
    script = run_path(str(ROOT / "scripts" / "member_lists.py"))
    members = list(script["members"]())
    newcomer = members[0]._replace(package="karenina_new", folder="plugins/new", kind="stage")

    assert script["fill"](text, members) == text
    assert text.count("new") < script["fill"](text, [*members, newcomer]).count("new")


def test_every_distribution_is_inside_the_fence() -> None:
    named = {
        name: set(lines(section.get("modules", "") + section.get("source_modules", "") + section.get("layers", "")))
        for name, section in fence().items()
        if name.startswith("importlinter:contract:")
    }

    assert set(lines(fence()["importlinter"]["root_packages"])) == set(packages())
    assert set(packages()) <= set().union(*named.values())
    assert set(lines(fence()["importlinter:contract:cycles"]["ancestors"])) == set(packages())


def test_every_room_is_in_a_layer() -> None:
    rooms_of = {"core": "karenina_core", "engine": "karenina_engine", "template": "karenina_template"}
    for name, package in rooms_of.items():
        listed = lines(fence()[f"importlinter:contract:{name}_rooms"]["layers"])
        listed = [room.strip() for line in listed for room in line.replace("|", ":").split(":")]
        rooms = {path.name for path in packages()[package].iterdir() if (path / "__init__.py").is_file()}

        assert rooms <= set(listed), package


def test_every_module_of_the_core_is_in_a_layer() -> None:
    listed = lines(fence()["importlinter:contract:core_rooms"]["layers"])
    modules = {path.stem for path in packages()["karenina_core"].glob("*.py")} - {"__init__"}

    assert modules <= {name.strip() for line in listed for name in line.split(":")}


def test_the_core_requires_four_libraries() -> None:
    project = tomllib.loads((ROOT / "karenina_core" / "pyproject.toml").read_text("utf-8"))["project"]

    assert [need.partition(">")[0] for need in project["dependencies"]] == ["anyio", "pluggy", "pydantic", "stevedore"]


def test_the_core_stays_small() -> None:
    files = sorted(packages()["karenina_core"].rglob("*.py"))

    assert sum(map(lines_of_code, files)) <= 4_500


def test_the_machinery_of_plugins_stays_small() -> None:
    """Return the plugin machinery: modules that find, load and register plugins and call hooks."""
    core = packages()["karenina_core"]
    files = [*(core / "plugins").glob("*.py"), core / "hooks.py", *core.rglob("hookspecs.py")]

    assert sum(map(lines_of_code, set(files))) <= 500


def test_lines_of_code_are_neither_blank_nor_comments_nor_docstrings(tmp_path: Path) -> None:
    file = tmp_path / "example.py"
    text = '"""A module."""\n\n# a comment\nTEXT = """one\ntwo"""\n"""A text."""\nprint(  # here\n    TEXT\n)\n'
    file.write_text(text)

    assert lines_of_code(file) == 5
