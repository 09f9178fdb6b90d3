"""Stored judge scores, which later reports show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import to_json

from karenina_core.version import __version__
from karenina_engine.results.rates import Rate
from karenina_engine.user.private_files import locked, read_private
from karenina_selftest.scores import JudgeScore
from karenina_toolkit.files import replace_file
from karenina_toolkit.files.state_folder import UserStateError, make_own_folder, state_folder

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig

_MOST: Final = 20
"""The number of self-tests to keep for a judge; older ones are removed."""


class StoredScore(BaseModel, defer_build=True):
    """The rates of one self-test.

    `judge` is `interface:model_name`, `cases` describes the cases (the pack's digest, the file, and their number), and
    `settings` is a digest of the configuration. `when` is a time in UTC, ISO 8601.
    """

    model_config = ConfigDict(frozen=True)

    judge: str
    when: str
    version: str
    cases: str
    settings: str
    results: str
    false_pass: Rate
    false_fail: Rate
    unreadable: int
    failed: int
    undecided: int = 0


class _Scores(BaseModel, defer_build=True):
    scores: list[StoredScore] = []


def store_scores(scores: Iterable[JudgeScore], *, cases: str, settings: str, results: Path) -> None:
    """Store scores in the user's state folder. Raises `UserStateError` if it cannot be written.

    A score replaces an earlier one of the same judge, cases and settings.
    """
    when = datetime.now(UTC).isoformat(timespec="seconds")
    for score in scores:
        path = _path(score.judge)
        stored = StoredScore(
            judge=score.judge,
            when=when,
            version=__version__,
            cases=cases,
            settings=settings,
            results=str(results.absolute()),
            false_pass=score.false_pass,
            false_fail=score.false_fail,
            unreadable=score.unreadable,
            failed=score.failed,
            undecided=score.undecided,
        )
        try:
            make_own_folder(path.parent)
            with locked(path):
                kept = [one for one in read_scores(score.judge) if (one.cases, one.settings) != (cases, settings)]
                _write(path, [*kept[-_MOST + 1 :], stored])
        except OSError as error:
            raise UserStateError(f"the score of {score.judge} cannot be stored: {error}") from error


def _write(path: Path, scores: list[StoredScore]) -> None:
    text = _Scores(scores=scores).model_dump_json(indent=1)
    replace_file(path, lambda file: file.write(text.encode()), private=True)


def read_scores(judge: str) -> Sequence[StoredScore]:
    """Return the stored scores of a judge (`interface:model_name`), oldest first.

    Raises `UserStateError` if the file is broken, or other users could have written it.
    """
    path = _path(judge)
    try:
        text = read_private(path)
        found = _Scores.model_validate_json(text).scores if text is not None else []
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise UserStateError(f"the stored self-tests in {path} cannot be read, remove the file: {error}") from error
    return [one for one in found if one.judge == judge]


def _path(judge: str) -> Path:
    return state_folder() / "selftests" / f"{sha256(judge.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.json"


def settings_digest(config: VerificationConfig) -> str:
    """Return a digest of the settings that change verdicts; keys, URLs and recorded answers are not part of it."""
    given = {name: value for name, value in config.given().items() if name not in ("answering_models", "run_name")}
    judges = [(one.interface, one.model_name, one.system_prompt, one.temperature) for one in config.core.parsing_models]
    shown = to_json([{**given, "parsing_models": judges}], serialize_unknown=True, fallback=repr)
    return sha256(shown).hexdigest()[:12]
