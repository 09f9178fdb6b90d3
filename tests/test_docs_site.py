"""The site of the documentation: it is built without a warning, has no dead links, and works from disk in a browser.

`tox -e docs` has built it before, and names its folder in `BUILT_SITE`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest
import yaml
from browser import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest_plugins = ("chromium",)

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.timeout(900)  # building the site takes minutes on a busy machine
SHOWN = (
    "index.html",
    "how-to/running.html",
    "how-to/tools-and-agents.html",
    "reference/settings.html",
    "reference/stages.html",
    "reference/commands.html",
    "reference/api/karenina_core.html",
    "explanation/distributions.html",
)
"""Pages that are looked at in a browser: long words, wide tables, code, and signatures."""


@dataclass
class Links(HTMLParser):
    """The links, resources and anchors of a page of the site."""

    links: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := values.get(name)))
        if tag == "a":
            self.links.add(values.get("href") or "")
        elif tag != "link" or values.get("rel") != "canonical":
            self.loaded.update(value for name in ("href", "src") if (value := values.get(name)))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site; build it as `tox -e docs` does if it is not built."""
    if built := os.environ.get("BUILT_SITE"):
        return Path(built)
    folder = tmp_path_factory.mktemp("docs")
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    settings |= {"docs_dir": str(folder / "pages"), "site_dir": str(folder / "site")}
    (python,) = (one["mkdocstrings"]["handlers"]["python"] for one in settings["plugins"] if isinstance(one, dict))
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings), "utf-8")
    for command in (
        [ROOT / "scripts/stage_docs.py", folder / "pages"],
        ["-m", "mkdocs", "build", "--strict", "-f", folder / "mkdocs.yml"],
    ):
        done = subprocess.run(
            [sys.executable, *command],
            env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    """Return the links of each page of the site."""
    found = {}
    for file in site.rglob("*.html"):
        found[file] = Links()
        found[file].feed(file.read_text("utf-8"))
    return found


def test_every_page_is_in_the_site(site: Path) -> None:
    docs = ROOT / "docs"
    expected = {page.relative_to(docs).with_suffix(".html") for page in docs.rglob("*.md")}

    assert [page for page in expected if not (site / page).is_file()] == []


def test_links_lead_to_pages_and_anchors(site: Path, pages: dict[Path, Links]) -> None:
    dead = []
    for file, found in pages.items():
        for link in found.links | found.loaded:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("/") or file.name == "404.html":
                continue
            target = Path(os.path.normpath(file.parent / unquote(parts.path))) if parts.path else file
            anchors = pages[target].anchors if target in pages else set()
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in {*anchors, "__skip"}):
                dead.append(f"{file.relative_to(site)}: {link}")

    assert len(pages) > 40
    assert dead == []


def test_pages_load_nothing_from_elsewhere(pages: dict[Path, Links]) -> None:
    loaded = {link for found in pages.values() for link in found.loaded}

    assert [link for link in loaded if urlsplit(link).scheme not in ("", "data")] == []


def open_page(browser: Browser, width: int) -> tuple[Page, list[str]]:
    """Open an empty page; return it, and a list of later errors and requests for anything but files."""
    problems: list[str] = []
    page = browser.new_page(viewport={"width": width, "height": 900}, offline=True)
    page.set_default_timeout(PATIENCE)
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda made: None if made.url.startswith("file:") else problems.append(made.url))
    return page, problems


def test_pages_fit_the_screen_and_make_no_request(site: Path, browser: Browser) -> None:
    page, problems = open_page(browser, 1440)

    for name in SHOWN:
        for width in (1440, 390):
            page.set_viewport_size({"width": width, "height": 900})
            if width == 1440:
                page.goto((site / name).as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
        assert problems == [], name
    page.close()


@pytest.mark.parametrize(("word", "found"), [("retry_rate_limit", "settings"), ("NumericTolerance", "primitives")])
def test_the_search_finds_names_offline(site: Path, browser: Browser, word: str, found: str) -> None:
    page, problems = open_page(browser, 1440)
    page.goto((site / "index.html").as_uri())

    page.locator("input.md-search__input").click()
    page.keyboard.type(word)
    page.locator(f".md-search-result__link[href*='{found}']").first.wait_for()

    assert problems == []
    page.close()
