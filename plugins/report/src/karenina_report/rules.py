"""Describe field rules in words, from the benchmark that the results belong to."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from karenina_core.errors import KareninaError
from karenina_core.text import compose
from karenina_engine.journal.user_state import read_own_command, read_own_rules
from karenina_engine.journal.view import JournalView
from karenina_report.benchmark_questions import find_absent, load_benchmark
from karenina_report.runs import find_journal, is_rescored
from karenina_toolkit.files.state_folder import UserStateError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_report.runs import Source

FieldRules = Mapping[str, str]
"""The comparison rule of each field of a template, in words."""
Rules = Mapping[str, FieldRules]
"""Field rules by template id. Results contain the id of their template, so the rules always match."""


def find_rules(sources: Sequence[Source], benchmark: Benchmark | None = None) -> Rules:
    """Return field rules by template id: those of `benchmark`, or by default of the user's runs that wrote the sources.
    Rules that cannot be read are left out.

    They come from the user's own state folder, never from a journal. If a run stored none, or its results were rescored
    later, the rules of the run's benchmark are returned.
    """
    if benchmark is not None:
        return read_rules(benchmark)[0]
    rules: dict[str, FieldRules] = {}
    seen = set()
    for source in sources:
        journal = find_journal(source)
        if journal is None:
            continue
        with suppress(KareninaError, OSError):
            command = _own_command(journal)
            path = command.get("benchmark")
            stored = _stored_rules(journal) if path is not None and not is_rescored(source) else None
            if stored is not None:
                rules |= stored
            elif path is not None and path not in seen:
                seen.add(path)
                with _quietly():
                    loaded = load_benchmark(
                        path, columns=command.get("columns"), skip_broken=bool(command.get("skip_broken"))
                    )
                rules |= read_rules(loaded)[0]
    return rules


def _stored_rules(journal: Path) -> Rules | None:
    """Return the rules that the last run of the user's own journal stored, or None if none can be read."""
    with suppress(UserStateError), JournalView(journal) as view:
        return read_own_rules(str(view.id()), view.run_digest())
    return None


def find_reading(sources: Sequence[Source], benchmark: Path) -> Mapping[str, str] | None:
    """Return the table options with which one of the user's own runs read `benchmark`, or None without such a run.
    Journals that cannot be read are skipped.
    """
    for journal in filter(None, map(find_journal, sources)):
        with suppress(KareninaError, OSError):
            command = _own_command(journal)
            path, columns = command.get("benchmark"), command.get("columns")
            if path is not None and columns and benchmark.samefile(path):
                return {str(name): str(column) for name, column in columns.items()}
    return None


@contextmanager
def _quietly() -> Iterator[None]:
    """Drop all messages of the logger `karenina` within the block.

    The messages about a benchmark were already printed by the user's run.
    """
    logger = logging.getLogger("karenina")
    logger.addFilter(_drop_record)
    try:
        yield
    finally:
        logger.removeFilter(_drop_record)


def _drop_record(_record: logging.LogRecord) -> bool:
    return False


def _own_command(journal: Path) -> Mapping[str, Any]:
    """Return the command with which this user wrote a journal, or an empty mapping if it is not known or was another
    user's. Raises `JournalError` or `UserStateError` if it cannot be read.
    """
    with JournalView(journal) as view:
        return read_own_command(view.id(), journal) or {}


def read_rules(benchmark: Benchmark) -> tuple[Rules, list[str]]:
    """Return field rules by template id, and the ids of questions whose template is invalid or not trusted. Nothing is
    executed, so templates with code have no rules.
    """
    from karenina_template.question_template import template_of  # imported here because it takes long
    from karenina_template.rules import template_rules
    from karenina_template.templates import TemplateError

    rules: dict[str, FieldRules] = {}
    left_out = []
    for question in benchmark:
        try:
            template = template_of(question)
        except TemplateError:
            left_out.append(question.id)
            continue
        if template is not None:
            rules[template.template_id] = template_rules(template)
    return rules, left_out


def find_missing_rules(benchmark: Benchmark, results: Iterable[VerificationResult]) -> Iterator[str]:
    """Yield a warning about questions missing from the benchmark, and one for each reason why rules are missing."""
    results = list(results)
    yield from find_absent(benchmark, results)
    rules, left_out = read_rules(benchmark)
    asked = {compose(result.question_id) for result in results}
    untrusted = asked & set(map(compose, left_out))
    if untrusted:
        which = "its template is" if len(untrusted) == 1 else "their templates are"
        yield f"the rules of {quantity(len(untrusted), 'question')} were left out because {which} code"
    shared = asked & set(map(compose, benchmark.ids))
    changed = {
        compose(result.question_id)
        for result in results
        if result.template.field_results and result.metadata.template_id not in rules
    }
    if changed := (changed & shared) - untrusted:
        whose = "its template has" if len(changed) == 1 else "their templates have"
        yield f"the rules of {quantity(len(changed), 'question')} were left out because {whose} changed since the run"
