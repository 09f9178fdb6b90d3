"""`karenina run --dry-run`: the expected calls, tokens and cost of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from karenina_cli.screen import print_rows, print_wrapped
from karenina_engine.cost.price_source import format_cost
from karenina_toolkit.printable import clean, quantity

if TYPE_CHECKING:
    from karenina_cli.screen import Screen, print_wrapped
    from karenina_engine.offline.estimate import Estimate, EstimatedLine, Span
    from karenina_engine.run.request import RunRequest


def dry_run(screen: Screen, request: RunRequest, *, as_json: bool) -> None:
    """Print the expected calls, tokens and cost of a run. Makes no call and writes nothing."""
    from karenina_core.config import find_adapter, plugins_of
    from karenina_engine.check.model_checks import check_models
    from karenina_engine.check.questions import select_questions, with_workspace_root
    from karenina_engine.check.recording_checks import check_recordings
    from karenina_engine.check.restricted_values import require_trust
    from karenina_engine.cost.price_table import PriceTable
    from karenina_engine.offline.estimate import estimate
    from karenina_engine.settings import EngineSettings

    trust = require_trust(request.benchmark, request.config, request.trust)
    config = with_workspace_root(request.benchmark, request.config)
    plugins = plugins_of(config)
    questions = select_questions(request.benchmark, config, request.question_ids)
    models = config.core.answering_models
    # Recordings are read and not called: what would stop the run stops its estimate.
    check_models(
        plugins, [("answering model", one) for one in models if find_adapter(plugins, one.interface).spec.recorded]
    )
    check_recordings(plugins, config, questions, request.benchmark)
    found = estimate(
        questions,
        config,
        plugins,
        PriceTable(plugins, config.section(EngineSettings).prices),
        trust=trust,
        journal=None if request.fresh else request.journal,
    )
    if as_json:
        screen.json({"estimate": found.to_dict()})
        return
    _print(screen, found)


def _print(screen: Screen, found: Estimate) -> None:
    if found.lines:
        head = ("Model", "Stage", "Calls", "Tokens in", "Tokens out", "Cost", "From", "To")
        rows = [
            (line.model, line.stage, _count_text(line.calls), *_tokens(line), *_costs(line)) for line in found.lines
        ]
        print_rows(screen.out, [head, *rows], texts=(0, 1))
    _say(
        screen,
        f"No call was made. {quantity(found.items, 'item')}, {found.done:,} of them with a result in the journal.",
    )
    if found.kept:
        _say(screen, f"The journal stores {found.kept:,} replies for the others, which are not paid again.")
    _say(screen, f"Expected: {_count_text(found.calls)} calls for {found.format_cost()}.")
    if found.spent:
        _say(screen, f"Earlier runs with this journal spent {format_cost(found.spent)}.")
    if found.sample and found.lines:
        basis = "the calls in the journal" if all(line.measured for line in found.lines) else "replies of usual length"
        _say(screen, f"Estimated from {quantity(found.sample, 'question')} and {basis}; retries cost more.")
    for stage, why in found.not_counted.items():
        _say(screen, f"Not counted: {stage}: {why}")
    for stage, error in found.failed.items():
        _say(screen, f"Not counted: {stage} could not be simulated: {error}")
    for name, price in found.prices["models"].items():
        print_wrapped(screen.out, Text(clean(f"Price of {name}: {price['from']}"), style="dim"))


def _say(screen: Screen, text: str) -> None:
    print_wrapped(screen.out, Text(clean(text)))


def _tokens(line: EstimatedLine) -> tuple[str, str]:
    return _count_text(line.input_tokens), _count_text(line.output_tokens)


def _count_text(span: Span) -> str:
    return f"{round(span.typical):,}"


def _costs(line: EstimatedLine) -> tuple[str, str, str]:
    if line.cost is None:
        return "unknown", "", ""
    least, typical, most = (format_cost(round(one)) for one in line.cost)
    return typical, least, most
