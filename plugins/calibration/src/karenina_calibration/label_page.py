"""The labelling page: one HTML file that opens from disk, and saves a label file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from karenina_calibration.answers import truth_text
from karenina_calibration.label_paths import SUFFIX
from karenina_calibration.labelling import asks_verdict
from karenina_calibration.questions import extraction_question, verdict_lines
from karenina_report.output_file import write_whole
from karenina_report.page.document import PageDocument, PageSource

if TYPE_CHECKING:
    from karenina_calibration.answers import AskedAnswer
    from karenina_calibration.labelling import Labelling

FIRST_BYTES: Final = b"<!doctype html><!-- karenina labels"
"""The first bytes of every page, by which an earlier page is recognized before it is replaced."""
FORMAT: Final = 1
_NO_NAME: Final = re.compile(r"[^\w-]+")
_LONGEST_VALUE: Final = 100_000


def write_label_page(
    path: Path, opened: Labelling, asked: Sequence[AskedAnswer], *, labeller: str, show_verdict: bool
) -> Path | None:
    """Write the labelling page for the answers in `asked`, and return the new name of an earlier page.

    The page contains no verdict unless `show_verdict` is set. It saves a label file, and stores drafts in the browser
    under the digest of the results. Raises `ConfigError`.
    """
    name = opened.file.name.removesuffix(SUFFIX)
    head = {
        "format": FORMAT,
        "digest": opened.draw.digest,
        "labeller": labeller,
        "blind": not show_verdict,
        "file": name,
        "items": [_item(one, show_verdict=show_verdict) for one in asked],
    }
    source = PageSource(_read("label.js"), _read("label.css"), "Karenina labels", "page", FIRST_BYTES)

    def write(file: BinaryIO) -> None:
        document = PageDocument(file, source)
        document.begin()
        document.add("head", head)
        document.end()

    return write_whole(path, (FIRST_BYTES,), write)


def saved_name(file: Path, labeller: str) -> str:
    """Return the name of the label file that the page saves, like `save` in label.js."""
    return f"{file.name.removesuffix(SUFFIX)}.labels-{_NO_NAME.sub('-', labeller)}.jsonl"


def _item(asked: AskedAnswer, *, show_verdict: bool) -> dict[str, Any]:
    answer = asked.answer
    return {
        "item": answer.id,
        "question": answer.question,
        "answer": answer.text,
        "truth": truth_text(answer),
        "truth_id": answer.truth_id,
        "why": asked.why,
        "asks_verdict": asks_verdict(answer),
        "verdicts": list(verdict_lines(answer)) if show_verdict else [],
        "extractions": [
            {
                "kind": one.kind,
                "name": one.name,
                "value": one.value,
                "asked": extraction_question(one, _LONGEST_VALUE),
            }
            for one in asked.extractions
        ],
    }


def _read(name: str) -> str:
    return files("karenina_calibration").joinpath("assets", name).read_text("utf-8")
