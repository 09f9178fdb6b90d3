"""What a journal notes of how a run was started: enough to give the same command again, and no secret."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from karenina_core.run.fingerprint import question_digest

if TYPE_CHECKING:
    from karenina_core.benchmark import Benchmark
    from karenina_core.config import VerificationConfig


def command_of(
    benchmark: Benchmark,
    config: VerificationConfig,
    *,
    question_ids: Iterable[str] | None,
    output: str | Path | None,
) -> dict[str, Any]:
    """The command that is given, as JSON values: two that are equal ask for the same."""
    return {
        "benchmark": str(benchmark.path.absolute()) if benchmark.path is not None else None,
        "content": content_digest(benchmark),
        "config": config.model_dump(mode="json"),
        "questions": list(question_ids) if question_ids is not None else None,
        "output": str(Path(output).absolute()) if output is not None else None,
    }


def content_digest(benchmark: Benchmark) -> str:
    """A digest of the benchmark's file, or of its questions where it has none."""
    if benchmark.path is not None and benchmark.path.is_file():
        with benchmark.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    digest = hashlib.sha256()
    for question in benchmark:
        digest.update(question_digest(question))
    return digest.hexdigest()
