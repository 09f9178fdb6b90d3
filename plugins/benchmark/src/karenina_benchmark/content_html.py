"""HTML for benchmarks in notebooks: facts about the benchmark, and a table of its first questions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from karenina_benchmark.errors import BenchmarkFileError
from karenina_terminal.notebook_html import MAX_ROWS, make_facts, make_heading, make_note, make_table, render_html
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_benchmark.content import BenchmarkContent
    from karenina_core.data.question import Question

_HEAD = ("Id", "Question", "Answer", "Template", "Keywords", "Traits")


def content_html(benchmark: BenchmarkContent) -> str:
    """Return facts about a benchmark and at most `MAX_ROWS` of its questions as HTML. No template is loaded."""
    count = len(benchmark)
    rows = [_row(benchmark, id) for id in islice(benchmark.ids, MAX_ROWS)]
    return render_html(
        make_heading(f"{benchmark.name}: {quantity(count, 'question')}"),
        make_facts((name, text) for name, text in _facts(benchmark) if text),
        make_table(_HEAD, rows) if rows else None,
        make_note(f"The table shows the first {len(rows)} of {quantity(count, 'question')}.")
        if len(rows) < count
        else None,
    )


def _facts(benchmark: BenchmarkContent) -> Iterator[tuple[str, str]]:
    yield "Description", benchmark.description
    yield "Version", benchmark.version
    yield "Creator", benchmark.creator
    yield "File", str(benchmark.path) if benchmark.path is not None else ""
    yield "Traits of all", ", ".join(benchmark.global_rubric.names) if benchmark.global_rubric else ""
    yield "Traits by concept", ", ".join(benchmark.dynamic_rubric.names) if benchmark.dynamic_rubric else ""
    yield "Cannot be read", quantity(len(benchmark.broken), "question") if benchmark.broken else ""
    yield "Note", benchmark.missing_answers


def _row(benchmark: BenchmarkContent, id: str) -> list[str]:
    try:
        question = benchmark.get(id)
    except BenchmarkFileError as error:  # a streamed file is read question by question
        return [id, f"cannot be read: {error}", "", "", "", ""]
    return [
        id,
        question.question,
        question.raw_answer or "",
        _template(question),
        ", ".join(question.keywords),
        ", ".join(question.trait_names()),
    ]


def _template(question: Question) -> str:
    if question.answer_class is not None:
        return question.answer_class.__name__
    return "yes" if question.has_template else "none"
