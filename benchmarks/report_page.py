"""How quickly a report of 10,000 items is written, opened, filtered and searched in a real browser.

    python benchmarks/report_page.py

Times are medians of three turns. Needs Chromium (see `plugins/report/tests/browser.py`) and Playwright.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Final

from measuring import Target, print_targets

sys.path.insert(0, str(Path(__file__).parents[1] / "plugins" / "report" / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from browser import OpenPage
from chromium import open_browser
from result_builders import result

from karenina_report.page.writer import ReportOptions, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ITEMS: Final = 10_000
TURNS: Final = 3
_FILTER: Final = """
async () => {
    const begun = performance.now();
    const choice = document.querySelector("[data-test=filter-keyword]");
    choice.value = "k3";
    choice.dispatchEvent(new Event("change", {bubbles: true}));
    const shown = () => document.querySelector("[data-test=count]").innerText;
    while (!shown().includes(" of ") && performance.now() - begun < 30000) await new Promise(requestAnimationFrame);
    return performance.now() - begun;
}
"""
_SEARCH: Final = """
async () => {
    const begun = performance.now();
    document.querySelector("[data-test=search-responses]").click();
    const box = document.querySelector("[data-test=search]");
    box.value = "needle";
    box.dispatchEvent(new Event("input", {bubbles: true}));
    const shown = () => document.querySelector("[data-test=count]").innerText;
    while (!shown().startsWith("1 of ") && performance.now() - begun < 30000) await new Promise(requestAnimationFrame);
    return performance.now() - begun;
}
"""


def main() -> None:
    """Measure the times, and print each of them with its target."""
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        file = Path(folder) / "report.html"
        results = [
            result(
                f"q{number}",
                number % 4 != 0,
                answer=("needle " if number == ITEMS - 7 else "hay ") + "It has some words. " * 40,
                keywords=(f"k{number % 7}",),
            )
            for number in range(ITEMS)
        ]
        begun = perf_counter()
        write_page([results], file, ReportOptions(), warn=print)
        written, size = perf_counter() - begun, file.stat().st_size / 1e6
        turns = [_measure(browser, file) for _ in range(TURNS)]
    opened, filtered, searched = (median(column) for column in zip(*turns, strict=True))
    print(f"{ITEMS:,} items, {size:.1f} MB, written in {written:.1f} s")
    print_targets(
        [
            Target("open", opened, 2, " s"),
            Target("filter the index", filtered, 200, " ms"),
            Target("search responses, first time", searched, 2000, " ms"),
        ]
    )


def _measure(browser: Browser, file: Path) -> tuple[float, float, float]:
    """Return the seconds until the page is open, and the milliseconds taken by filtering and searching."""
    context = browser.new_context(offline=True)
    try:
        begun = perf_counter()
        opened = OpenPage(context, file, "#items")
        ready = perf_counter() - begun
        filtered = opened.page.evaluate(_FILTER)
        opened.page.select_option("[data-test=filter-keyword]", "")
        return ready, float(filtered), float(opened.page.evaluate(_SEARCH))
    finally:
        context.close()


if __name__ == "__main__":
    main()
