"""Write the page for one or more runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from karenina_core.errors import ConfigError, KareninaError, describe_error
from karenina_core.plugins import active_plugins
from karenina_engine.check.plugin_checks import broken_plugins
from karenina_engine.cost.price_source import to_dollars
from karenina_engine.journal.rows import read_spent
from karenina_engine.journal.view import JournalView
from karenina_engine.results.kept_files import KeptFiles
from karenina_engine.results.result_file import default_journal
from karenina_report.attached_files import AttachedFiles
from karenina_report.benchmark_questions import BenchmarkQuestions, load_benchmark, read_benchmark_questions
from karenina_report.comparison.run_comparison import compare_runs, run_facts, run_label
from karenina_report.options import write_whole
from karenina_report.page.document import FIRST_BYTES, PageDocument, plain_json
from karenina_report.page.hookspecs import karenina_report_sections
from karenina_report.page.items import CALL_COLUMNS, ItemIndex, PageFiles, Prompts, make_item
from karenina_report.page.section import PageRuns
from karenina_report.rules import Rules, find_missing_rules, find_rules
from karenina_report.runs import find_journal, read_runs
from karenina_report.statistics.run_statistics import describe_runs

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_engine.offline.replay import SentPrompt
    from karenina_engine.results.table_columns import Row
    from karenina_report.comparison.comparison_result import Comparison
    from karenina_report.runs import Run, Source

FORMAT: Final = 1
"""The version of the page's data format. A script can only read its own version."""
CHUNK: Final = 200
"""The number of items in one data block."""

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options for a page. They have the same meaning as in `compare`.

    `attachments` is the folder with the files that the questions attached.
    """

    by: str | None = None
    cluster: str | None = None
    model: str | None = None
    cuts: Mapping[str, float] = field(default_factory=dict)
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    benchmark: str | Path | Benchmark | None = None
    any_judge: bool = False
    any_template: bool = False
    attachments: Path | None = None


def write_page(sources: Sequence[Source], output: Path, options: ReportOptions, warn: Warn) -> Path | None:
    """Write a page for runs, and return the new path of an earlier page of this name, or None. Raises `ConfigError`,
    `ResultFileError`, `JournalError` or `BenchmarkFileError` if an argument or a file cannot be used.

    The runs are from result files, journals, or results in memory. `warn` is called with a message about everything
    that is missing from the page. `ConfigError` is raised, for example, if a source has no results, if an option names
    an unknown column or trait, or if `output` is a file of another kind.
    """
    sources = [source if isinstance(source, str | Path) else list(source) for source in sources]
    for journal in filter(None, map(_unused_journal, sources)):
        warn(
            f"the calls in the journal {journal} were left out because the journal cannot be read or belongs to "
            "another result file"
        )
    benchmark = load_benchmark(options.benchmark) if options.benchmark is not None else None
    rules = find_rules(sources, benchmark)
    prompts = _find_prompts(sources, benchmark, warn)
    attached = AttachedFiles(options.attachments)

    def write(file: BinaryIO) -> None:
        """Read the sources and write the page to an open file, its index after its items. Warns about anything that is
        left out.
        """
        document = PageDocument(file)
        document.begin()
        with ExitStack() as opened:
            items = _PageItems(document, rules, prompts, attached, opened)
            runs = read_runs(sources, options.model, items.open_source)
            items.end()
        if benchmark is not None:
            for text in find_missing_rules(benchmark, (result for run in runs for result in run.results)):
                warn(text)
        head, flipped = _make_head(runs, sources, options, benchmark, rules, warn)
        document.add("head", {**head, **items.index.to_json(flipped)})
        document.end()
        for missing in items.files.problems():
            warn(missing)

    return write_whole(output, (FIRST_BYTES,), write)


def _make_head(
    runs: Sequence[Run],
    sources: Sequence[Source],
    options: ReportOptions,
    benchmark: Benchmark | None,
    rules: Rules,
    warn: Warn,
) -> tuple[dict[str, Any], Set[str]]:
    """Return the page's head without the index, and the ids of questions whose verdict differs between runs. Warns if
    the runs cannot be compared.
    """
    questions = read_benchmark_questions(benchmark) if benchmark is not None else None
    comparison, problem = _compare(runs, options, questions, rules)
    labels = [run_label(number) for number in range(len(runs))]
    page = PageRuns(runs, labels, comparison, options.cluster, questions)
    facts = _run_facts(page, sources, options, questions)  # an error in an option needs no warning before it
    if problem is not None:
        warn(f"the runs were not compared: {problem}")
    head = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "chunk_size": CHUNK,
        **facts,
        "comparison": comparison.model_dump(mode="json") if comparison is not None else None,
        "problem": problem,
        "sections": list(_sections(page, warn)),
        "prompts": benchmark is not None,
    }
    return head, {change.question_id for pair in (comparison.pairs if comparison else ()) for change in pair.flips}


def _find_prompts(sources: Sequence[Source], benchmark: Benchmark | None, warn: Warn) -> Prompts:
    """Return the prompts of the calls in the sources' journals by call key, as far as `benchmark` still produces them.
    Warns about journals whose prompts cannot be found, and returns none without a benchmark.
    """
    from karenina_engine.offline.replay import find_prompts

    prompts: dict[str, SentPrompt] = {}
    if benchmark is None:
        return prompts
    for journal in filter(None, map(find_journal, sources)):
        try:
            prompts |= find_prompts(journal, benchmark)
        except KareninaError as error:
            warn(f"the prompts of {journal} were left out: {error}")
    return prompts


def _unused_journal(source: Source) -> Path | None:
    """Return the journal next to a result file if it does not belong to these results, and None otherwise."""
    if not isinstance(source, str | Path) or find_journal(source) is not None:
        return None
    journal = default_journal(Path(source))
    return journal if journal.exists() else None


def _compare(
    runs: Sequence[Run], options: ReportOptions, questions: BenchmarkQuestions | None, rules: Rules
) -> tuple[Comparison | None, str | None]:
    """Return the comparison of the runs, or the reason why they cannot be compared; the other is None. Both are None if
    there is only one run.
    """
    if len(runs) < 2:
        return None, None
    try:
        return (
            compare_runs(
                runs,
                by=options.by,
                cluster=options.cluster,
                cuts=options.cuts,
                scales=options.scales,
                questions=questions,
                rules=rules,
                any_judge=options.any_judge,
                any_template=options.any_template,
            ),
            None,
        )
    except ConfigError as error:
        return None, str(error)


def _run_facts(
    page: PageRuns, sources: Sequence[Source], options: ReportOptions, questions: BenchmarkQuestions | None
) -> dict[str, Any]:
    """Return the page data for the key `runs`: each run's facts, statistics and stages."""
    statistics = describe_runs(
        page.runs,
        by=options.by,
        cluster=options.cluster,
        cuts=options.cuts,
        scales=options.scales,
        questions=questions,
    )
    journals = {str(source): find_journal(source) is not None for source in sources if isinstance(source, str | Path)}
    return {
        "runs": [
            {
                **run_facts(run, label).model_dump(mode="json"),
                "journal": journals.get(run.source or "", False),
                "run_name": run.results[0].metadata.run_name,
                "ended": max((result.metadata.timestamp for result in run.results), default=""),
                "stages": sorted(run.stages),
                "statistics": described.model_dump(mode="json"),
            }
            for run, label, described in zip(page.runs, page.labels, statistics, strict=True)
        ]
    }


