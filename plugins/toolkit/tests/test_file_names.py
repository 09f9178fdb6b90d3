"""Paths with links: what stays in a folder, and what leads in a circle."""

from __future__ import annotations

from pathlib import Path

import pytest

from karenina_toolkit.files.safe_paths import resolve_links, stays_below


@pytest.mark.parametrize("name", ["circle", "circle/file", "two/file"])
def test_a_loop_of_links_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "two").symlink_to("one")
    (tmp_path / "one").symlink_to("two")

    with pytest.raises(OSError, match="symbolic links"):
        resolve_links(tmp_path / name)
    assert not stays_below(tmp_path, name)


@pytest.mark.parametrize(("name", "inside"), [("absent/file", True), ("x" * 300, True), ("..", False), ("out", False)])
def test_paths_of_absent_files_are_resolved(tmp_path: Path, name: str, inside: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "out").symlink_to(tmp_path)

    assert resolve_links(folder / name).is_relative_to(folder.resolve()) is inside
    assert stays_below(folder, name) is inside
