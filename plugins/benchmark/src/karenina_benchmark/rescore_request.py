"""The request made by `karenina rescore` to score a journal, or a result file without a journal, again.

It combines the user's benchmark and settings with the model names in the journal. Result files of the reference project
have no journal. The extracted values in them are compared with the current templates, while refusals, guard results,
overrides by similarity and trait scores are not changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark.config.config_files import read_config_values, resolve_recordings
from karenina_benchmark.resume_request import (
    change_to_run_folder,
    current_settings,
    describe_unnamed,
    existing_ids,
    read_commands,
)
from karenina_core.config import VerificationConfig
from karenina_core.config import all_settings as owned_settings
from karenina_core.data.outcome import Outcome
from karenina_core.errors import ConfigError
from karenina_engine.calls.journal_labels import JournalLabels, plain_name
from karenina_engine.journal.command import LEFT_OUT, restore_secrets
from karenina_engine.journal.named_files import find_changes
from karenina_engine.model_settings import model_settings
from karenina_engine.offline.rescoring import RescoreReport, find_change, open_output
from karenina_engine.results.aggregate import RunTally
from karenina_engine.results.question_units import unit_of_question
from karenina_engine.results.result_file import check_output
from karenina_engine.results.result_lines import LineWriter
from karenina_engine.results.result_set import read_results
from karenina_toolkit.answer_values import values_of_result

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_core.data.question import Question
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.trust import Trust
    from karenina_engine.offline.rescoring import Change

_COMPARED: Final = ("right", "partial", "wrong", "undecided")
"""The groups of outcomes that result from comparing extracted values."""


@dataclass(frozen=True, slots=True)
class RescoreRequest:
    """A journal, with the benchmark, configuration and question ids for scoring its items."""

    journal: Path
    benchmark: Benchmark
    config: VerificationConfig
    ids: Sequence[str] | None


def make_rescore_request(
    journal: Path,
    file: Path | None,
    *,
    config: Path | None,
    judges: Sequence[Mapping[str, Any]] | None,
    ask: bool,
    trust_all: bool,
    columns: Mapping[str, str] | None,
    note: Callable[[str], None],
) -> RescoreRequest:
    """Make the request for scoring a journal again, with the benchmark in `file` or that of the user's own run. If the
    run is the user's own, this changes the process's working directory to that of the run. Nothing is scored yet.
    Raises `ConfigError` if the benchmark is unknown, the run's files have changed, or a judge is missing, and
    `JournalError` if the journal cannot be read.

    The settings are taken from the user's own run. If there is no such run, they are the settings in the journal that
    files are allowed to set. The configuration file `config` overrides them. If `ask` is set, the judges are `judges`,
    those in the configuration file, or those of the user's own run. `trust_all` allows the benchmark to refer to files
    outside its folder. `columns` maps the columns of a table, by default as in the user's own run. `note` prints what
    is omitted.
    """
    from karenina_benchmark import Benchmark

    labels, command = read_commands(journal)
    if file is None and command is None and not labels.benchmark:
        again = "repeat that command or program with the journal, whose replies are used again"
        named = f"or name the benchmark: karenina rescore {quote(str(journal))} BENCHMARK"
        raise ConfigError([f"{describe_unnamed(journal)}. To score its results again, {again}, {named}"])
    if file is None and command is None:
        name = plain_name(labels.benchmark) or "BENCHMARK"
        raise ConfigError(
            [
                f"{journal} was not written at this path by one of your runs (it was copied, moved, or made by another "
                "user), so its benchmark file is not opened unless you name it:\n"
                f"  karenina rescore {quote(str(journal))} {quote(name)}"
            ]
        )
    path, file, config = journal.absolute(), _absolute(file), _absolute(config)
    configured = resolve_recordings(read_config_values(config), config) if config is not None else {}
    if command is not None:
        change_to_run_folder(command)
        changes = find_changes(command, starts=ask, benchmark=file is None)
        if changes:
            cure = (
                "review these changes, then run the benchmark again. `karenina rescore` uses the settings of your run "
                "only if the run's files are unchanged"
            )
            raise ConfigError([*changes, cure])
    named = command["benchmark"] if file is None and command is not None else str(file)
    skip_broken = command is not None and command.get("skip_broken", False)
    columns = columns or (command.get("columns") if command is not None else None)
    benchmark = Benchmark.load(named, "all" if trust_all else None, skip_broken=skip_broken, columns=columns)
    values = _own_settings(command) if command is not None else _free_settings(labels, note)
    holding = model_settings()
    values |= {name: value for name, value in configured.items() if name not in holding}
    models: dict[str, Any] = dict(labels.models())
    if ask:
        live = judges or configured.get("parsing_models") or _own_judges(benchmark, command)
        models["parsing_models"] = _match_judges(labels, live)
    chosen = VerificationConfig(**{**values, **models})
    ids = list(labels.questions) if labels.questions is not None else None
    return RescoreRequest(path, benchmark, chosen, existing_ids(benchmark, ids, note))


def _absolute(path: Path | None) -> Path | None:
    return path.absolute() if path is not None else None


def _own_settings(command: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the user's command without models and secrets, which do not affect scores."""
    stored = command["config"].items()
    holding = model_settings()
    return {name: value for name, value in stored if name not in holding and value != LEFT_OUT}


def _free_settings(labels: JournalLabels, note: Callable[[str], None]) -> dict[str, Any]:
    """Return the settings in a journal that files are allowed to set. The journal may be someone else's, so all others
    are left out; `note` prints those that would affect the results.
    """
    free, others = labels.free_settings()
    owned = owned_settings()
    changing = [name for name in others if name not in owned or owned[name].changes_results]
    if changing:
        names = ", ".join(sorted(changing))
        note(
            f"Some settings were not taken from the journal, because it may be someone else's: {names}. Set them "
            "with --set or -c."
        )
    return free


