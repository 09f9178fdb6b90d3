"""The check of a benchmark file in any format, and benchmarks to begin with."""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fuzzing.commands import command
from fuzzing.engine import HOME
from fuzzing.mutation import OUTSIDE, insert_path
from karenina import Benchmark, VerificationConfig
from karenina.templates import TemplateError
from karenina_benchmark.errors import BenchmarkFileError
from karenina_core.errors import ConfigError
from karenina_template.question_template import template_of

SOURCE: Final = '''"""Notes."""
from datetime import date
from typing import Literal
from pydantic import Field


class Part(BaseModel):
    size: float = Field(description="How large")


class Answer(BaseAnswer):
    """Return the requested operations."""

    gene: str = VerifiedField(
        description="The gene", ground_truth="BCL2", verify_with=ExactMatch(normalize=["lowercase"])
    )
    year: int | None = VerifiedField(
        description="The year", ground_truth=2016, verify_with=NumericTolerance(tolerance=1)
    )
    kind: Literal["a", "b"] = VerifiedField(
        description="The kind", ground_truth="a", verify_with=ExactMatch(), weight=2.5
    )
    names: list[str] = VerifiedField(
        description="Names", ground_truth=["x", "y"], verify_with=SetContainment(mode="exact")
    )
    when: date = VerifiedField(description="When", ground_truth=date(2016, 4, 11), verify_with=DateMatch())
    cites: bool = VerifiedField(description="cites", ground_truth=True, verify_with=TraceRegex(pattern="doi:.+"))
    parts: list[Part] = Field(description="Parts")

    class VerificationStrategy:
        verify_strategy = AllOf(conditions=[FieldCheck(field="gene"), FieldCheck(field="year")])
'''
TRAITS: Final[list[dict[str, Any]]] = [
    {"type": "llm", "name": "safe", "description": "It warns.", "higher_is_better": True},
    {"type": "llm", "name": "tone", "kind": "literal", "classes": {"rude": "It insults.", "kind": "It cares."}},
    {"type": "regex", "name": "doi", "pattern": "doi:\\S+", "case_sensitive": False},
    {"type": "metric", "name": "facts", "metrics": ["recall"], "tp_instructions": ["is BCL2", "blocks apoptosis"]},
    {"type": "callable", "name": "words", "source": "def f(text):\n    return len(text) > 3\n", "kind": "boolean"},
    {"type": "agentic", "name": "runs", "description": "It runs.", "kind": "boolean", "max_turns": 3},
]
QUESTIONS: Final[list[dict[str, Any]]] = [
    {
        "question": "Which gene is the target?",
        "raw_answer": "BCL2",
        "id": "q1",
        "answer": {
            "gene": {
                "description": "The gene that is named",
                "ground_truth": "BCL2",
                "verify_with": {"type": "ExactMatch", "normalize": ["lowercase", "strip"]},
                "extraction_hint": "in capitals",
                "weight": 2,
            },
            "year": {"description": "The year", "ground_truth": 2016, "verify_with": "NumericExact", "type": "int"},
            "cites": {
                "description": "It cites",
                "ground_truth": True,
                "verify_with": {"type": "TraceContains", "substring": "doi"},
            },
        },
        "strategy": {"at_least": {"n": 1, "of": ["gene", {"all_of": ["gene", "year"]}]}},
        "keywords": ["a", "b"],
        "few_shot_examples": [{"question": "Which?", "answer": "TP53"}],
        "rubric": [
            {"type": "llm", "name": "kind", "description": "It cares."},
            {"type": "regex", "name": "x", "pattern": "x"},
        ],
        "dynamic_rubric": [{"type": "llm", "name": "risks", "summary": "risks of a treatment"}],
        "author": {"name": "somebody"},
        "sources": ["a book"],
        "metadata": {"page": 3, "checked": None},
    },
    {"question": "Written as source?", "id": "q2", "template": SOURCE, "workspace_path": "tasks/one"},
    {"question": "No template at all?", "raw_answer": None, "date_created": "2024-01-01T00:00:00Z"},
]
CONFIG: Final[dict[str, Any]] = {
    "answering_models": [
        {
            "id": "a",
            "interface": "openai",
            "model_name": "m",
            "endpoint_base_url": "http://192.0.2.1:9/v1",
            "temperature": 0.5,
            "extra": {"stream": True, "headers": {"X": "y"}},
            "mcp_urls_dict": {"t": f"touch {OUTSIDE}/started"},
        },
        {"id": "r", "interface": "manual", "model_name": "r", "manual_traces": "answers.jsonl"},
    ],
    "parsing_models": [
        {"id": "j", "interface": "openai", "model_name": "m", "endpoint_base_url": "http://192.0.2.1:9"}
    ],
    "evaluation_mode": "template_and_rubric",
    "replicate_count": 2,
    "abstention_enabled": True,
    "deep_judgment_mode": "full",
    "retry_server": 0,
    "item_timeout": 5,
    "budget": "2.50",
    "prices": {"m": {"input": 1, "output": 2}},
    "prompt_config": {"parsing": "Be brief."},
}
READABLE: Final[list[dict[str, Any]]] = [
    *({"karenina": 1, "name": "Genes", "questions": [question]} for question in QUESTIONS),
    *({"karenina": 1, "name": "Traits", "rubric": [trait], "questions": [{"question": "Which?"}]} for trait in TRAITS),
    {"karenina": 1, "name": "Settings", "config": CONFIG, "questions": [{"question": "Which?"}]},
    {
        "karenina": 1,
        "name": "Genes",
        "id": "urn:x",
        "description": "About genes.",
        "version": "1.0",
        "creator": "me",
        "workspace_root": "work",
        "config": CONFIG,
        "metadata": {"licence": "CC0", "n": [1, 2.5, None, {"a": "b"}]},
        "rubric": TRAITS,
        "dynamic_rubric": [{"type": "llm", "name": "risks", "summary": "risks of a treatment"}],
        "questions": QUESTIONS[:1],
        "questions_from": {
            "file": "rows.csv",
            "columns": {"question": "text", "raw_answer": "gold", "metadata": ["page"]},
            "answer": {"gene": {"description": "The gene", "ground_truth": {"column": "gold"}}},
            "rubric": [{"type": "regex", "name": "y", "pattern": "y+"}],
        },
        "unread": {"x": 1},
    },
]
ANSWERS: Final = "".join(json.dumps({"id": id, "response": "It is BCL2."}) + "\n" for id in ("q1", "q2", "q3"))
_COMMANDS: Final = (
    *(["plan"], ["trust"], ["prompts"], ["plan", "--json"]),
    ["run", "--dry-run", "--recordings", "answers.jsonl"],
    [
        "run",
        "--recordings",
        "answers.jsonl",
        "--judge",
        "openai:j@http://127.0.0.1:9/v1",
        "--set",
        "retry_connection=0",
    ],
)
_SAVED: Final = (".jsonld", ".yaml", ".jsonl")


