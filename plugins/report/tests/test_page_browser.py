"""The report in a real browser, opened from disk without a network."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import OpenPage
from command_runs import run_karenina, write_benchmark
from journal_runs import ScriptedRuns
from page_results import ASTRAL, HOSTILE, rich_results
from playwright.sync_api import expect
from result_builders import result, run, save

from karenina_core import plugins as plugin_room
from karenina_core.data.outcome import Outcome
from karenina_core.plugins import Plugins
from karenina_report.commands import commands
from karenina_report.page.writer import ReportOptions, write_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

    from karenina_core.data.result import VerificationResult

pytest_plugins = ("chromium",)

MANY = 2_000
CONTRAST = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
VIEWS = ("#summary", "#items", "#item?at=1", "#comparison")


def write(folder: Path, *runs: object, name: str = "report.html", by: str | None = None) -> Path:
    plugins = Plugins()
    plugins.register(commands, distribution="karenina-report")
    with plugin_room.use_plugins(plugins):
        write_page(list(runs), folder / name, ReportOptions(by=by), warn=pytest.fail)  # type: ignore[arg-type]
    return folder / name


@pytest.fixture(scope="module")
def rich(tmp_path_factory: pytest.TempPathFactory) -> Path:
    verdicts = [True, False, None, Outcome.PARTIAL, Outcome.ABSTAINED, Outcome.TRUNCATED, *[True] * 20]
    other = [False, False, True, Outcome.PARTIAL, Outcome.ABSTAINED, Outcome.TRUNCATED, *[True] * 19, False]
    return write(tmp_path_factory.mktemp("rich"), rich_results(verdicts, model="a"), rich_results(other, model="b"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    results = rich_results([True, False, None, Outcome.ABSTAINED], evil=HOSTILE)
    return write(folder, results, rich_results([False, False, True, True], evil=HOSTILE, model="other"))


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = [
        result(
            f"q{number}",
            number % 4 != 0,
            answer=f"The answer to {number} is {'needle' if number == MANY - 7 else 'hay'}. "
            + "It has some words. " * 20,
            keywords=(f"k{number % 7}",),
        )
        for number in range(MANY)
    ]
    return write(tmp_path_factory.mktemp("many"), results)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [320, 1440])
def test_each_view_opens_without_a_request_or_an_error(browser: Browser, rich: Path, view: str, width: int) -> None:
    with closing(browser.new_context(viewport={"width": width, "height": 800}, offline=True)) as context:
        opened = OpenPage(context, rich, view)
        opened.page.wait_for_timeout(200)
        assert opened.problems == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        sideways = "[...document.querySelectorAll('.wide, .rows')].filter(box => box.scrollWidth > box.clientWidth)"
        assert opened.page.evaluate(f"{sideways}.length") == 0


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a report with several models and judges, one of them a jury, whose names are long."""
    models = ["openrouter/anthropic/claude-sonnet-4-5-20250929-thinking", "together_ai/meta-llama/Llama-3.3-70B-Turbo"]
    judges = ["jury(openai/gpt-4o-mini-2024-07-18, anthropic/claude-haiku-4-5, mistral-large-2411)", "qwen2.5-72b"]
    verdicts = [True, False, None, Outcome.UNDECIDED] * 5
    results = [item for model in models for judge in judges for item in run(verdicts, model=model, judge=judge)]
    for item in results:
        item.template.usage_metadata = {
            "parsing": {"scope": "item", "input_tokens": 12_345_678, "output_tokens": 345_678, "calls": 1}
        }
    return write(tmp_path_factory.mktemp("long"), results, results[:40])