def _own_judges(benchmark: Benchmark, command: Mapping[str, Any] | None) -> Sequence[Any]:
    """Return the judges of the user's own run with their secrets, which are read from the current settings, or nothing
    if the run is someone else's. Raises `ConfigError` if a secret is missing.
    """
    if command is None:
        return ()
    stored = {name: value for name, value in command["config"].items() if name == "parsing_models"}
    judges: Sequence[Any] = restore_secrets(stored, current_settings(benchmark, command)).get("parsing_models", ())
    return judges


def _match_judges(labels: JournalLabels, live: Sequence[Any]) -> list[Any]:
    """Return those of the `live` judges that are to be called, matched by id, in the order of the run's judges. Raises
    `ConfigError` if one is missing, or if the run had none.
    """
    by_id = {model.get("id") if isinstance(model, Mapping) else model.id: model for model in live}
    ids = [str(entry.get("id")) for entry in labels.judges]
    missing = [id for id in ids if id not in by_id]
    if missing or not ids:
        judged = f"was judged by {', '.join(map(repr, missing))}" if missing else "had no judges"
        raise ConfigError(
            [
                f"--ask takes judges from the command line, but this run {judged}. Add each judge with -j "
                'under its id, such as -j \'{"id": "...", "interface": "openai", "model_name": "..."}\', or with -c'
            ]
        )
    return [by_id[id] for id in ids]


def rescore_results(path: Path, benchmark: Benchmark, trust: Trust, output: Path | None = None) -> RescoreReport:
    """Compare the extracted values in a result file with `benchmark`, and return the changes. No model is called.
    Results for unknown questions are skipped. If `output` is given, the new results are written to it, and an existing
    file is renamed. Raises `ConfigError` if no results remain, or if `output` is another kind of file.
    """
    from karenina_template.templates.primitives import files_in

    began = time.monotonic()
    if output is not None:
        check_output(output)
    before, after = RunTally(), RunTally()
    changes: list[Change] = []
    done: list[VerificationResult] = []
    gone = 0
    for then in read_results(path):
        question = benchmark.get(then.question_id) if then.question_id in benchmark else None
        if question is None:
            gone += 1
            continue
        with files_in(benchmark.path.absolute().parent if benchmark.path is not None else None):
            now = _rescore(then, question, trust)
        group = (then.metadata.answering_id, then.metadata.parsing_id)
        unit = unit_of_question(question)
        for tally, result in ((before, then), (after, now)):
            granular = result.template.verify_granular_result
            tally.add(group, result.outcome, unit, granular, template_id=result.metadata.template_id)
        change = find_change(then, now)
        changes += [change] if change is not None else []
        done.append(now)
    if not done:
        raise ConfigError([f"no question in the benchmark has a result in {path}; pass the benchmark of that run"])
    if output is not None:
        writer = LineWriter()
        with open_output(output) as add:
            add(line for result in done for line in writer.lines(result))
    new = len(set(benchmark.ids) - {result.question_id for result in done})
    return RescoreReport(before.summary(), after.summary(), changes, gone, new, time.monotonic() - began)


def _rescore(then: VerificationResult, question: Question, trust: Trust) -> VerificationResult:
    """Return a copy of a result with a new verdict on its extracted values. If they cannot be compared, no exception is
    raised, and the copy has an error. If the outcome did not depend on them, the result itself is returned.
    """
    from karenina_template.question_template import template_of
    from karenina_template.templates import TemplateError
    from karenina_template.templates.comparison import Comparison

    values = then.template.parsed_llm_response
    if values is None or then.outcome.group not in _COMPARED or then.template.embedding_override_applied:
        return then
    now = then.model_copy(deep=True)
    try:
        template = template_of(question, trust)
        if template is None:
            return _mark_unjudged(now, Outcome.TEMPLATE_ERROR, "the question has no template")
        bound = template.for_question(question.id)
        known = values_of_result(then, bound.sources.values())
        answer = bound.bind(values, then.template.raw_llm_response, known)
        comparison = Comparison(answer)
        passed, patterns = comparison.passed(), answer.verify_regex(then.template.raw_llm_response)
        fields, granular = comparison.results(), comparison.granular() if bound.is_graded else None
    except TemplateError as error:
        return _mark_unjudged(now, Outcome.TEMPLATE_ERROR, str(error))
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        return _mark_unjudged(now, Outcome.PARSE_ERROR, f"the extracted values do not fit the template: {what}")
    now.template.known_values = {
        name: value.model_copy(update={"fields": [field for field, source in bound.sources.items() if source == name]})
        for name, value in known.items()
    } or None
    now.template.field_results, now.template.verify_granular_result = fields, granular
    now.template.regex_validation_results = patterns.results or None
    now.template.regex_overall_success = patterns.overall_success
    now.template.field_verification_error = comparison.why_undecided() if passed is None else None
    if patterns.overall_success is False:
        passed = False
    now.template.verify_result = passed
    partial = granular is not None and granular > 0
    now.outcome = Outcome.UNDECIDED if passed is None else Outcome.PARTIAL if partial else Outcome.WRONG
    if passed:
        now.outcome = Outcome.CORRECT
    return now


def _mark_unjudged(now: VerificationResult, outcome: Outcome, why: str) -> VerificationResult:
    """Change `now` to an outcome without a verdict, with `why` as its error, and return it."""
    now.outcome, now.template.verify_result, now.metadata.error = outcome, None, why
    now.metadata.completed_without_errors = False
    return now
