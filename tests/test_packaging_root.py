"""The distribution `karenina`: folders in a checkout, pins in a release, extras for optional parts."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
from email.message import Message
from email.parser import Parser
from pathlib import Path
from shutil import copy, unpack_archive
from urllib.parse import unquote, urlsplit
from zipfile import ZipFile

import pytest
from build import BuildBackendException
from conftest import build_distribution
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
SOURCES = ("hatch_build.py", "pyproject.toml", "README.md", "LICENSE")
EXTRAS = {"karenina-benchmark": {"excel"}, "karenina-engine": {"fast"}}
BUILD_SYSTEM = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[tool.hatch.build.targets.wheel]
bypass-selection = true
"""


def default_members() -> dict[str, Path]:
    """Return the folders of the members that everybody gets, by distribution."""
    files = [ROOT / name / "pyproject.toml" for name in ("karenina_core", "karenina")]
    files += ROOT.glob("plugins/*/pyproject.toml")
    declared = {
        file.parent: tomllib.loads(file.read_text("utf-8")) for file in [*files, *ROOT.glob("adapters/*/*.toml")]
    }
    return {
        canonicalize_name(says["project"]["name"]): folder
        for folder, says in declared.items()
        if folder.name == "karenina_core" or says["tool"]["karenina"].get("default")
    }


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository in small: the core, a default member, and three that not everybody wants."""
    root = tmp_path / "a checkout, with ümlaut"
    root.mkdir()
    for name in SOURCES:
        copy(ROOT / name, root)
    member(root, "karenina_core", "karenina-core")
    member(root, "plugins/template", "karenina-template", "default = true")
    member(root, "plugins/report", "karenina-report", 'extra = "report"')
    member(root, "adapters/claude_tool", "karenina-claude-tool", 'extra = "claude"')
    member(root, "adapters/claude_sdk", "karenina-claude-sdk", 'extra = "claude"')
    (root / "plugins" / "left over" / "__pycache__").mkdir(parents=True)
    return root


def member(root: Path, folder: str, name: str, says: str = "") -> None:
    """Write a member that consists of its declaration only."""
    (root / folder).mkdir(parents=True)
    text = f'[project]\nname = "{name}"\nversion = "0.1.0"\n[tool.karenina]\n{says}\n'
    (root / folder / "pyproject.toml").write_text(text, "utf-8")


def metadata(file: Path) -> Message:
    """Return the metadata of a wheel or a source distribution."""
    if file.suffix == ".whl":
        with ZipFile(file) as wheel:
            (name,) = (name for name in wheel.namelist() if name.endswith("/METADATA"))
            return Parser().parsestr(wheel.read(name).decode())
    with tarfile.open(file) as archive:
        found = archive.extractfile(f"{file.name.removesuffix('.tar.gz')}/PKG-INFO")
        assert found is not None
        return Parser().parsestr(found.read().decode())


def requirements(found: Message, extra: str = "") -> dict[str, Requirement]:
    """Return the requirements without an extra, or of this extra only, by name."""
    every = [Requirement(line) for line in found.get_all("Requires-Dist", [])]
    wanted = [need for need in every if (need.marker is None) is not bool(extra)]
    if extra:
        wanted = [need for need in wanted if need.marker is not None and need.marker.evaluate({"extra": extra})]
    return {need.name: need for need in wanted}


def folder_of(need: Requirement) -> Path:
    """Return the folder of a file URL."""
    assert need.url is not None
    return Path(unquote(urlsplit(need.url).path))


def test_in_a_checkout_the_root_requires_member_folders(tmp_path: Path) -> None:
    needs = requirements(metadata(build_distribution("wheel", ROOT, tmp_path)))

    assert {"karenina-core", "karenina-template", "karenina-local"} <= set(needs)
    assert {name: folder_of(need) for name, need in needs.items()} == default_members()
    assert {name: need.extras for name, need in needs.items() if need.extras} == EXTRAS


def test_pip_finds_each_member_in_its_folder(checkout: Path) -> None:
    member(checkout, "plugins/checks", "karenina-checks", "default = true")  # stands before the core by name
    for file in checkout.glob("*/**/pyproject.toml"):
        core = file.parent.name == "karenina_core"
        more = "[project.optional-dependencies]\nexcel = []\nfast = []" if core else ""
        needs = "[project]" if core else '[project]\ndependencies = ["karenina-core==0.1.0"]'
        text = file.read_text("utf-8").replace("[project]", needs)
        file.write_text(f"{BUILD_SYSTEM}{more}\n{text}", "utf-8")

    options = ["-q", "--dry-run", "--ignore-installed", "--no-index", "--no-build-isolation"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, checkout], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_a_release_pins_versions(tmp_path: Path) -> None:
    needs = requirements(metadata(build_distribution("wheel", ROOT, tmp_path, KARENINA_RELEASE="1")))

    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert {name: str(need.specifier) for name, need in needs.items()} == dict.fromkeys(
        default_members(), f"=={version}"
    )
    assert {name: need.extras for name, need in needs.items() if need.extras} == EXTRAS
    assert [name for name, need in needs.items() if need.url] == []


def test_it_has_no_code(tmp_path: Path) -> None:
    with ZipFile(build_distribution("wheel", ROOT, tmp_path)) as wheel:
        assert {Path(name).name for name in wheel.namelist()} == {"METADATA", "WHEEL", "RECORD", "LICENSE"}


def test_a_source_distribution_pins_and_builds_the_release_wheel(tmp_path: Path) -> None:
    release = metadata(build_distribution("wheel", ROOT, tmp_path / "release", KARENINA_RELEASE="1"))

    source = build_distribution("sdist", ROOT, tmp_path)
    unpack_archive(source, tmp_path / "unpacked")
    (tree,) = (tmp_path / "unpacked").iterdir()
    unpacked = {path.name for path in tree.iterdir()} - {".gitignore"}
    wheel = build_distribution("wheel", tree, tmp_path)

    assert unpacked == {*SOURCES, "PKG-INFO"}
    assert metadata(source).get_all("Requires-Dist") == release.get_all("Requires-Dist")
    assert metadata(wheel).get_all("Requires-Dist") == release.get_all("Requires-Dist")
    assert metadata(wheel).get_all("Provides-Extra") == release.get_all("Provides-Extra")


def test_the_others_are_extras(checkout: Path, tmp_path: Path) -> None:
    found = metadata(build_distribution("wheel", checkout, tmp_path))

    assert set(requirements(found)) == {"karenina-core", "karenina-template"}
    assert set(found.get_all("Provides-Extra", [])) == {"all", "claude", "report"}
    assert set(requirements(found, "report")) == {"karenina-report"}
    assert set(requirements(found, "claude")) == {"karenina-claude-tool", "karenina-claude-sdk"}
    assert set(requirements(found, "all")) == {"karenina-report", "karenina-claude-tool", "karenina-claude-sdk"}
    assert folder_of(requirements(found, "report")["karenina-report"]) == checkout / "plugins" / "report"


def test_extras_are_pinned_in_releases_and_source_distributions(checkout: Path, tmp_path: Path) -> None:
    release = metadata(build_distribution("wheel", checkout, tmp_path / "release", KARENINA_RELEASE="1"))
    unpack_archive(build_distribution("sdist", checkout, tmp_path), tmp_path / "unpacked")
    (tree,) = (tmp_path / "unpacked").iterdir()

    through = metadata(build_distribution("wheel", tree, tmp_path))

    assert {str(need.specifier) for need in requirements(release, "all").values()} == {"==0.1.0"}
    assert set(through.get_all("Provides-Extra", [])) == {"all", "claude", "report"}
    for extra in ("", "all", "claude", "report"):
        assert requirements(through, extra) == requirements(release, extra)


def test_a_member_comes_with_the_extras_that_it_names(checkout: Path, tmp_path: Path) -> None:
    member(checkout, "plugins/meaning", "karenina-meaning", 'extra = "meaning"\nwith = ["models"]')
    file = checkout / "plugins/meaning/pyproject.toml"
    file.write_text(f"{file.read_text('utf-8')}[project.optional-dependencies]\nmodels = []\n", "utf-8")

    for release in ("0", "1"):
        found = metadata(build_distribution("wheel", checkout, tmp_path / release, KARENINA_RELEASE=release))
        for extra in ("meaning", "all"):
            assert requirements(found, extra)["karenina-meaning"].extras == {"models"}


def test_a_large_member_is_left_out_of_the_extra_all(checkout: Path, tmp_path: Path) -> None:
    member(checkout, "adapters/giant", "karenina-giant", 'extra = "giant"\nall = false')

    found = metadata(build_distribution("wheel", checkout, tmp_path))

    assert set(requirements(found, "giant")) == {"karenina-giant"}
    assert "karenina-giant" not in {**requirements(found), **requirements(found, "all")}


@pytest.mark.parametrize("says", ["default = true\nall = false", 'extra = "giant"\nall = "no"'])
def test_a_mark_of_size_that_means_nothing_is_refused(checkout: Path, tmp_path: Path, says: str) -> None:
    member(checkout, "adapters/giant", "karenina-giant", says)

    with pytest.raises(BuildBackendException) as error:
        build_distribution("wheel", checkout, tmp_path)

    assert "all = false" in reason(error.value)


def test_an_extra_that_a_member_does_not_have_is_refused(checkout: Path, tmp_path: Path) -> None:
    member(checkout, "plugins/meaning", "karenina-meaning", 'extra = "meaning"\nwith = ["models"]')

    with pytest.raises(BuildBackendException) as error:
        build_distribution("wheel", checkout, tmp_path)

    assert "must name extras of this distribution (it has none)" in reason(error.value)


@pytest.mark.parametrize(
    "says",
    ["", "default = false", 'default = true\nextra = "x"', 'extra = "all"'],
    ids=["nothing", "not default and no extra", "both", "the reserved name"],
)
def test_a_member_has_to_say_where_it_belongs(checkout: Path, tmp_path: Path, says: str) -> None:
    member(checkout, "plugins/undecided", "karenina-undecided", says)

    with pytest.raises(BuildBackendException) as error:
        build_distribution("wheel", checkout, tmp_path)

    assert "plugins/undecided/pyproject.toml: write under [tool.karenina]" in reason(error.value)


def test_without_folders_and_pins_there_is_nothing_to_require(tmp_path: Path) -> None:
    for name in SOURCES:
        copy(ROOT / name, tmp_path)

    with pytest.raises(BuildBackendException) as error:
        build_distribution("wheel", tmp_path, tmp_path / "out")

    assert "build karenina from a whole checkout" in reason(error.value)


def reason(error: BuildBackendException) -> str:
    """Return the output of the backend's process."""
    written = getattr(error.exception, "stderr", b"")
    assert isinstance(written, bytes)
    return written.decode()
