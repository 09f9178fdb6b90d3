"""Samples of lm-evaluation-harness: `samples_TASK_DATE.jsonl`, written by `--log_samples`.

Each line is a document of the task with its requests and the model's replies, repeated for each filter.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from karenina_importing.field_mapping import FieldMapping
from karenina_importing.file_head import FileHead
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import read_lines
from karenina_importing.source_row import SourceRow


def _detect(head: FileHead) -> Fit:
    keys = head.record.keys()
    is_sample = {"doc_id", "doc"} <= keys and bool({"resps", "filtered_resps", "arguments"} & keys)
    return Fit.YES if is_sample else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield each document once: the lines of further filters have the same replies."""
    filters: dict[str, object] = {}
    for row in read_lines(path):
        id = str(row.values.get("doc_id"))
        name = row.values.get("filter")
        if row.problem or name is None or filters.setdefault(id, name) == name:
            yield row


LM_EVAL: Final = make_import_format(
    "lm-eval",
    "samples of lm-evaluation-harness",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": (
                "doc.question",
                "doc.query",
                "doc.problem",
                "doc.prompt",
                "doc.instruction",
                "doc.input",
                "arguments.gen_args_0.arg_0",
                "arguments.0.0",
            ),
            "raw_answer": ("target",),
            "id": ("doc-{doc_id}",),
            "choices": ("doc.choices.text", "doc.choices", "doc.options", "doc.endings"),
            "keywords": ("doc.subject", "doc.category"),
            "response": ("resps.0",),
        },
        metadata={"doc_hash": "doc_hash"},
    ),
)
"""Samples of lm-evaluation-harness."""
