"""Asking people to label answers, in the terminal or on an HTML page that saves a label file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from karenina_calibration.answers import readable, truth_text
from karenina_calibration.label_file import ExtractionLabel, Label
from karenina_calibration.label_paths import SUFFIX
from karenina_calibration.labelling import asks_verdict
from karenina_report.options import write_whole
from karenina_report.page.document import PageDocument, PageSource
from karenina_terminal.text_layout import format_facts
from karenina_toolkit.printable import clean, clip, in_one_line, shorten

if TYPE_CHECKING:
    from karenina_calibration.answers import Answer, AskedAnswer, Extraction
    from karenina_calibration.labelling import Labelling
    from karenina_report.attached_files import AttachedFiles


SKIP: Final = "s"
QUIT: Final = "q"
_REPLIES: Final[dict[str, bool | None]] = {"y": True, "yes": True, "n": False, "no": False, "u": None, "unclear": None}
_LONGEST: Final = 20_000

FIRST_BYTES: Final = b"<!doctype html><!-- karenina labels"
"""The beginning of every labelling page. Before an earlier page is replaced, it is recognized by these bytes."""
FORMAT: Final = 1
_NO_NAME: Final = re.compile(r"[^\w-]+")
_LONGEST_VALUE: Final = 100_000


class Stop(Exception):
    """Raised if the labeller quits."""


def ask_answer(
    asked: AskedAnswer,
    ask: Callable[[str], str],
    *,
    labeller: str,
    now: Callable[[], str],
    asks_verdict: bool,
    blind: bool,
    earlier: Sequence[ExtractionLabel] = (),
) -> Label | None:
    """Ask about one answer, and return its label, or None if the labeller skips the verdict. A skipped value gets no
    label. If `asks_verdict` is False, the questions are only about extracted values. The label also contains the
    `earlier` extraction labels, which the labeller gave for another ground truth. Raises `Stop` if the labeller quits,
    in which case the replies about this answer are lost.

    `ask` prints a question and returns the reply. `blind` is recorded in the label.
    """
    answer = asked.answer
    right: bool | None = None
    if asks_verdict:
        reply = _ask(ask, "Is the answer right?")
        if reply == SKIP:
            return None
        right = _REPLIES[reply]
    extractions = list(earlier)
    for extraction in asked.extractions:
        reply = _ask(ask, extraction_question(extraction))
        if reply == SKIP:
            continue
        extractions.append(
            ExtractionLabel(kind=extraction.kind, name=extraction.name, value=extraction.value, right=_REPLIES[reply])
        )
    return Label(
        item=answer.id,
        labeller=labeller,
        time=now(),
        right=right,
        extractions=tuple(extractions),
        blind=blind,
        truth=answer.truth_id,
    )


def extraction_question(one: Extraction, longest: int = 300) -> str:
    """Return the question about an extracted value. The value is cut to `longest` characters."""
    name, value = in_one_line(one.name), shorten(readable(one.value), longest)
    if one.kind == "trait":
        return f"Is {name} = {value} right?"
    answer = "answer" if one.turn in (None, "all") else f"answer in turn {one.turn}"
    if one.value == "null":
        return f"Does the {answer} give no value for {name}?"
    return f"Does the {answer} say {name} = {value}?"


def _ask(ask: Callable[[str], str], question: str) -> str:
    """Ask until the reply is valid, and return the reply. Skipping returns `s`. Raises `Stop` if the labeller quits."""
    while True:
        reply = ask(f"{question} [y]es, [n]o, [u]nclear, [s]kip, [q]uit").strip().lower()
        if reply in (QUIT, "quit"):
            raise Stop
        if reply in (SKIP, "skip"):
            return SKIP
        if reply in _REPLIES:
            return reply


def answer_lines(asked: AskedAnswer, number: int, count: int, width: int, *, blind: bool) -> Iterator[str]:
    """Yield the lines that show an answer, the one with this `number` of `count`, in `width` columns. They include the
    judges' verdicts unless `blind` is set. Only the first 20,000 characters of the answer are shown.
    """
    answer = asked.answer
    text, more = clip(answer.text, _LONGEST, "; the labelling page shows the whole answer")
    rows = [("Question", clean(answer.question)), ("Answer", text + more), ("Truth", clean(truth_text(answer)))]
    rows.append(("Asked again", clean(asked.why)))
    if not blind:
        rows += [("Verdict", verdict) for verdict in verdict_lines(answer)]
    yield ""
    yield f"{number} of {count}"
    yield from format_facts([row for row in rows if row[1]], width)


def verdict_lines(answer: Answer) -> Sequence[str]:
    """Return a line for each judge, with its verdict and the reason."""
    return [
        in_one_line(f"{judgement.outcome.value} ({judgement.judge}): {judgement.reason}")
        for judgement in answer.judgements.values()
    ]


def write_label_page(
    path: Path,
    opened: Labelling,
    asked: Sequence[AskedAnswer],
    *,
    labeller: str,
    show_verdict: bool,
    attached: AttachedFiles,
) -> Path | None:
    """Write the page for labelling the answers in `asked`, with verdicts only if `show_verdict` is set. If `labeller`
    is empty, the page asks for a name. An earlier page at `path` is renamed, and its new name is returned; otherwise,
    None is returned. Raises `ConfigError` if `path` is another kind of file or cannot be written.

    The page saves a label file, and keeps drafts in the browser under the digest of the results. `attached` has the
    pictures.
    """
    name = opened.file.name.removesuffix(SUFFIX)
    head = {
        "format": FORMAT,
        "digest": opened.draw.digest,
        "labeller": labeller,
        "blind": not show_verdict,
        "file": name,
        "items": [_item(entry, attached, show_verdict=show_verdict) for entry in asked],
    }
    source = PageSource(_read_asset("label.js"), _read_asset("label.css"), "Karenina labels", "page", FIRST_BYTES)

    def write(file: BinaryIO) -> None:
        document = PageDocument(file, source)
        document.begin()
        document.add("head", head)
        document.end()

    return write_whole(path, (FIRST_BYTES,), write)


def saved_name(file: Path, labeller: str) -> str:
    """Return the name of the label file that the page saves. It must match `save` in label.js."""
    return f"{file.name.removesuffix(SUFFIX)}.labels-{_NO_NAME.sub('-', labeller)}.jsonl"


def _item(asked: AskedAnswer, attached: AttachedFiles, *, show_verdict: bool) -> dict[str, Any]:
    """Return an answer as a JSON-compatible dict for the page. Verdicts are only included if `show_verdict` is set."""
    answer = asked.answer
    return {
        "item": answer.id,
        "question": answer.question,
        **({"attachments": list(map(attached.describe, answer.attachments))} if answer.attachments else {}),
        "answer": answer.text,
        "truth": truth_text(answer),
        "truth_id": answer.truth_id,
        "why": asked.why,
        "asks_verdict": asks_verdict(answer),
        "verdicts": list(verdict_lines(answer)) if show_verdict else [],
        "extractions": [
            {
                "kind": extraction.kind,
                "name": extraction.name,
                "value": extraction.value,
                "asked": extraction_question(extraction, _LONGEST_VALUE),
            }
            for extraction in asked.extractions
        ],
    }


def _read_asset(name: str) -> str:
    return files("karenina_calibration").joinpath("assets", name).read_text("utf-8")
