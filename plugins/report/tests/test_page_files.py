"""Files of items in the page: pictures, texts and links, none of which run any code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import OpenPage
from command_runs import run_karenina
from playwright.sync_api import expect
from result_builders import result, save
from test_page_document import blocks

from karenina_core.data.sections import KeptFile
from karenina_core.plugins import Plugins
from karenina_engine.results.kept_files import FileStore
from karenina_report.commands import commands
from karenina_report.page import items

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext

    from karenina_core.data.result import VerificationResult

pytest_plugins = ("chromium",)

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8ffff3f0005fe02fe0def46b8"
    "0000000049454e44ae426082"
)
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload=\"document.title='run'\"><script>alert(1)</script></svg>"
HTML = b"<!doctype html><script>document.title='run'</script>"


def with_files(folder: Path, *files: tuple[str, bytes, str]) -> tuple[Path, VerificationResult]:
    """Return the results of one item with these files: names, contents and the types that they claim to have."""
    store = FileStore(folder / "r.files", 10**7, 10**9)
    item = result("q", True)
    item.metadata.files = [store.add(name, content, kind, None, "q") for name, content, kind in files]
    return save(folder / "r.results.jsonl", [item]), item


def report(results: Path) -> str:
    plugins = Plugins()
    plugins.register(commands, distribution="karenina-report")
    done = run_karenina("report", results, "-o", results.parent / "report.html", plugins=plugins)
    assert done.code == 0, done.err
    return done.err


def shown(folder: Path) -> list[dict[str, object]]:
    files: list[dict[str, object]] = blocks(folder / "report.html")["chunk-0"][0]["files"]
    return files


def test_a_picture_is_shown_and_everything_else_saved(tmp_path: Path) -> None:
    files = [("a.png", PNG, "image/png"), ("b.svg", SVG, "image/svg+xml"), ("c.bin", b"\0\1", "image/png")]
    report(with_files(tmp_path, *files)[0])

    assert [(file["name"], file["picture"], file["text"]) for file in shown(tmp_path)] == [
        ("a.png", "image/png", False),
        ("b.svg", None, True),
        ("c.bin", None, False),
    ]


def test_what_is_not_in_the_page_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MOST_OF_FILE", 50)
    files = [
        ("large", b"x" * 51, "text/plain"),
        ("gone", b"gone", "text/plain"),
        ("changed", b"as it was", "text/plain"),
    ]
    results, item = with_files(tmp_path, *files)
    item.metadata.files.append(KeptFile(name="dropped", media_type="text/plain", left_out="it has 5,000 MB"))
    save(results, [item])
    (tmp_path / "r.files" / str(item.metadata.files[1].sha256)).unlink()
    (tmp_path / "r.files" / str(item.metadata.files[2].sha256)).write_bytes(b"as it is!")

    printed = report(results)

    notes = {str(file["name"]): str(file["note"]) for file in shown(tmp_path)}
    assert notes["large"].startswith("the file is too large for the page; its path is ")
    assert notes["gone"] == "the file is not in the folders next to the results"
    assert notes["changed"] == "the content of the file has changed since the run"
    assert notes["dropped"] == "left out by the run: it has 5,000 MB"
    assert (
        "the contents of 1 file of items were left out: the file is not in the folders next to the results" in printed
    )
    assert all("data" not in file for file in shown(tmp_path))


def test_the_page_has_a_limit_for_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "MOST_OF_PAGE", 100)
    report(with_files(tmp_path, *((f"{number}", b"%d" % number * 40, "text/plain") for number in range(4)))[0])

    assert ["data" in file for file in shown(tmp_path)] == [True, True, False, False]


def test_an_export_names_the_folder_of_the_files(tmp_path: Path) -> None:
    plugins = Plugins()
    plugins.register(commands, distribution="karenina-report")
    results, _ = with_files(tmp_path, ("a.png", PNG, "image/png"))
    done = run_karenina("export", results, "-o", tmp_path / "r.json", plugins=plugins)

    assert f"The export does not include the files of items. They are in {tmp_path / 'r.files'}" in done.err


def test_nothing_in_a_file_runs_in_the_browser(tmp_path: Path, context: BrowserContext) -> None:
    files = [
        ("a.png", PNG, "image/png"),
        ("b.svg", SVG, "image/png"),
        ("c.html", HTML, "text/html"),
        ("<img src=x onerror=alert(1)>.txt", b"plain", "text/plain"),
    ]
    report(with_files(tmp_path, *files)[0])
    opened = OpenPage(context, tmp_path / "report.html", "#item?at=1")

    rows = opened.part("file")
    expect(rows).to_have_count(4)
    expect(rows.locator("img")).to_have_count(1)
    expect(rows.locator("img")).to_have_js_property("naturalWidth", 1)
    rows.locator("summary").nth(0).click()
    expect(rows.nth(1)).to_contain_text("onload=")
    assert opened.page.title() != "run"
    assert [problem for problem in opened.problems if not problem.startswith("request: data:")] == []
    links = rows.locator("a")
    assert [links.nth(at).get_attribute("download") is not None for at in range(4)] == [True] * 4
    assert links.nth(2).get_attribute("href").startswith("data:application/octet-stream;base64,")