def _sections(page: PageRuns, warn: Warn) -> Iterator[dict[str, Any]]:
    """Yield the plugins' sections as JSON. If a plugin cannot be used or raises, its remaining sections are skipped
    with a warning.
    """
    plugins = active_plugins()
    offered = plugins.offers(karenina_report_sections, Callable)
    for owner, _, failure in broken_plugins(plugins):
        warn(f"{owner} cannot be used, so the page contains no sections from it: {failure}")
    for offer in offered:
        try:
            sections = offer.value(page)
            if not isinstance(sections, Iterable):
                raise TypeError(f"the function returned {type(sections).__name__}, not a list of sections")
            for section in sections:
                yield plain_json(section.to_json(offer.distribution))
        except (Exception, SystemExit) as error:
            warn(f"a section from {offer.distribution} {offer.version} was left out: {describe_error(error)}")


@dataclass(frozen=True, slots=True)
class _OpenSource:
    """A source of a page, with its journal and the files that its items kept."""

    view: JournalView | None
    folders: KeptFiles | None


class _PageItems:
    """Writes a page's items to its document, and adds them to the index, while the results are read.

    The items' journals are closed when `opened` is.
    """

    def __init__(
        self, document: PageDocument, rules: Rules, prompts: Prompts, attached: AttachedFiles, opened: ExitStack
    ) -> None:
        self.index = ItemIndex()
        self.files = PageFiles(attached)
        self._document = document
        self._rules = rules
        self._prompts = prompts
        self._opened = opened
        self._runs = 0
        self._chunk: list[tuple[_OpenSource, int, VerificationResult]] = []
        self._chunks = 0

    def open_source(self, source: Source) -> Callable[[VerificationResult], None]:
        """Open the source's journal, if it has one, and return a function that adds one of the source's results to the
        page.
        """
        journal = find_journal(source)
        folders = KeptFiles(Path(source), journal) if isinstance(source, str | Path) else None
        view = self._opened.enter_context(JournalView(journal)) if journal is not None else None
        opened = _OpenSource(view, folders)
        numbers: dict[str, int] = {}

        def add(result: VerificationResult) -> None:
            """Add a result to the chunk that is being collected, and write the chunk to the page if it is full."""
            answering = result.metadata.answering_id
            if answering not in numbers:
                numbers[answering] = self._runs
                self._runs += 1
            self._chunk.append((opened, numbers[answering], result))
            if len(self._chunk) == CHUNK:
                self.end()

        return add

    def end(self) -> None:
        """Write the collected items as a chunk of the document, if there are any. More may be added afterwards."""
        if not self._chunk:
            return
        made = []
        for source, added in groupby(self._chunk, key=itemgetter(0)):
            results = [(run, result) for _, run, result in added]
            view = source.view
            found = view.calls_of([result for _, result in results], CALL_COLUMNS) if view is not None else None
            for at, (run, result) in enumerate(results):
                calls = found[at] if found is not None else []
                self.index.add(run, result, _cost(calls))
                rules = self._rules.get(result.metadata.template_id, {})
                files = self.files.describe(result, source.folders)
                made.append(make_item(result, rules, calls, self._prompts, files))
        self._document.add(f"chunk-{self._chunks}", made)
        self._chunks += 1
        self._chunk = []


