"""Attachments in reports: pictures with `--attachments`, and otherwise names and digests."""

from __future__ import annotations

import hashlib
import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import OpenPage
from command_runs import CommandResult, run_karenina
from playwright.sync_api import expect
from result_builders import result, save
from test_page_document import blocks

from karenina_core.plugins import Plugins
from karenina_report.commands import commands

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytest_plugins = ("chromium",)


def png(width: int, height: int) -> bytes:
    """Return a white picture."""
    rows = zlib.compress((b"\0" + b"\xff" * 3 * width) * height)
    parts = (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )


PICTURE = png(1600, 400)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    item = result("q", True)
    described = {"media_type": "image/png", "sha256": hashlib.sha256(PICTURE).hexdigest(), "size": len(PICTURE)}
    item.extensions["karenina-generation"] = {"attachments": [{"name": "plot.png", **described}]}
    (tmp_path / "files/deep").mkdir(parents=True)
    (tmp_path / "files/plot.png").write_bytes(b"another picture of that name")
    (tmp_path / "files/deep/plot.png").write_bytes(PICTURE)
    return save(tmp_path / "r.results.jsonl", [item])


def report(results: Path, *more: object) -> CommandResult:
    plugins = Plugins()
    plugins.register(commands, distribution="karenina-report")
    return run_karenina("report", results, "-o", results.parent / "report.html", *map(str, more), plugins=plugins)


def test_without_a_folder_name_and_digest_are_shown(results: Path) -> None:
    report(results)

    (file,) = blocks(results.parent / "report.html")["chunk-0"][0]["files"]
    assert file["name"] == "plot.png"
    assert hashlib.sha256(PICTURE).hexdigest()[:12] in file["note"]
    assert "data" not in file


def test_a_changed_file_is_not_shown(results: Path) -> None:
    (results.parent / "files/deep/plot.png").write_bytes(png(10, 10))

    report(results, "--attachments", results.parent / "files")

    (file,) = blocks(results.parent / "report.html")["chunk-0"][0]["files"]
    assert "does not contain it" in file["note"]
    assert "data" not in file


def test_a_missing_folder_is_an_error(results: Path) -> None:
    done = report(results, "--attachments", results.parent / "nowhere")

    assert done.code == 2
    assert "no such folder" in done.err


@pytest.mark.parametrize("width", [400, 1400])
def test_a_picture_fits_the_window(browser: Browser, results: Path, width: int) -> None:
    report(results, "--attachments", results.parent / "files")

    with closing(browser.new_context(viewport={"width": width, "height": 800}, offline=True)) as context:
        opened = OpenPage(context, results.parent / "report.html", "#item?at=1")
        picture = opened.page.locator("[data-test=file] img")
        expect(picture).to_be_visible()
        assert picture.evaluate("one => one.naturalWidth") == 1600
        assert picture.evaluate("one => one.clientWidth") <= width
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.problems == []
