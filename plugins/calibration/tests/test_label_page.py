"""The page for labelling in a real browser, opened from disk without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from browser import OpenPage
from labelled import read_page
from playwright.sync_api import expect
from runs import RIGHT, errant_run, karenina, result, save

from karenina_calibration.answers import collect_answers
from karenina_calibration.label_file import read_labels
from karenina_engine.results.result_set import read_results
from karenina_report import write_report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, ViewportSize

pytest_plugins = ("chromium",)

HOSTILE = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\u202e]]> {{7*7}}"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return save(tmp_path / "genes.results.jsonl", errant_run())


def write(run: Path, *options: str) -> Path:
    """Write the page of a run."""
    page = run.with_name("label.html")
    done = karenina("label", run, "--page", page, *options)
    assert done.code == 0, done.err
    return page


def label_here(opened: OpenPage) -> None:
    """Give the labels of the shown answer and of the extracted gene by keyboard."""
    progress = opened.part("progress").inner_text()
    right = opened.part("answer").inner_text() == RIGHT
    opened.page.keyboard.press("y" if right else "n")
    expect(opened.part("asked")).to_have_count(2)
    gene = opened.part("asked").nth(1).inner_text()
    opened.page.keyboard.press("y" if ("BCL2" in gene) == right else "n")
    expect(opened.part("progress")).not_to_have_text(progress)


def save_labels(opened: OpenPage, folder: Path) -> Path:
    """Save the labels by keyboard, and return the file."""
    with opened.page.expect_download() as waiting:
        opened.page.keyboard.press("s")
    file = folder / waiting.value.suggested_filename
    waiting.value.save_as(file)
    return file


def test_ten_labels_by_keyboard_are_saved_and_calibrate(run: Path, context: BrowserContext) -> None:
    opened = OpenPage(context, write(run, "--labeller", "ann"), "")
    expect(opened.part("progress")).to_have_text("0 of 60 labelled")
    for _ in range(10):
        label_here(opened)
    expect(opened.part("progress")).to_have_text("10 of 60 labelled")
    expect(opened.part("number")).to_have_text("Answer 11 of 60")
    file = save_labels(opened, run.parent)

    assert file.name == "genes.labels-ann.jsonl"
    assert opened.problems == []
    data = karenina("calibrate", run, file, "--json").json
    assert (data["labelled"], data["labellers"]) == (10, {"ann": 10})
    assert data["corrected"][0]["labels"] == 10
    table = data["verdicts"][0]["table"]
    assert len(data["worst"]) == table["correct"]["not right"] + table["not correct"]["right"]
    assert "10 labels were read" in karenina("label", run, "--from", file).err
    assert "10 of 60 drawn answers are labelled" in karenina("label", run, "--labeller", "ann", type="q\n").err


def test_labels_given_in_a_report_are_read_as_not_blind(run: Path, context: BrowserContext) -> None:
    report = run.with_name("report.html")
    write_report(run, output=report)
    opened = OpenPage(context, report, "#item?at=1")
    expect(opened.part("label-file")).to_have_count(0)
    opened.part("label").get_by_role("button", name="Not right").click()
    opened.page.reload()
    not_right = opened.part("label").get_by_role("button", name="Not right")
    expect(not_right).to_have_attribute("aria-pressed", "true")
    opened.page.goto(f"{report.as_uri()}#item?at=2")
    expect(not_right).to_have_attribute("aria-pressed", "false")
    opened.part("label").get_by_role("button", name="Right", exact=True).click()
    opened.part("labeller").fill("ann")
    with opened.page.expect_download() as started:
        opened.part("save-labels").click()
    saved = run.with_name(started.value.suggested_filename)
    started.value.save_as(saved)
    assert opened.problems == []

    done = karenina("label", run, "--from", saved)

    assert "2 labels were read" in done.err
    labels = read_labels([saved])
    assert sorted((label.labeller, label.right, label.blind) for label in labels) == [
        ("ann", False, False),
        ("ann", True, False),
    ]
    answers = collect_answers(read_results(run)).by_id
    assert {label.item for label in labels} <= answers.keys()
    assert {label.truth for label in labels} == {answers[label.item].truth_id for label in labels}
    assert saved.name == "report.labels-ann.jsonl"


def test_a_blind_page_contains_no_verdict(run: Path) -> None:
    head = read_page(write(run))

    keys = {key for item in head["items"] for key in item}
    assert keys == {"item", "question", "answer", "truth", "why", "truth_id", "asks_verdict", "verdicts", "extractions"}
    assert not any(item["verdicts"] for item in head["items"])
    values = [value for item in head["items"] for value in item["extractions"]]
    assert {key for value in values for key in value} == {"kind", "name", "value", "asked"}
    assert not {"seed", "strata"} & head.keys()
    assert any(
        "correct" in line for item in read_page(write(run, "--show-verdict"))["items"] for line in item["verdicts"]
    )


@pytest.fixture
def attached(tmp_path: Path) -> tuple[Path, str]:
    """Return a run whose question attached a wide picture, and the digest of the picture."""
    rows = zlib.compress((b"\0" + b"\xff" * 3 * 1600) * 200)
    parts = (b"IHDR", struct.pack(">IIBBBBB", 1600, 200, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b"")
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    picture = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/plot.png").write_bytes(picture)
    digest = hashlib.sha256(picture).hexdigest()
    described = {"name": "plot.png", "media_type": "image/png", "sha256": digest, "size": len(picture)}
    results = errant_run()
    for one in results:
        one.extensions["karenina-generation"] = {"attachments": [described]}
    return save(tmp_path / "genes.results.jsonl", results), digest


@pytest.mark.parametrize("width", [400, 1400])
def test_an_attached_picture_fits_the_window(browser: Browser, attached: tuple[Path, str], width: int) -> None:
    run, _ = attached
    page = write(run, "--labeller", "ann", "--attachments", str(run.parent / "pictures"))

    with closing(browser.new_context(viewport={"width": width, "height": 800}, offline=True)) as context:
        opened = OpenPage(context, page, "")
        picture = opened.part("attachment").locator("img")
        expect(picture).to_be_visible()
        assert picture.evaluate("one => one.naturalWidth") == 1600
        assert picture.evaluate("one => one.clientWidth") <= width
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
        assert opened.problems == []


def test_without_a_folder_the_name_and_digest_are_shown(attached: tuple[Path, str], context: BrowserContext) -> None:
    run, digest = attached

    opened = OpenPage(context, write(run, "--labeller", "ann"), "")

    expect(opened.part("attachment")).to_contain_text("plot.png")
    expect(opened.part("attachment")).to_contain_text(digest[:12])
    expect(opened.part("attachment").locator("img")).to_have_count(0)


def test_extracted_values_appear_after_the_first_reply(run: Path, context: BrowserContext) -> None:
    opened = OpenPage(context, write(run, "--labeller", "ann"), "")

    expect(opened.part("asked")).to_have_text(["Is the answer right?"])
    opened.page.get_by_role("button", name="Unclear").click()
    expect(opened.part("asked")).to_have_count(2)
    opened.page.get_by_role("button", name="No (n)").click()
    expect(opened.part("number")).to_have_text("Answer 2 of 60")
    opened.page.keyboard.press("ArrowLeft")
    expect(opened.page.locator('button[aria-pressed="true"]')).to_have_text(["Unclear", "No"], use_inner_text=True)


def test_drafts_survive_a_reload_for_each_labeller(run: Path, context: BrowserContext) -> None:
    page = write(run, "--labeller", "ann")
    opened = OpenPage(context, page, "")
    label_here(opened)
    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready=true]")
    expect(opened.part("progress")).to_have_text("1 of 60 labelled")

    name = opened.part("labeller")
    name.fill("ben")
    name.press("Enter")
    expect(opened.part("progress")).to_have_text("0 of 60 labelled")
    save(run, errant_run(90))
    run.with_name("genes.labels.jsonl").unlink()
    opened = OpenPage(context, write(run, "--labeller", "ann"), "")
    expect(opened.part("progress")).to_have_text("0 of 60 labelled")


def test_a_label_needs_a_name(run: Path, context: BrowserContext) -> None:
    opened = OpenPage(context, write(run), "")

    opened.page.keyboard.press("y")
    expect(opened.part("problem")).to_contain_text("Write your name first")
    opened.page.keyboard.press("n")
    expect(opened.part("labeller")).to_have_value("")
    opened.part("labeller").fill("zoë")
    opened.page.keyboard.press("Enter")
    label_here(opened)
    assert save_labels(opened, run.parent).name == "genes.labels-zoë.jsonl"


def test_a_page_that_is_opened_again_shows_the_drafts(run: Path, context: BrowserContext) -> None:
    opened = OpenPage(context, write(run), "")
    opened.part("labeller").fill("zoë")
    opened.page.keyboard.press("Enter")
    label_here(opened)
    opened.page.keyboard.press("y")
    expect(opened.part("progress")).to_have_text("1 of 60 labelled, 1 with an open question")

    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready=true]")

    expect(opened.part("labeller")).to_have_value("zoë")
    expect(opened.part("progress")).to_have_text("1 of 60 labelled, 1 with an open question")


def test_drafts_for_another_truth_are_asked_again(run: Path, context: BrowserContext) -> None:
    """Another truth that leaves the verdicts as they are gives results with the same digest."""
    page = write(run, "--labeller", "ann", "--seed", "1")
    opened = OpenPage(context, page, "")
    label_here(opened)
    changed = [
        item.model_copy(update={"metadata": item.metadata.model_copy(update={"raw_answer": "MCL1"})})
        for item in errant_run()
    ]
    save(run, changed)
    run.with_name("genes.labels.jsonl").unlink()

    write(run, "--labeller", "ann", "--seed", "1")
    opened.page.reload()
    opened.page.wait_for_selector("html[data-ready=true]")
    expect(opened.part("truth")).to_contain_text("MCL1")
    expect(opened.part("progress")).to_have_text("0 of 60 labelled")
    label_here(opened)
    (label,) = read_labels([save_labels(opened, run.parent)])
    assert label.truth == collect_answers(changed).by_id[label.item].truth_id


@pytest.mark.parametrize(("reference", "shown"), [("BCL2", "BCL2"), ("B-cell 2", "B-cell 2; gene: BCL2")])
def test_a_truth_is_shown_once(tmp_path: Path, reference: str, shown: str) -> None:
    item = result("q", True)
    item = item.model_copy(update={"metadata": item.metadata.model_copy(update={"raw_answer": reference})})
    run = save(tmp_path / "genes.results.jsonl", [item])

    assert read_page(write(run))["items"][0]["truth"] == shown
    assert f"Truth     {shown}\n" in karenina("label", run, type="q\n").out


def test_a_value_that_was_not_found_is_nothing(tmp_path: Path) -> None:
    run = save(tmp_path / "genes.results.jsonl", [result("q", False, extracted={"gene": None})])

    (asked,) = [extraction["asked"] for extraction in read_page(write(run))["items"][0]["extractions"]]
    assert asked == "Does the answer give no value for gene?"
    assert asked in karenina("label", run, type="y\nq\n").out


def test_notes_are_saved(run: Path, context: BrowserContext) -> None:
    opened = OpenPage(context, write(run, "--labeller", "ann"), "")
    opened.page.get_by_text("Note", exact=True).click()
    opened.part("note").fill("yes, no: both are named")
    opened.page.locator("main").focus()
    label_here(opened)

    line = json.loads(save_labels(opened, run.parent).read_text("utf-8"))
    assert line["label"]["note"] == "yes, no: both are named"


def test_hostile_texts_stay_texts(tmp_path: Path, context: BrowserContext) -> None:
    results = [
        result(f"{HOSTILE}{at}", True, answer=HOSTILE, text=f"{HOSTILE} {at}", extracted={HOSTILE: HOSTILE})
        for at in range(6)
    ]
    page = write(save(tmp_path / "genes.results.jsonl", results), "--labeller", HOSTILE)
    assert HOSTILE not in page.read_text("utf-8")
    opened = OpenPage(context, page, "")
    opened.page.keyboard.press("y")
    opened.page.keyboard.press("n")

    expect(opened.part("answer")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(opened.part("answer")).to_contain_text("\u27e8U+202E\u27e9")
    line = json.loads(save_labels(opened, tmp_path).read_text("utf-8"))["label"]
    assert (line["labeller"], line["extractions"][0]["name"]) == (HOSTILE, HOSTILE)
    assert opened.problems == []


def test_the_policy_allows_only_the_script_and_style_of_the_page(run: Path) -> None:
    text = write(run).read_text("utf-8")

    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    sources = [re.findall(f"<{name}>(.*?)</{name}>", text, re.DOTALL)[0] for name in ("script", "style")]
    digests = [base64.b64encode(hashlib.sha256(source.encode()).digest()).decode() for source in sources]
    assert policy is not None
    assert policy[1] == (
        f"default-src 'none'; script-src 'sha256-{digests[0]}'; style-src 'sha256-{digests[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    assert "innerHTML" not in sources[0]


def test_axe_finds_no_serious_fault(browser: Browser, run: Path) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = write(run, "--labeller", "ann")
    view: ViewportSize = {"width": 360, "height": 800}
    with closing(browser.new_context(viewport=view, color_scheme="light", bypass_csp=True)) as context:
        opened = OpenPage(context, page, "")
        opened.page.keyboard.press("y")
        violations = Axe().run(opened.page).response["violations"]
        opened.page.emulate_media(color_scheme="dark")  # which changes nothing but colors
        contrast = {"resultTypes": ["violations"], "runOnly": ["color-contrast"]}
        violations += Axe().run(opened.page, options=contrast).response["violations"]

        assert [violation for violation in violations if violation["impact"] in ("serious", "critical")] == []
        assert opened.page.evaluate("document.documentElement.scrollWidth") == 360