@contextmanager
def read_operations(folder: Path, ending: str) -> Iterator[Callable[[bytes], bool]]:
    """Gives files with this ending to all that reads benchmarks; one of some is given to a command too."""
    outside = str(folder.parent / "outside")
    here = Path.cwd()
    os.chdir(folder)
    file = folder / f"benchmark{ending}"
    (folder / "answers.jsonl").write_text(ANSWERS, "utf-8")
    (folder / "rows.csv").write_text("text,gold,page\nWhich gene?,BCL2,3\nAnd which other?,TP53,4\n", "utf-8")
    kept = {entry.name for entry in folder.iterdir()} | {file.name, HOME}

    def check(data: bytes) -> bool:
        file.write_bytes(insert_path(data, outside))
        accepted = _read(file, _SAVED[zlib.crc32(data) % 3])
        chosen = zlib.crc32(data) // 3 % 32
        if chosen < len(_COMMANDS):
            name, *arguments = _COMMANDS[chosen]
            command(name, file.name, *arguments)
            for entry in folder.iterdir():
                if entry.name not in kept:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        return accepted

    try:
        yield check
    finally:
        os.chdir(here)


def _read(file: Path, other_ending: str) -> bool:
    """Load the file and use it; what can be loaded can be saved, and is then the same. Whether it could be loaded."""
    try:
        benchmark = Benchmark.load(file)
        questions = list(benchmark)
    except BenchmarkFileError as error:
        _printable(error, file)
        return False
    for question in questions:
        try:
            template = template_of(question)
        except TemplateError as error:
            _printable(error, file)
        else:
            if template is not None:
                template.judge_schema()
        try:
            benchmark.with_shared_traits(question)
        except ValueError:  # names of traits clash, which lines of JSON show when a run is prepared
            return True
    try:
        VerificationConfig(**benchmark.run_config)
    except ConfigError as error:
        _printable(error, file)
    _save_as(benchmark, file.suffix)
    try:
        _save_as(benchmark, other_ending)
    except BenchmarkFileError as error:
        # Each form has levels of its own around what a user nests, and only checkpoints have more than we know.
        if "levels deep" not in error.what and "`unread" not in error.what:
            raise
    return True


def _save_as(benchmark: Benchmark, ending: str) -> None:
    """Raise unless the benchmark is the same after it was saved in the form of this ending, and loaded again."""
    assert benchmark.path is not None
    again = benchmark.path.with_name(f"again{ending}")
    benchmark.save(again)
    loaded = Benchmark.load(again)
    if loaded != benchmark:
        was = benchmark.path.suffix
        raise AssertionError(f"{was} saved as {ending} is another benchmark: {_difference(benchmark, loaded)}")
    again.unlink()


def _printable(error: Exception, file: Path) -> None:
    """Messages go to files and terminals: they can be encoded, and are not much longer than what they are about."""
    text = str(error)
    text.encode("utf-8")
    if len(text) > 10_000 + file.stat().st_size:
        raise AssertionError("a message is longer than its file")


def _difference(one: Benchmark, other: Benchmark) -> str:
    """Which attribute differs first."""
    for name in sorted(vars(one)):
        if name not in ("path", "_questions", "workspace_root_in_file", "named_files") and getattr(
            one, name
        ) != getattr(other, name):
            return name
    for first, second in zip(one, other, strict=False):
        for name in type(first).model_fields:
            if getattr(first, name) != getattr(second, name):
                return f"question.{name}"
    return "the number of questions"