def _cost(calls: Sequence[Row]) -> float | None:
    """Return the cost of the calls in US dollars, at the prices of the runs that made them, or None if there are no
    calls or a cost is unknown. Failed calls and calls of services are not counted. An agent's turns are calls of their
    own.
    """
    paid = [row for row in calls if row["calls"] and not row["failed"] and row["port"] != "service"]
    costs = [read_spent(str(row["reply"]))[1] for row in paid]
    known = [cost for cost in costs if cost is not None]
    return float(to_dollars(sum(known))) if calls and len(known) == len(costs) else None


logger: Final = logging.getLogger("karenina")


def write_report(
    *sources: Source,
    output: str | Path = "report.html",
    by: str | None = None,
    cluster: str | None = None,
    model: str | None = None,
    cuts: Mapping[str, float] | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
    benchmark: str | Path | Benchmark | None = None,
    any_judge: bool = False,
    any_template: bool = False,
) -> Path | None:
    """Write runs as a single HTML file that opens from disk, like `karenina report`. Returns the new path of a report
    that was already there, which is renamed, or None. Raises `ResultFileError`, `JournalError` or `BenchmarkFileError`
    if a file cannot be read, and `ConfigError` if a source has no results or an option is invalid.

    The arguments are the same as for `compare`, except that a single run is allowed. A `benchmark` also adds prompts. A
    warning is logged for anything that cannot be shown. Options must name known columns and traits, and `output` must
    not be a file of another kind.
    """
    options = ReportOptions(
        by=by,
        cluster=cluster,
        model=model,
        cuts=cuts or {},
        scales=scales or {},
        benchmark=benchmark,
        any_judge=any_judge,
        any_template=any_template,
    )
    return write_page(sources, Path(output), options, logger.warning)
