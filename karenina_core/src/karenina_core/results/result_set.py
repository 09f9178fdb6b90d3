"""`VerificationResultSet`: the results of a run, with its summary and its file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from karenina_core.errors import KareninaError
from karenina_core.ports import Usage
from karenina_core.results.result import SCHEMA_VERSION, VerificationResult
from karenina_core.results.summary import OutcomeTally, Summary


class ResultFileError(KareninaError, ValueError):
    """A result file that cannot be read: which line, and why."""


class VerificationResultSet:
    """Results in the order in which they ended. A file of them has one JSON object a line (JSONL)."""

    def __init__(self, results: Iterable[VerificationResult] = ()) -> None:
        self.results = list(results)

    def __iter__(self) -> Iterator[VerificationResult]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, index: int) -> VerificationResult:
        return self.results[index]

    def filter(self, keep: Callable[[VerificationResult], bool]) -> Self:
        """The results for which `keep` holds."""
        return type(self)(result for result in self.results if keep(result))

    def by_question(self) -> dict[str, list[VerificationResult]]:
        """The results by question id."""
        found: dict[str, list[VerificationResult]] = {}
        for result in self.results:
            found.setdefault(result.question_id, []).append(result)
        return found

    def summary(self) -> Summary:
        """Counts, pass rate with its denominator and interval, and the bounds that unjudged items leave."""
        tally = OutcomeTally()
        for result in self.results:
            tally.add(result.outcome, result.question_id, result.template.verify_granular_result)
        return tally.summary()

    def by_models(self) -> dict[tuple[str, str], Summary]:
        """A summary for each pair of answering model and judge (by their ids)."""
        pairs: dict[tuple[str, str], list[VerificationResult]] = {}
        for result in self.results:
            pairs.setdefault((result.metadata.answering_id, result.metadata.parsing_id), []).append(result)
        return {pair: VerificationResultSet(pairs[pair]).summary() for pair in sorted(pairs)}

    def usage(self) -> Usage:
        """What the run used. The tokens of one answer, which several judges share, count once."""
        total = Usage()
        answers: set[tuple[str, str, int]] = set()
        for result in self.results:
            answer = (result.metadata.question_id, result.metadata.answering_id, result.metadata.replicate or 1)
            for name, part in (result.template.usage_metadata or {}).items():
                if name == "total" or (part["scope"] == "answer" and answer in answers):
                    continue
                total += Usage(
                    part["input_tokens"],
                    part["output_tokens"],
                    part.get("cached_tokens", 0),
                    part.get("reasoning_tokens", 0),
                    part.get("calls", 0),
                    part.get("cache_write_tokens", 0),
                )
            answers.add(answer)
        return total

    def save(self, path: str | Path) -> None:
        """Write the results, all or none: the file is replaced when everything is written."""
        file = Path(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                for result in self.results:
                    out.write(result.model_dump_json() + "\n")
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The results of a file. Raises `ResultFileError` with the line that cannot be read."""
        return cls(read_results(path))


def read_results(path: str | Path) -> Iterator[VerificationResult]:
    """The results of a file, one after another. Raises `ResultFileError`."""
    try:
        with Path(path).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                try:
                    yield VerificationResult.model_validate_json(line)
                except ValidationError as error:
                    first = error.errors(include_url=False, include_input=False)[0]
                    where = ".".join(str(part) for part in first["loc"])
                    raise ResultFileError(
                        f"{path}, line {number} is no result of this version ({SCHEMA_VERSION}): {where}: "
                        f"{first['msg']}; "
                        "remove the line, or read the file with the version that wrote it"
                    ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ResultFileError(f"the result file {path} cannot be read: {error}") from error
