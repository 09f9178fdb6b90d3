"""A file format: questions in GIFT, in which Moodle exports them.

A blank line separates questions, and `//` begins a comment. The kinds that have one right answer are read:

    ::target:: Which gene is the target of venetoclax? {=BCL2}
    ::approved:: Venetoclax is approved in Europe. {T}
    ::year:: When was it approved in the United States? {#2016:1}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from karenina_benchmark import BenchmarkContent, BenchmarkFileError
from karenina_benchmark.errors import read_text
from karenina_benchmark.formats.format import CheckPaths, Format
from karenina_core import Question, hookimpl

QUESTION: Final = re.compile(r"(?:::(?P<title>[^:{}]+)::)?\s*(?P<text>[^{}]+?)\s*\{(?P<answer>[^{}]*)\}")
TRUE_OR_FALSE: Final = {"T": True, "TRUE": True, "F": False, "FALSE": False}
NUMBER: Final = re.compile(r"#\s*(?P<number>-?\d+(?:\.\d+)?)(?::(?P<tolerance>\d+(?:\.\d+)?))?")
CURE: Final = "write ::title:: question {=answer}, {T}, {F} or {#number:tolerance}, and a blank line after it"


def read(path: Path, _check_paths: CheckPaths) -> BenchmarkContent:
    """Return the benchmark in a file. Raises `BenchmarkFileError` with the line of a question that cannot be read."""
    benchmark = BenchmarkContent(path.stem)
    benchmark.named_by_path = True
    for line, block in split_blocks(read_text(path)):
        found = QUESTION.fullmatch(block)
        try:
            if found is None:
                raise ValueError("the block is not a question with exactly one correct answer")
            benchmark.add_question(make_question(found["title"] or "", found["text"], found["answer"].strip()))
        except ValueError as error:
            raise BenchmarkFileError(path, f"line {line}", str(error), CURE) from error
    if not len(benchmark):
        raise BenchmarkFileError(path, "", "the file has no questions", CURE)
    benchmark.date_modified = None  # which the file does not contain
    return benchmark


def write(benchmark: BenchmarkContent, path: Path) -> Iterator[str]:
    """Yield the questions. Raises `BenchmarkFileError` for a benchmark that GIFT cannot hold."""
    shared = benchmark.global_rubric or benchmark.dynamic_rubric or benchmark.run_config
    for question in benchmark:
        try:
            same = make_question(question.id, question.question, str(question.metadata.get("gift", "")))
        except ValueError:
            same = None
        if shared or question.changed(date_created=None, date_modified=None) != same:
            what = "the benchmark contains more than questions with one correct answer"
            raise BenchmarkFileError(path, f"question {question.id}", what, "save the benchmark as YAML")
        yield f"::{question.id}:: {question.question} {{{question.metadata['gift']}}}\n\n"


def split_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield each question of a file on one line, with the number of its first line."""
    lines: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.strip() and not line.lstrip().startswith("//"):
            lines.append(line.strip())
        elif not line.strip() and lines:
            yield number - len(lines), " ".join(lines)
            lines = []


def make_question(title: str, text: str, answer: str) -> Question:
    """Return the question for an answer in GIFT. Raises `ValueError` for another kind of answer."""
    number = NUMBER.fullmatch(answer)
    if answer.upper() in TRUE_OR_FALSE:
        truth, about = repr(TRUE_OR_FALSE[answer.upper()]), "Whether the response says that the statement is true"
        field = f"bool = VerifiedField(description={about!r}, ground_truth={truth}, verify_with=BooleanMatch())"
    elif number is not None:
        truth, rule = number["number"], f"NumericTolerance(tolerance={number['tolerance'] or 0}, mode='absolute')"
        field = f"float = VerifiedField(description='The number', ground_truth={truth}, verify_with={rule})"
    elif answer.startswith("=") and "=" not in answer[1:] and "~" not in answer:
        truth = repr(answer[1:].strip())
        field = f"str = VerifiedField(description='The answer', ground_truth={truth}, verify_with=ExactMatch())"
    else:
        raise ValueError(f"the answer {{{answer}}} has an unsupported type")
    template = f"class Answer(BaseAnswer):\n    answer: {field}\n"
    return Question(id=title.strip(), question=text, answer_template=template, metadata={"gift": answer})


@hookimpl
def karenina_formats() -> list[Format]:
    """Provide the format for files that end in `.gift`."""
    return [Format("GIFT", (".gift",), read, write)]
