"""The page for labelling: one HTML file that opens from disk, and saves a file of labels."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from karenina_calibration.answers import truth_text
from karenina_calibration.label_file import SUFFIX
from karenina_calibration.labelling import asks_verdict
from karenina_calibration.questions import extraction_question, verdict_lines
from karenina_report.output_file import write_whole
from karenina_report.page.document import PageDocument, PageSource

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer
    from karenina_calibration.labelling import Labelling

FIRST_BYTES: Final = b"<!doctype html><!-- karenina labels"
"""The beginning of every page, by which an earlier one is recognized before it is replaced."""
FORMAT: Final = 1
_LONGEST_VALUE: Final = 100_000


def write_label_page(
    path: Path, opened: Labelling, items: Sequence[str], *, labeller: str, show_verdict: bool
) -> Path | None:
    """Write the page of the answers `items`, and return the new name of an earlier page.

    The page contains no verdict unless `show_verdict` is set. It saves a file of labels, and stores drafts in the
    browser under the digest of the results. Raises `ConfigError`.
    """
    name = opened.file.name.removesuffix(SUFFIX)
    head = {
        "format": FORMAT,
        "digest": opened.draw.digest,
        "labeller": labeller,
        "blind": not show_verdict,
        "file": name,
        "items": [_item(answer, show_verdict=show_verdict) for answer in opened.drawn(items)],
    }
    source = PageSource(_read("label.js"), _read("label.css"), "Karenina labels", "page", FIRST_BYTES)

    def write(file: BinaryIO) -> None:
        document = PageDocument(file, source)
        document.begin()
        document.add("head", head)
        document.end()

    return write_whole(path, (FIRST_BYTES,), write)


def _item(answer: Answer, *, show_verdict: bool) -> dict[str, Any]:
    return {
        "item": answer.id,
        "question": answer.question,
        "answer": answer.text,
        "truth": truth_text(answer),
        "truth_id": answer.truth_id,
        "asks_verdict": asks_verdict(answer),
        "verdicts": list(verdict_lines(answer)) if show_verdict else [],
        "extractions": [
            {
                "kind": one.kind,
                "name": one.name,
                "value": one.value,
                "asked": extraction_question(one, _LONGEST_VALUE),
            }
            for one in answer.extractions
        ],
    }


def _read(name: str) -> str:
    return files("karenina_calibration").joinpath("assets", name).read_text("utf-8")
