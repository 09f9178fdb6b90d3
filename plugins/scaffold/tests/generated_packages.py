"""Generated packages that an interpreter finds as if they were installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path


def make_importable(package: Path, site: Path) -> None:
    """Add to `site` what an editable installation of a package adds: its metadata, and the path of its source."""
    project = tomllib.loads((package / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"].replace("-", "_"), project["version"]
    info = site / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    head = [f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {version}"]
    needs = [f"Requires-Dist: {need}" for need in project["dependencies"]]
    info.joinpath("METADATA").write_text("\n".join([*head, *needs, ""]), "utf-8")
    groups = project["entry-points"].items()
    lines = [line for group, points in groups for line in (f"[{group}]", *(f"{key} = {points[key]}" for key in points))]
    info.joinpath("entry_points.txt").write_text("\n".join(lines), "utf-8")
    (site / name).symlink_to(package / "src" / name, target_is_directory=True)


def run_python(arguments: Sequence[str | Path], site: Path) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the packages of `site`, in a folder of its own."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("KARENINA_", "PYTEST_"))}
    environment |= {"PYTHONPATH": str(site), "COLUMNS": "300", "NO_COLOR": "1"}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True, timeout=200)
