"""Runs with labels in a file."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runs import RIGHT, save

from karenina_calibration.answers import Answer, collect_answers
from karenina_calibration.label_file import ExtractionLabel, Label, append_labels
from karenina_calibration.label_paths import default_labels
from karenina_calibration.labelling import Labelling
from karenina_core.data.result import VerificationResult
from karenina_engine.results.result_set import read_results

Say = Callable[[Answer], bool | None]


def is_right(answer: Answer) -> bool:
    """Return whether an answer of `errant_run` is right."""
    return answer.text == RIGHT


def label_run(
    file: Path,
    results: Sequence[VerificationResult],
    *,
    count: int = 60,
    say: Say = is_right,
    labeller: str = "ann",
    simple: bool = False,
    seed: int = 1,
) -> Path:
    """Write results, and labels of a draw from them."""
    if not file.exists():
        save(file, results)
    opened = Labelling.open(file, default_labels(file), count=count, seed=seed, simple=simple)
    opened.save_draw()
    opened.add([make_label(answer, say, labeller) for answer in opened.drawn(opened.labels.missing(labeller))])
    return file


def make_label(answer: Answer, say: Say, labeller: str = "ann") -> Label:
    """Return what a labeller says about an answer, and about the gene that was extracted."""
    values = tuple(
        ExtractionLabel(
            kind=extraction.kind,
            name=extraction.name,
            value=extraction.value,
            right=(extraction.value == '"BCL2"') == is_right(answer),
        )
        for extraction in answer.extractions
    )
    return Label(
        item=answer.id, labeller=labeller, time="2026-11-23T12:00:00+00:00", right=say(answer), extractions=values
    )


def label_all(file: Path, labels: Path, say: Say = is_right) -> Path:
    """Write labels of all answers in a result file, without a draw."""
    answers = collect_answers(read_results(file)).by_id.values()
    append_labels(labels, [make_label(answer, say) for answer in answers])
    return labels


def verdict_of(answer: Answer) -> bool | None:
    """Return the verdict of the first judge."""
    return next(iter(answer.judgements.values())).verdict


def read_page(page: Path) -> dict[str, Any]:
    """Return the data of a page for labelling."""
    match = re.search(r'id="karenina-head">([^<]*)<', page.read_text("utf-8"))
    assert match is not None
    head: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(match[1])))
    return head
