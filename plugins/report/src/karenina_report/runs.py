"""The runs in a report, each with the results of one answering model and data from its journal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from karenina_core.data.result import VerificationResult
from karenina_core.errors import ConfigError
from karenina_core.text import compose
from karenina_engine.cost.ledger import SpendCounts, sum_counts
from karenina_engine.journal import view
from karenina_engine.journal.file import JournalError
from karenina_engine.journal.view import JournalView
from karenina_engine.results.aggregate import Totals
from karenina_engine.results.result_file import default_journal, read_header
from karenina_engine.results.result_set import read_results
from karenina_toolkit.files.safe_paths import describe_repeated
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.models.ports import Usage
    from karenina_engine.results.aggregate import Summary

Source = str | Path | Iterable[VerificationResult]
"""A result file, a journal, or results."""

_SQLITE: Final = b"SQLite format 3\0"
_ANSWERING_TASKS: Final = ("answer_generation", "generation")
"""The keys of `prompt_config` for the answering model. The other keys are for judges."""


@dataclass(frozen=True, slots=True)
class JournalInfo:
    """The data about a run in its journal. All fields are empty if there is no journal.

    `cost` is the cost of all runs in the journal, `content` a digest of the benchmark, and `settings` the
    configuration.
    """

    cost: SpendCounts | None = None
    content: str | None = None
    settings: Mapping[str, Any] | None = None

    @property
    def judge_prompts(self) -> Mapping[str, str] | None:
        """The user's own instructions for judges by task, empty if there were none, or None without known settings."""
        if self.settings is None:
            return None
        own = self.settings.get("prompt_config")
        return (
            {name: text for name, text in own.items() if name not in _ANSWERING_TASKS} if isinstance(own, dict) else {}
        )


@dataclass(slots=True)
class Run:
    """The results of one answering model.

    `stages` contains the name, distribution and version of each stage that ran. `rescored` is true if `karenina
    rescore` wrote the results. `missing_cost` is the reason why the cost is unknown or incomplete.
    """

    name: str
    source: str | None
    results: list[VerificationResult] = field(default_factory=list)
    totals: Totals = field(default_factory=Totals)
    seconds: float = 0.0
    stages: set[tuple[str, str, str]] = field(default_factory=set)
    journal_info: JournalInfo = field(default_factory=JournalInfo)
    shares_journal: bool = False
    missing_cost: str | None = None
    rescored: bool = False

    def add(self, result: VerificationResult) -> None:
        """Add a result to the totals and a copy of it to the results. The copy lacks parts that are not needed for
        comparisons, and its question id is normalized to NFC.
        """
        self.totals.add(result)
        self.seconds += result.metadata.execution_time
        self.stages.update(
            (stage.name, stage.distribution, stage.version) for stage in result.stages if stage.status == "ran"
        )
        kept = result.model_copy(update=_DROPPED_FIELDS)
        if not result.question_id.isascii():
            kept.metadata = result.metadata.model_copy(update={"question_id": compose(result.question_id)})
        self.results.append(kept)

    @property
    def model(self) -> str:
        """The answering model's id."""
        return self.results[0].metadata.answering_id

    @property
    def summary(self) -> Summary:
        """The counts of outcomes and the pass rate."""
        return self.totals.summary()

    @property
    def usage(self) -> Usage:
        """The calls and tokens that the run used."""
        return self.totals.usage()


_DROPPED_FIELDS: Final[Mapping[str, Any]] = {"stages": [], "evaluation_input": None}
"""The parts of a result that use most of its memory and are not compared."""


OpenSource = Callable[[Source], Callable[[VerificationResult], None]]
"""A function that is called with each source before it is read. It returns a function to call with each result."""


def read_runs(sources: Sequence[Source], model: str | None = None, open_source: OpenSource | None = None) -> list[Run]:
    """Read one run for each answering model in each of the `sources`, in order, or only those of `model`, which is an
    id. The function that `open_source` returns for a source is called with each whole result. Raises `ResultFileError`
    or `JournalError` if a source cannot be read, and `ConfigError` if it has no results or is listed twice.

    If run names are not unique, file names are added to them. The runs do not keep all parts of the results.
    """
    check_named_once([Path(source) for source in sources if isinstance(source, str | Path)])
    by_source = [_runs_of(source, model, open_source(source) if open_source else None) for source in sources]
    for source, runs in zip(sources, by_source, strict=True):
        if not runs:
            what = f"no results from the answering model {model!r}" if model is not None else "no results"
            raise ConfigError(
                [f"{_source_name(source) or 'one of the result sets'} contains {what}; at least one result is needed"]
            )
    _rename([run for runs in by_source for run in runs], one_each=all(len(runs) == 1 for runs in by_source))
    return [run for runs in by_source for run in runs]


def check_named_once(files: Sequence[Path]) -> None:
    """Raise `ConfigError` if a file is listed twice, even under two names, because its results would count twice."""
    repeated = describe_repeated(files)
    if repeated is not None:
        raise ConfigError([f"{repeated}, so its results would be counted twice; specify it only once"])


def _runs_of(source: Source, model: str | None, use: Callable[[VerificationResult], None] | None) -> list[Run]:
    """Return the runs in a source, one for each answering model, or only the run of `model`, after calling `use` with
    each of their results. The list is empty if there are no results.
    """
    by_model: dict[str, Run] = {}
    for result in iterate_results(source):
        answering = result.metadata.answering_id
        if model in (None, answering):
            if answering not in by_model:
                by_model[answering] = Run(answering, _source_name(source))
            if use is not None:
                use(result)
            by_model[answering].add(result)
    runs = list(by_model.values())
    info = _read_journal_info(source)
    missing_cost = describe_missing_cost(source, info.cost)
    for run in runs:
        run.journal_info = info
        run.missing_cost = missing_cost
        run.shares_journal = len(runs) > 1 or model is not None
        run.rescored = is_rescored(source)
    return runs


