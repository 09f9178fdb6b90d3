"""Describe field rules in words, from the benchmark that the results belong to."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from karenina_core.errors import KareninaError
from karenina_core.text import compose
from karenina_engine.journal.user_state import read_own_command
from karenina_engine.journal.view import JournalView
from karenina_report.benchmark_questions import find_absent, load_benchmark
from karenina_report.runs import find_journal
from karenina_template.question_template import template_of
from karenina_template.templates import TemplateError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from pathlib import Path

    from karenina_benchmark import Benchmark
    from karenina_core.data.result import VerificationResult
    from karenina_report.runs import Source
    from karenina_template.templates import Primitive

FieldRules = Mapping[str, str]
"""The comparison rule of each field of a template, in words."""
Rules = Mapping[str, FieldRules]
"""Field rules by template id. Results contain the id of their template, so the rules always match."""


def find_rules(sources: Sequence[Source], benchmark: Benchmark | None = None) -> Rules:
    """Return the field rules of `benchmark`. By default, use the benchmarks of the user's runs.

    Paths come from the user's own state folder, never from a journal. A benchmark that cannot be read has no rules.
    """
    rules: dict[str, FieldRules] = {}
    benchmarks = [benchmark] if benchmark is not None else _own_benchmarks(sources)
    for loaded in benchmarks:
        rules |= read_rules(loaded)[0]
    return rules


def _own_benchmarks(sources: Sequence[Source]) -> Iterator[Benchmark]:
    """Yield each benchmark of the user's own runs that wrote the sources.

    Benchmarks that cannot be read are skipped.
    """
    seen = set()
    for journal in filter(None, map(find_journal, sources)):
        with suppress(KareninaError, OSError):
            command = _own_command(journal)
            path = command.get("benchmark")
            if path is not None and path not in seen:
                seen.add(path)
                with _quietly():
                    loaded = load_benchmark(
                        path, columns=command.get("columns"), skip_broken=bool(command.get("skip_broken"))
                    )
                yield loaded


def find_reading(sources: Sequence[Source], benchmark: Path) -> Mapping[str, str] | None:
    """Return the table options with which one of the user's own runs read `benchmark`.

    Returns None if there is no such run. Journals that cannot be read are skipped.
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
    """Silence the logger `karenina` within the block.

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
    """Return the command of the user's own run for a journal, or an empty mapping if it is not known.

    Raises `JournalError` or `UserStateError` if it cannot be read.
    """
    with JournalView(journal) as view:
        return read_own_command(view.id(), journal) or {}


def read_rules(benchmark: Benchmark) -> tuple[Rules, list[str]]:
    """Return a benchmark's field rules, and the ids of questions whose template is invalid or not trusted.

    Nothing is executed, so templates with code have no rules.
    """
    rules: dict[str, FieldRules] = {}
    left_out = []
    for question in benchmark:
        try:
            template = template_of(question)
        except TemplateError:
            left_out.append(question.id)
            continue
        if template is not None:
            rules[template.template_id] = {name: rule_text(rule.primitive) for name, rule in template.key.rules.items()}
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


def rule_text(primitive: Primitive) -> str:
    """Describe a primitive with its parameters, as in `NumericTolerance (tolerance 0.05)`, omitting defaults."""
    parts = ", ".join(_parameters(primitive))
    return f"{primitive.full_name()} ({parts})" if parts else primitive.full_name()


def _parameters(primitive: Primitive) -> Iterator[str]:
    """Yield the name and value of each parameter that differs from its default."""
    for name, value in primitive.model_dump(mode="json", exclude_defaults=True).items():
        yield f"{name} {', '.join(map(_parameter_text, value)) if isinstance(value, list) else _parameter_text(value)}"


def _parameter_text(value: object) -> str:
    """Return a parameter as text. A synonym map is described by its number of entries."""
    if isinstance(value, dict) and isinstance(value.get("mapping"), dict):
        return quantity(len(value["mapping"]), "other spelling")
    return str(value)
