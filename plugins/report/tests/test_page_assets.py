"""The script of the page is built from its sources, and the licences of its dependencies are included."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPORT = Path(__file__).parents[1]
SOURCES = REPORT / "js"
ASSETS = REPORT / "src" / "karenina_report" / "page" / "assets"


def test_the_committed_script_is_built_from_its_sources(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        reason = "node and npm are needed to build the script: apt-get install nodejs npm"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    copied = shutil.copytree(SOURCES, tmp_path / "js", ignore=shutil.ignore_patterns("node_modules"))
    for command in (["ci", "--no-audit", "--no-fund"], ["run", "build", "--", str(tmp_path / "built")]):
        done = subprocess.run([npm, *command], cwd=copied, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
    built = {file.name: file.read_bytes() for file in (tmp_path / "built").iterdir()}
    assert built == {file.name: file.read_bytes() for file in ASSETS.iterdir()}, "run: npm ci && npm run build"


def test_each_package_in_the_script_has_its_licence() -> None:
    packages = json.loads((SOURCES / "package-lock.json").read_text("utf-8"))["packages"]
    licences = (ASSETS / "LICENSES.txt").read_text("utf-8")
    for name in ("preact", "htm", "@observablehq/plot", "d3-scale"):
        entry = packages[f"node_modules/{name}"]
        assert f"\n{name} {entry['version']} ({entry['license']})\n" in licences


def test_a_page_without_items_would_be_small() -> None:
    assert sum((ASSETS / name).stat().st_size for name in ("app.js", "app.css")) < 395_000