def is_rescored(source: Source) -> bool:
    """Return whether `karenina rescore` wrote the source. Journals and results in memory do not count."""
    return (
        isinstance(source, str | Path)
        and not is_journal(Path(source))
        and bool(read_header(Path(source)).get("rescored"))
    )


def _rename(runs: Sequence[Run], *, one_each: bool) -> None:
    """Add the source to every run's name, in place, if any two names are equal: the file's name, the whole path if
    files in different folders share that name, or a number for results in memory. If each source is one run
    (`one_each`) and all names are the same, this replaces the name.
    """
    names = [run.name for run in runs]
    if len(set(names)) == len(names):
        return
    files = {source: base_name(Path(source)) for source in (run.source for run in runs) if source is not None}
    for number, run in enumerate(runs, 1):
        file = None if run.source is None else files[run.source]
        place = file if file and [*files.values()].count(file) == 1 else run.source or str(number)
        run.name = place if one_each and len(set(names)) == 1 else f"{run.name} ({place})"


def base_name(path: Path) -> str:
    """Return a result file's or journal's name without suffixes, such as `demo` for `demo.results.jsonl`."""
    return path.name.removesuffix(".jsonl").removesuffix(".journal").removesuffix(".results")


def _source_name(source: Source) -> str | None:
    return str(source) if isinstance(source, str | Path) else None


def iterate_results(source: Source) -> Iterator[VerificationResult]:
    """Yield the results of a result file, a journal's last run, or a collection in memory. Raises `ResultFileError` or
    `JournalError` if the source cannot be read, and `ConfigError` for a journal of another version.
    """
    if not isinstance(source, str | Path):
        yield from source
    elif is_journal(Path(source)):
        yield from journal_results(Path(source))
    else:
        yield from read_results(source)


def is_journal(path: Path) -> bool:
    """Return whether the file is an SQLite database, as journals are. Returns False if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False  # reading it as results reports the error


def journal_results(path: Path) -> Iterator[VerificationResult]:
    """Yield the results of the last run in a journal. Raises `ConfigError` if one is from another version of Karenina.
    Raises `JournalError` if the journal cannot be read.
    """
    with JournalView(path) as opened:
        for line in opened.results():
            try:
                yield VerificationResult.model_validate_json(line)
            except ValidationError as error:
                raise ConfigError(
                    [
                        f"the journal {path} contains a result from another version of Karenina; read the journal "
                        "with the version that wrote it"
                    ]
                ) from error


def find_journal(source: Source) -> Path | None:
    """Return the source itself if it is a journal, otherwise the journal of the run that wrote it, or None if there is
    none.
    """
    if not isinstance(source, str | Path):
        return None
    path = Path(source)
    return path if is_journal(path) else view.find_journal(path)


def _read_journal_info(source: Source) -> JournalInfo:
    """Return the cost, content and settings of a run from its journal, all empty if it has none that can be read.
    Without a journal, a result file's header may still say that the run was free.
    """
    journal = find_journal(source)
    if journal is None or not isinstance(source, str | Path):
        free = isinstance(source, str | Path) and read_header(Path(source)).get("free") is True
        return JournalInfo(SpendCounts() if free else None)
    with suppress(JournalError), JournalView(journal) as opened:
        command = opened.command() or {}
        settings = command.get("config")
        content = None if is_rescored(source) else command.get("content")  # rescored with a benchmark as it was later
        return JournalInfo(
            sum_counts(line.spent for line in opened.spent()),
            content if isinstance(content, str) else None,
            settings if isinstance(settings, dict) else None,
        )
    return JournalInfo()


def describe_missing_cost(source: Source, spent: SpendCounts | None) -> str | None:
    """Return why a source's cost, which is `spent`, is unknown or incomplete and how to fix it, or None if the cost is
    known.

    `spent` is the cost in the source's journal, or None without a journal.
    """
    if spent is not None:
        calls = f"{spent.unpriced:,} of {quantity(spent.calls, 'call')}"
        why = "their models have no price (set `prices` before the next run), or their servers counted no tokens"
        return None if spent.known else f"{calls} have no known cost: {why}"
    if not isinstance(source, str | Path):
        return "results in memory have no journal from which to read the cost; pass the run's result file instead"
    path = Path(source)
    header = read_header(path)
    if not header:
        return f"{path.name} does not start with the header of a single run, so the journal with the cost is not known"
    if "id" not in header:
        return f"the run that wrote {path.name} did not keep a journal, from which the cost would be read"
    usual = default_journal(path).name
    return (
        f"the cost is read from the run's journal, which is not in the same folder as {path.name}; copy the "
        f"journal ({usual}) there"
    )


def answer_id(result: VerificationResult) -> str:
    """Return a short hash that identifies a result's answer in label files. It is the same for all judges."""
    meta = result.metadata
    names = map(compose, (meta.question_id, meta.question_text, meta.answering_id))
    parts = [*names, meta.replicate or 1]
    text = json.dumps([*parts, result.template.raw_llm_response])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def truth_id(reference: str | None, truth: Mapping[str, str]) -> str:
    """Return a short hash of a `reference` answer and the fields' `truth`. Label files contain it to state which ground
    truth the labeller saw.

    `reference` is the reference answer, and `truth` maps fields to their ground truths as JSON. The id starts with a
    letter, so that spreadsheet programs do not take it for a number.
    """
    return f"t{hashlib.sha256(json.dumps([reference, sorted(truth.items())]).encode()).hexdigest()[:15]}"
