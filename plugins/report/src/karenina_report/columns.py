"""The columns by which results are grouped and clustered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from karenina_core.errors import ConfigError
from karenina_core.wording import nearest

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult

Column = Callable[["VerificationResult"], tuple[str, ...]]
"""What a result has in a column: none, one or several values."""


def _one(value: object) -> tuple[str, ...]:
    return () if value is None or value == "" else (str(value),)


_OF_RESULTS: Final[Mapping[str, Column]] = {
    "keyword": lambda result: tuple(result.metadata.keywords or ()),
    "question_id": lambda result: _one(result.question_id),
    "question_text": lambda result: _one(result.metadata.question_text),
    "answering_model": lambda result: _one(result.metadata.answering_id),
    "judge": lambda result: _one(result.metadata.parsing_id),
    "replicate": lambda result: _one(result.metadata.replicate or 1),
    "template_id": lambda result: _one(result.metadata.template_id),
    "run_name": lambda result: _one(result.metadata.run_name),
    "outcome": lambda result: _one(result.outcome.value),
}


def column(name: str, results: Iterable[VerificationResult]) -> Column:
    """Return the column of this name: one of every result, or a value that a stage reports (`extensions`).

    Raises `ConfigError` for a name that no result has.
    """
    if name in _OF_RESULTS:
        return _OF_RESULTS[name]
    reported = dict.fromkeys(key for one in results for values in one.extensions.values() for key in values)
    if name in reported:
        return lambda result: _one(next((own[name] for own in result.extensions.values() if name in own), None))
    known = [*_OF_RESULTS, *reported]
    raise ConfigError([f"there is no column {name!r}{nearest(name, known)}; there are {', '.join(known)}"])
