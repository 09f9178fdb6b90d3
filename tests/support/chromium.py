"""A real browser for tests of pages: Chromium, driven by Playwright, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from browser import PATIENCE

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

VARIABLE: Final = "KARENINA_TEST_BROWSER"
LOCK: Final = "BROWSER_LOCK"
"""The variable with a file that is locked while CI installs a browser beside the tests."""
_SHELL: Final = "chromium-headless-shell"
"""A browser without windows: a page takes it a quarter of the processor time of Chromium."""
_NAMES: Final = (_SHELL, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PACKAGE: Final = "@sparticuz/chromium@149.0.0"
_UNPACK: Final = """
import chromium from "@sparticuz/chromium";
console.log(await chromium.executablePath());
"""
_MISSING: Final = (
    f"no browser was found. Install one: apt-get install {_SHELL} or chromium (or node, with which the tests install "
    f"{_PACKAGE} from npm), or name one with {VARIABLE}=PATH"
)


def find_browser() -> str:
    """Return the path of Chromium: named by the environment, of the system, or from npm if node is there.

    Without one, the test is skipped with the line that installs one; in CI it fails.
    """
    if LOCK in os.environ:
        import fcntl  # CI sets the variable where there is `flock`

        with Path(os.environ[LOCK]).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
    found = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, _NAMES)), None) or _from_npm()
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(_MISSING)
        pytest.skip(_MISSING)
    return found


def _from_npm() -> str | None:
    """Install Chromium from npm into the user's cache, and return its path; None without node or the registry."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "karenina" / "test-browser"
    cache.mkdir(parents=True, exist_ok=True)
    if not (cache / "node_modules" / "@sparticuz").is_dir():
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(cache), _PACKAGE]
        if subprocess.run(command, capture_output=True, check=False, timeout=300).returncode:
            return None
    script = cache / "unpack.mjs"
    script.write_text(_UNPACK, "utf-8")
    unpacked = {**os.environ, "TMPDIR": str(cache)}
    done = subprocess.run([node, str(script)], capture_output=True, text=True, check=False, timeout=120, env=unpacked)
    path = done.stdout.strip()
    return path if done.returncode == 0 and Path(path).is_file() else None


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a browser for the tests of a module, which names this module in `pytest_plugins`."""
    with open_browser() as found:
        yield found


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Return a window of 1440 by 900 pixels without a network."""
    with closing(browser.new_context(viewport={"width": 1440, "height": 900}, offline=True)) as found:
        yield found


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Start the browser, and close it at the end."""
    from playwright.sync_api import expect, sync_playwright

    path = find_browser()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as driver:
        options = ["--no-sandbox"] if Path(path).name == _SHELL else ["--no-sandbox", "--headless=new"]
        utf8: dict[str, str | float | bool] = {**os.environ, "LC_ALL": "C.UTF-8"}  # for the names of saved files
        browser = driver.chromium.launch(executable_path=path, args=options, env=utf8)
        try:
            yield browser
        finally:
            browser.close()