@pytest.mark.parametrize("width", [390, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_table_is_cut_by_long_names(browser: Browser, long_names: Path, width: int, scheme: str) -> None:
    view = {"width": width, "height": 800}
    with closing(browser.new_context(viewport=view, offline=True, color_scheme=scheme)) as context:  # type: ignore[arg-type]
        page = OpenPage(context, long_names, "#summary").page
        cut = "[...document.querySelectorAll('.wide')].filter(box => box.scrollWidth > box.clientWidth)"
        assert page.evaluate(f"{cut}.map(box => box.ariaLabel)") == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_summary_has_rates_plots_and_their_tables(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#summary")
    text = opened.page.locator("[data-view=summary]").inner_text()
    assert "21 of 25 judged items correct; 95% CI" in text
    assert "1 item could not be judged." in text
    plots = opened.page.locator("figure.plot")
    assert plots.count() >= 2
    for at in range(plots.count()):
        assert plots.nth(at).locator("svg[role=img]").count() == 1
        assert plots.nth(at).locator("xpath=following::table").count() >= 1


def test_a_small_report_of_one_file_counts_whole_items_and_its_models(context: BrowserContext, tmp_path: Path) -> None:
    results = [*run([True, False], model="m"), *run([True, True], model="n")]
    page = OpenPage(context, write(tmp_path, save(tmp_path / "r.results.jsonl", results)), "#summary").page

    assert page.locator(".about").inner_text().startswith("4 items of 2 models, written")
    ticks = page.locator("figure.plot").first.locator("svg g[font-variant=tabular-nums] text").all_text_contents()
    assert ticks == ["0", "1", "2"]


def test_the_groups_of_a_single_run_are_shown(context: BrowserContext, tmp_path: Path) -> None:
    results = [item for at in (1, 2) for item in run([at == 1, True, None], replicate=at)]
    opened = OpenPage(context, write(tmp_path, results, by="replicate"), "#summary")
    groups = opened.page.get_by_role("region", name="Groups of the run").get_by_role("row")
    rows = [re.compile(text) for text in ("Correct.*Not judged", r"100\.0%.*221$", r"50\.0%.*121$")]
    expect(groups).to_have_text(rows)


def test_rows_of_a_plot_have_distinct_labels(context: BrowserContext, tmp_path: Path) -> None:
    names = [f"questions about the metabolism of {name}" for name in ("warfarin", "aspirin")]
    results = run([True, False]) + [result(f"k{at}", True, keywords=(name,)) for at, name in enumerate(names)]
    page = OpenPage(context, write(tmp_path, results), "#summary").page
    labels = page.locator("[data-section=keywords] svg[role=img] text").all_text_contents()
    assert [label for label in labels if "\u2026" in label] == [
        "questions abo\u2026ism of aspirin",
        "questions abo\u2026sm of warfarin",
    ]


def test_large_whole_numbers_keep_their_digits(context: BrowserContext, tmp_path: Path) -> None:
    extracted, truth = 12345678901234567891, 12345678901234567890
    item = result("q", False, extracted={"n": extracted, "all": [extracted]})
    item.template.parsed_gt_response = {"n": truth}
    item.template.field_results = {"n": False}
    opened = OpenPage(context, write(tmp_path, [item]), "#item?at=1")
    expect(opened.part("field-row").first).to_contain_text(f"{extracted}")
    expect(opened.part("field-row").first).to_contain_text(f"{truth}")
    expect(opened.part("field-row").nth(1)).to_contain_text(f"[{extracted}]")
    opened.page.locator("details.whole summary").click()
    expect(opened.page.locator("details.whole")).to_contain_text(f'"n": {extracted}')


def test_what_is_cut_on_the_screen_is_printed_whole(context: BrowserContext, many: Path) -> None:
    page = OpenPage(context, many, "#items").page
    rows = page.locator("[data-test=item-row]")
    assert rows.count() < 100
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(rows).to_have_count(1000)
    expect(page.locator(".rows")).to_contain_text("The first 1,000 of 2,000 items.")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(rows).not_to_have_count(1000)


def test_a_long_response_is_printed_whole(context: BrowserContext, tmp_path: Path) -> None:
    page = OpenPage(context, write(tmp_path, run([True], answer=f"{'word ' * 5_000}the end")), "#item?at=1").page
    response = page.locator("[data-test=response]")
    expect(response).not_to_contain_text("the end")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    expect(response).to_contain_text("the end")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    expect(response).not_to_contain_text("the end")


def test_the_answers_of_a_change_show_that_they_are_cut(context: BrowserContext, tmp_path: Path) -> None:
    runs = run([True], answer=f"A{ASTRAL * 300}", model="a"), run([False], answer="B" * 3_000, model="b")
    page = OpenPage(context, write(tmp_path, *runs), "#comparison").page
    long, whole = (page.get_by_role("region", name=f"Answer of {label}") for label in "AB")
    expect(long).to_have_text(re.compile("^A.*\u2026$"))
    expect(whole).to_have_text("B" * 3_000)


def test_runs_without_verdicts_have_no_difference_in_large_type(context: BrowserContext, tmp_path: Path) -> None:
    """The first difference is then the share that is not judged, in which higher is worse."""
    sides = [
        run([Outcome.SCORED] * 6 + [last], model=name)
        for name, last in (("a", Outcome.SCORED), ("b", Outcome.RUBRIC_ERROR))
    ]
    page = OpenPage(context, write(tmp_path, *sides), "#comparison").page
    expect(page.locator("[data-view=comparison]")).to_contain_text("No question has a verdict in both runs.")
    expect(page.locator("[data-view=comparison]")).not_to_contain_text("Flipped questions")
    expect(page.get_by_role("region", name="Differences")).to_contain_text("not judged")
    page.goto(page.url.replace("#comparison", "#summary"))
    expect(page.locator("[data-section=models] table")).to_be_visible()
    expect(page.locator("[data-section=models] figure")).to_have_count(0)


def test_a_plot_is_saved_as_svg(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#summary")
    with opened.page.expect_download() as started:
        opened.page.locator("[data-test=save-svg]").first.click()
    saved = Path(started.value.path()).read_text("utf-8")
    assert started.value.suggested_filename == "outcomes.svg"
    assert saved.startswith("<svg ")
    assert "a (" in saved or "A: a" in saved


def test_items_are_filtered_by_outcome_and_text(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#items")
    expect(opened.part("count")).to_have_text("52 items")
    opened.part("filter-outcome").select_option("wrong")
    expect(opened.part("count")).to_have_text("4 of 52 items")
    opened.part("search").fill("q25")
    expect(opened.part("count")).to_have_text("1 of 52 items")
    expect(opened.part("item-row")).to_contain_text(["wrong"])
    expect(opened.page).to_have_url(re.compile("outcome=wrong"))


def test_a_link_of_the_summary_opens_the_items_of_an_outcome(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#summary")
    opened.page.locator(".card .outcomes a", has_text="abstained").first.click()
    expect(opened.part("count")).to_have_text("1 of 52 items")


def test_undecided_items_have_a_rate_a_color_a_filter_and_a_mark(context: BrowserContext, tmp_path: Path) -> None:
    undecided = result("q", Outcome.UNDECIDED, extracted={"day": "01/02/2024"})
    undecided.template.field_results = {"day": None}
    undecided.template.field_verification_error = "field day: 01/02/2024 can be two dates"
    file = write(tmp_path, [*run([True] * 7 + [False]), undecided], run([True] * 8, model="b"))

    opened = OpenPage(context, file, "#summary")
    expect(opened.part("if-undecided-wrong")).to_have_text("77.8% if the 1 undecided is wrong")
    expect(opened.page.locator("[data-view=summary]")).to_contain_text("If these are wrong")
    badge = opened.page.locator(".card .outcomes a", has_text="undecided")
    expect(badge).to_have_text(re.compile("\u225f\\s*undecided\\s*1"))
    colors = {
        kind: opened.page.locator(f".card .outcome[data-class={kind}]").first.evaluate(
            "one => getComputedStyle(one).color"
        )
        for kind in ("right", "wrong", "undecided")
    }
    assert len(set(colors.values())) == 3
    badge.click()
    expect(opened.part("count")).to_have_text("1 of 17 items")
    opened.part("item-row").click()
    expect(opened.page.locator("[data-view=item] .verdict")).to_contain_text("field day: 01/02/2024 can be two dates")
    expect(opened.part("field-row")).to_contain_text("\u225f undecided")
    opened = OpenPage(context, file, "#comparison")
    expect(opened.part("if-undecided-wrong")).to_have_text(
        re.compile("All items of A: 87.5%; 77.8% if the\\s+1 undecided is wrong.")
    )
    assert opened.problems == []


def test_an_item_highlights_its_excerpts_at_their_characters(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#item?at=1")
    marked = opened.part("excerpt")
    marked.wait_for()
    own_text = "mark => [...mark.childNodes].filter(node => node.nodeType === 3).map(node => node.data).join('')"
    assert marked.evaluate_all(f"marks => marks.map({own_text})") == ["BCL2"]
    expect(opened.part("response")).to_have_text(re.compile("^\U0001f600\U0001f9ec Surely BCL2"))
    opened.page.locator(".excerpts button").first.click()
    expect(marked).to_be_focused()


def test_an_item_shows_fields_traits_vetoes_and_stages(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#item?at=2")
    item = opened.page.locator("[data-view=item]")
    for part in (
        "year",
        "2016",
        "2017",
        "differs",
        "clarity",
        "Short.",
        "no score",
        "a reason",
        "GenerateAnswer",
        "ls",
    ):
        expect(item).to_contain_text(part, use_inner_text=True)


def test_the_comparison_shows_flips_first(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#comparison")
    headings = opened.page.locator("[data-view=comparison] h3")
    expect(headings.nth(0)).to_have_text("Flipped questions")
    expect(headings.nth(1)).to_have_text("All differences")
    expect(opened.part("flip")).to_have_count(2)
    opened.part("flip").locator("summary").first.click()
    expect(opened.page.locator(".pair")).to_contain_text(re.compile(r"percentage points of pass rate, A minus B: \d"))


def measured(seconds: dict[str, float], verdict: bool, model: str) -> list[VerificationResult]:
    """Return an item for each id that took this long, with a keyword, an extracted number and its truth."""
    items = []
    for id, time in seconds.items():
        item = result(id, verdict, model=model, keywords=[f"k{id}", "all"], extracted={"number": 40 if verdict else 6})
        item.template.parsed_gt_response, item.template.field_results = {"number": 40}, {"number": verdict}
        item.metadata.execution_time = time
        items.append(item)
    return items


@pytest.fixture
def two(tmp_path: Path) -> Path:
    a = [
        *measured({"q1": 3.0, "q2": 20.0}, True, "a"),
        *measured({"q3": 1.0}, False, "a"),
        result("q4", True, model="a"),
    ]
    b = [
        *measured({"q1": 5.0, "q2": 4.0}, False, "b"),
        *measured({"q3": 2.0}, True, "b"),
        result("q4", None, model="b"),
    ]
    return write(tmp_path, a, b)


def test_items_are_a_table_that_sorts_and_has_chosen_columns(context: BrowserContext, two: Path) -> None:
    opened = OpenPage(context, two, "#items")
    expect(opened.part("cell-extracted")).to_contain_text(["40", "40", "6"])
    expect(opened.part("cell-truth")).to_contain_text(["40", "40", "40"])
    expect(opened.part("cell-answer")).to_contain_text(["a on q1, 1", "a on q2, 1"])
    expect(opened.part("sort-cost")).to_have_count(0)  # no cost is known
    opened.part("sort-seconds").click()
    expect(opened.part("cell-seconds")).to_contain_text(["1.00 s", "2.00 s", "2.00 s", "2.00 s", "3.00 s", "4.00 s"])
    opened.part("sort-seconds").click()
    expect(opened.part("cell-seconds")).to_contain_text(["20 s", "5.00 s", "4.00 s"])
    opened.part("columns").locator("summary").click()
    opened.part("column-truth").uncheck()
    opened.part("column-keywords").check()
    expect(opened.part("cell-truth")).to_have_count(0)
    expect(opened.part("cell-keywords")).to_contain_text(["kq2, all"])
    opened.part("item-row").first.click()
    expect(opened.page.locator("[data-view=item] h2")).to_have_text("What is q2?")
    opened.page.keyboard.press("j")
    expect(opened.page.locator("[data-view=item] h2")).to_have_text("What is q1?")  # in the order of the list
    assert opened.problems == []


def test_flips_show_values_and_are_filtered(context: BrowserContext, two: Path) -> None:
    opened = OpenPage(context, two, "#comparison")
    expect(opened.part("flip-values")).to_have_text(
        [re.compile(r"number\s+40 \u2192 6, truth 40")] * 2 + [re.compile("6 \u2192 40")]
    )
    opened.part("flip-direction").select_option("b")
    expect(opened.part("flip").locator(".question")).to_have_text(["What is q3?"])
    opened.part("flip-direction").select_option("a")
    opened.part("flip-keyword").select_option("kq2")
    expect(opened.part("flip").locator(".question")).to_have_text(["What is q2?"])
    expect(opened.part("flip-count")).to_have_text("1 of 3 questions")


def test_what_is_left_out_is_above_the_difference(context: BrowserContext, two: Path) -> None:
    for view in ("#summary", "#comparison"):
        opened = OpenPage(context, two, view)
        expect(opened.part("left-out")).to_contain_text("1 question without a verdict in one of the runs")
        expect(opened.part("difference")).to_contain_text("95% CI")
        tops = [opened.part(part).bounding_box() for part in ("left-out", "difference")]
        assert tops[0] is not None
        assert tops[1] is not None
        assert tops[0]["y"] < tops[1]["y"]


def test_one_plot_has_all_runs_for_each_keyword(context: BrowserContext, two: Path) -> None:
    section = OpenPage(context, two, "#summary").page.locator("[data-section=keywords]")
    expect(section.locator("figure.plot")).to_have_count(1)
    expect(section.locator("figure .series")).to_contain_text(["Run A", "Run B"])
    titles = section.locator("svg[role=img] title").all_text_contents()
    assert {"kq1, Run A: 100.0%", "kq1, Run B: 0.0%"} <= set(titles)


def test_an_item_begins_with_its_fields_and_folds_its_metadata(context: BrowserContext, two: Path) -> None:
    opened = OpenPage(context, two, "#item?at=1")
    expect(opened.page.locator("[data-view=item] h3").first).to_have_text("Fields")
    expect(opened.part("metadata").locator("dl")).to_be_hidden()
    opened.part("metadata").locator("summary").click()
    expect(opened.part("metadata").locator("dl")).to_contain_text("Question id")


@pytest.mark.parametrize("judge", ["a", "j"])
def test_an_item_names_a_judge_only_if_there_was_one(context: BrowserContext, tmp_path: Path, judge: str) -> None:
    page = write(tmp_path, [result("q1", True, model="a", judge=judge)])
    facts = OpenPage(context, page, "#item?at=1").part("metadata").locator("dt")

    assert ("Judge" in facts.all_text_contents()) == (judge == "j")


@pytest.mark.parametrize(
    ("tokens", "in_item", "in_summary"),
    [
        ((10, 3), "13 in 1 call", "1: input tokens 10, output tokens 3"),
        ((0, 3), "3 in 1 call", "1: input tokens not reported, output tokens 3"),
        ((0, 0), "not reported in 1 call", "1; their tokens were not reported"),
    ],
)
def test_tokens_that_no_server_reported_are_not_shown_as_none(
    context: BrowserContext, tmp_path: Path, tokens: tuple[int, int], in_item: str, in_summary: str
) -> None:
    page = write(tmp_path, [result("q1", True, tokens=tokens)])

    assert in_item in OpenPage(context, page, "#item?at=1").part("metadata").locator("dd").all_text_contents()
    calls = OpenPage(context, page, "#summary").page.locator("dl.facts dd").all_text_contents()
    assert in_summary in [" ".join(text.split()) for text in calls]


@pytest.mark.parametrize("view", VIEWS)
def test_hostile_texts_run_nothing_and_break_nothing(context: BrowserContext, hostile: Path, view: str) -> None:
    opened = OpenPage(context, hostile, view)
    opened.page.wait_for_timeout(200)
    for button in opened.page.locator("main details > summary").all():
        button.click()
    assert opened.problems == []
    assert opened.page.locator("main img, main svg[onload], main script").count() == 0
    assert opened.page.title().endswith("Karenina report")
    assert opened.page.evaluate("document.querySelectorAll('a[href^=javascript]').length") == 0
    visible = opened.page.locator("main").inner_text()
    assert "</script><img src=x" in visible
    assert not set(visible) & set("\x1b\u202e\u202c\u200b\ufeff")
    assert "⟨U+202E⟩" in visible
    assert "⟨U+001B⟩" in visible


def test_hostile_prompts_are_shown_as_text(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    plugins = ScriptedRuns(answers=lambda _: HOSTILE).plugins()
    plugins.register(commands, distribution="karenina-report")
    benchmark = write_benchmark(tmp_path, "a")
    models = ("-a", "scripted:m", "-j", "scripted:j", "--set", "evaluation_mode=rubric_only")
    for command in (
        ("run", benchmark, *models, "-o", "r.results.jsonl"),
        ("report", "r.results.jsonl", "-o", "report.html", "--benchmark", benchmark),
    ):
        assert run_karenina(*command, plugins=plugins).code == 0
    opened = OpenPage(context, tmp_path / "report.html", "#item?at=1")
    calls = opened.part("call")
    calls.nth(1).locator("summary").click()
    expect(calls.nth(1)).to_contain_text("How many words?")
    expect(calls.nth(1)).to_contain_text("onerror")
    assert opened.problems == []
    assert opened.page.locator("img").count() == 0


def test_thousands_of_items_are_filtered_and_searched(context: BrowserContext, many: Path) -> None:
    """`benchmarks/report_page.py` measures how long this takes."""
    opened = OpenPage(context, many, "#items")
    opened.part("filter-keyword").select_option("k3")
    expect(opened.part("count")).to_have_text("286 of 2,000 items")
    expect(opened.part("item-row").nth(10)).to_be_visible()
    assert opened.part("item-row").count() < 60, "only the rows in view are drawn"

    opened.part("filter-keyword").select_option("")
    opened.part("search-responses").check()
    opened.part("search").fill("needle")
    expect(opened.part("count")).to_have_text("1 of 2,000 items")
    opened.part("item-row").click()
    expect(opened.part("response")).to_contain_text("needle")
    assert opened.problems == []


def test_everything_works_with_the_keyboard(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#summary")
    keyboard = opened.page.keyboard
    keyboard.press("/")
    expect(opened.page.locator("#search")).to_be_focused()
    keyboard.type("q2")
    expect(opened.part("count")).to_contain_text(" of 52 items")
    opened.part("rows").focus()
    for row in range(2):
        keyboard.press("ArrowDown")
        expect(opened.part("item-row").nth(row)).to_be_focused()
    keyboard.press("Enter")
    opened.page.locator("[data-view=item]").wait_for()
    first = opened.page.locator("[data-view=item] h2").inner_text()
    keyboard.press("j")
    expect(opened.page.locator("[data-view=item] h2")).not_to_have_text(first)
    keyboard.press("Escape")
    opened.page.locator("[data-view=items]").wait_for()
    keyboard.press("?")
    expect(opened.page.locator("dialog")).to_be_visible()
    keyboard.press("Escape")
    expect(opened.page.locator("dialog")).to_be_hidden()
    assert opened.problems == []


@pytest.mark.parametrize("view", VIEWS)
def test_axe_finds_no_serious_fault(browser: Browser, rich: Path, view: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    with closing(browser.new_context(color_scheme="light", bypass_csp=True, offline=True)) as context:
        opened = OpenPage(context, rich, view)
        expect(opened.page.locator("main")).not_to_contain_text("Reading\u2026")
        violations = Axe().run(opened.page).response["violations"]
        opened.page.emulate_media(color_scheme="dark")  # which changes nothing but colors
        violations += Axe().run(opened.page, options=CONTRAST).response["violations"]
        serious = [
            (violation["id"], [node["target"] for node in violation["nodes"]])
            for violation in violations
            if violation["impact"] in ("serious", "critical")
        ]
        assert serious == []


def test_a_browser_without_decompression_gets_a_plain_message(context: BrowserContext, rich: Path) -> None:
    context.add_init_script("delete globalThis.DecompressionStream")
    page = context.new_page()
    page.goto(rich.as_uri())
    expect(page.locator("#app")).to_have_text(
        "This browser cannot open the report: it lacks DecompressionStream. Use a browser of 2023 or later."
    )


def test_a_cut_off_file_says_that_it_cannot_be_read(context: BrowserContext, rich: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(rich.read_text("utf-8").replace('id="karenina-head">H4', 'id="karenina-head">AA'), "utf-8")
    page = context.new_page()
    page.goto(broken.as_uri())
    expect(page.locator("#app.problem")).to_have_text(re.compile(r"^The report cannot be read\."))


def test_a_printed_item_has_no_controls(context: BrowserContext, rich: Path) -> None:
    opened = OpenPage(context, rich, "#item?at=1")
    expect(opened.part("response")).to_be_visible()
    opened.page.emulate_media(media="print")
    expect(opened.page.locator("nav[aria-label=Views]")).to_be_hidden()
    expect(opened.part("response")).to_be_visible()


def test_an_empty_selection_and_a_missing_item_are_explained(context: BrowserContext, tmp_path: Path) -> None:
    opened = OpenPage(context, write(tmp_path, run([True])), "#items?text=nothing-like-this")
    expect(opened.page.locator(".empty")).to_have_text("No item passes these filters.")
    opened = OpenPage(context, tmp_path / "report.html", "#item?at=99")
    expect(opened.part("count")).to_have_text("1 item")
