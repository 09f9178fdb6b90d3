"""`karenina draft`: a model drafts templates for questions, and the user reviews them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from karenina_benchmark import Benchmark
from karenina_benchmark.config.model_specs import recording_interface
from karenina_benchmark.template_declarations import make_template_source
from karenina_cli.input.configuration import read_configuration
from karenina_cli.input.model_options import SPEC_HELP, ModelOptions, model_option
from karenina_cli.input.options import ConfigOptions, benchmark_argument, question_option
from karenina_core.config import VerificationConfig, all_settings
from karenina_core.data.question import Question
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_drafting.brief import DraftBrief, choose_others
from karenina_terminal.options import (
    Columns,
    Encoding,
    JournalPath,
    JSONObject,
    NoProgress,
    Rows,
    Sheet,
    output_option,
    parse_columns,
    with_option_groups,
)
from karenina_terminal.screen import get_screen
from karenina_toolkit.printable import in_one_line, quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from karenina_drafting.drafts import Draft
    from karenina_terminal.screen import Screen


RUN_NAME: Final = "draft"
_TEMPLATE: Final = {"answered": {"type": "bool", "verify_with": {"type": "TraceLength", "min": 1}}}
"""The template of the run's items, which accepts everything because the draft's checks decide."""
_OWNERS: Final = frozenset(("karenina-core", "karenina-engine", "karenina-drafting"))
"""The owners of the settings that a drafting run uses."""
_FIXED: Final = frozenset(
    (
        *("answering_models", "replicate_count", "evaluation_mode", "parsing_only", "rubric_trait_names", "slots"),
        *("use_full_trace_for_template", "use_full_trace_for_rubric", "draft_templates"),
    )
)
"""Settings that a drafting run sets itself."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The questions to draft templates for, the questions without an answer, and the number with a template."""

    wanted: tuple[Question, ...]
    without_answer: tuple[Question, ...]
    with_template: int


def select_questions(benchmark: Benchmark, ids: Iterable[str] | None, limit: int | None) -> Selection:
    """Select at most `limit` questions to draft templates for, from `ids` or all. Questions with a template are
    skipped, unless it was generated from the correct answer in a table. Raises `ConfigError` if an ID is unknown, or if
    there is no question to draft for. The limit counts questions without an answer, too.
    """
    chosen = list(dict.fromkeys(ids)) if ids is not None else list(benchmark.ids)
    unknown = [id for id in chosen if id not in benchmark]
    if unknown:
        raise ConfigError([f"the file has no question {id!r}{did_you_mean(id, benchmark.ids)}" for id in unknown])
    questions = [benchmark.get(id) for id in chosen]
    every_open = [
        question for question in questions if not question.has_template or question.id in benchmark.made_templates
    ]
    open_ones = every_open[:limit]
    wanted = tuple(question for question in open_ones if (question.raw_answer or "").strip())
    if not wanted:
        if questions and not open_ones:
            raise ConfigError(["there is nothing to draft because all of the questions already have a template"])
        cure = "add an `answer` column (`raw_answer` in YAML), or map a column with --columns answer=COLUMN"
        if len(open_ones) < len(every_open):
            raise ConfigError([f"--limit {limit} selects no question with an answer; raise the limit, or {cure}"])
        raise ConfigError([f"there is nothing to draft because none of the questions has an answer; {cure}"])
    missing = tuple(question for question in open_ones if not (question.raw_answer or "").strip())
    return Selection(wanted, missing, len(questions) - len(every_open))


def make_benchmark(wanted: Sequence[Question], every: Sequence[Question], *, from_response: bool) -> Benchmark:
    """Make a benchmark with the `wanted` questions, each with a placeholder template and a brief: up to two answers to
    other questions in `every`, which a draft must reject, and whether the answers are prose (`from_response`). All
    `wanted` questions must have answers and be in `every`. Rubrics and other fields are omitted.
    """
    benchmark = Benchmark.create(name="Drafts")
    source = make_template_source(_TEMPLATE)
    answered = [question for question in every if (question.raw_answer or "").strip()]
    places = {question.id: place for place, question in enumerate(answered)}
    for question in wanted:
        brief = DraftBrief(others=choose_others(answered, places[question.id]), from_response=from_response)
        plain = Question(
            id=question.id, question=question.question, raw_answer=question.raw_answer, answer_template=source
        )
        benchmark.add_question(brief.attach_to(plain))
    return benchmark


def make_config(
    wanted: Sequence[Question], settings: VerificationConfig, tries: int | None
) -> tuple[VerificationConfig, list[str]]:
    """Make the run's configuration, and return it with the names of settings that do not affect drafts. Settings that a
    drafting run sets itself, such as `answering_models`, are overridden without being listed. Raises `ConfigError`
    unless there is exactly one parsing model. `tries` is the maximum number of drafts, or None for the configured
    number.
    """
    owned = all_settings()
    used = {name: value for name, value in settings.given().items() if owned[name].owner in _OWNERS}
    unused = sorted(settings.given().keys() - used.keys())
    applied = {name: value for name, value in used.items() if name not in _FIXED}
    models = len(applied.get("parsing_models") or ())
    if models != 1:
        problem = "no model was given" if not models else f"{models} models were given, but drafts need exactly one"
        raise ConfigError([f"{problem}; specify one with --model, for example --model openai:NAME"])
    recorded: dict[str, Any] = {"id": "recorded", "interface": recording_interface(), "model_name": "recorded"}
    values = {
        "run_name": RUN_NAME,
        **applied,
        **({} if tries is None else {"draft_tries": tries}),
        "draft_templates": True,
        "evaluation_mode": "template_only",
        "answering_models": [{**recorded, "manual_traces": {question.id: question.raw_answer for question in wanted}}],
    }
    return VerificationConfig(**values), unused


app = typer.Typer()
EPILOG: Final = (
    "\b\nExit codes:\n"
    "  0    the file was written, even if some drafts are left to you\n"
    "  2    bad input, such as an output file that already exists; no model was called\n"
    "  3    the budget is spent; run the same command with a larger budget to continue\n"
    "  4    the model failed for every question\n"
    "  70   an error in the program or a plugin, or the journal or output could not be written\n"
    "  124  run_timeout expired; run the same command to continue\n"
    "  130  stopped with Ctrl-C; run the same command to continue\n"
)


@app.command(epilog=EPILOG)
@with_option_groups
def draft(
    ctx: typer.Context,
    *,
    file: Annotated[Path, benchmark_argument("Questions and their answers, as a table or a benchmark.")],
    model: Annotated[str | None, model_option("--model", "-m", f"The model that drafts: {SPEC_HELP}")] = None,
    output: Annotated[
        Path | None,
        output_option(
            "The YAML file to write for review; it must not exist yet. Default: the name of FILE with the suffix "
            ".draft.yaml, in the current folder."
        ),
    ] = None,
    from_response: Annotated[
        bool, typer.Option("--from-response", help="The answers are prose, such as experts' responses.")
    ] = False,
    tries: Annotated[
        int | None, typer.Option(min=1, max=10, help="The maximum number of drafts per question. Default: 3.")
    ] = None,
    question: Annotated[list[str] | None, question_option("Draft a template only for this question.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Draft templates only for the first N questions.")] = None,
    columns: Columns = None,
    rows: Rows = None,
    encoding: Encoding = None,
    sheet: Sheet = None,
    setup: ConfigOptions,
    journal: JournalPath = None,
    as_json: JSONObject = False,
    quiet: NoProgress = False,
) -> None:
    """Draft a template for each question from its answer, check the drafts, and write them for review.

    A draft must build, accept its own ground truth, reject changed ground truths and the answers to other questions,
    and not reveal a ground truth to a judge. A draft that fails is returned to the model with the reasons. If the last
    one fails, the question is left to you. Model calls are made as in a run: with a journal, limits and a budget.
    """
    screen = get_screen(ctx)
    with screen.report_errors():
        from karenina_cli.input.named_files import load_checked
        from karenina_cli.running.run_execution import run_for_results
        from karenina_drafting.brief import DraftBrief
        from karenina_drafting.drafts import check_new, collect_drafts, write_drafts
        from karenina_engine.results.result_file import check_output, default_journal
        from karenina_engine.run.request import RunRequest

        target = output or Path(f"{file.stem}.draft.yaml")
        results = target.with_name(f"{target.stem}.results.jsonl")
        check_new(target)
        benchmark = load_checked(file, columns=parse_columns(columns, rows, encoding, sheet))
        for note in benchmark.load_notes:
            screen.note(note)
        selection = select_questions(benchmark, question, limit)
        every = [benchmark.get(question_id) for question_id in benchmark.ids]
        items = make_benchmark(selection.wanted, every, from_response=from_response)
        models = ModelOptions({"parsing_models": [model]} if model is not None else {})
        chosen = read_configuration(None, setup.config, setup.settings, models=models)
        used, unused = make_config(selection.wanted, chosen, tries)
        if unused:
            screen.note(f"These settings have no effect on drafts: {', '.join(unused)}.")
        if selection.with_template:
            screen.note(f"Skipped {quantity(selection.with_template, 'question')} with a template.")
        check_output(results)
        request = RunRequest(
            items, used, output=results, journal=journal or default_journal(results), config_file=setup.config
        )
        draft_results = list(run_for_results(screen, request, results, quiet=quiet))
        others = {item.id: [other.question_id for other in DraftBrief.of(item).others] for item in items}
        chosen_ids = {asked.id for asked in (*selection.wanted, *selection.without_answer)}
        drafts = collect_drafts([asked for asked in every if asked.id in chosen_ids], draft_results, others)
        name = used.core.parsing_models[0].display_string
        write_drafts(target, benchmark.name, drafts, name)
        if as_json:
            screen.json(_json(drafts, target))
        else:
            _print(drafts, target, results)
        _exit(screen, drafts)


def _print(drafts: Sequence[Draft], target: Path, results: Path) -> None:
    """Print how many drafts passed, the questions without a draft and the reasons, and what to review."""
    from karenina_drafting.drafts import foreign_synonyms

    passed = [draft for draft in drafts if draft.answer is not None]
    first = sum(draft.tries == 1 for draft in passed)
    typer.echo(f"Drafts   {len(passed)} of {len(drafts)} passed their checks, {first} on the first try")
    left = [draft for draft in drafts if draft.answer is None]
    if left:
        typer.echo(f"To do    {quantity(len(left), 'question')} without a draft:")
        for draft in left:
            typer.echo(f"         {in_one_line(draft.question.id)}: {in_one_line(draft.reason or '')}")
    marked = sum(len(foreign_synonyms(draft)) for draft in passed)
    if marked:
        typer.echo(f"Marked   {quantity(marked, 'synonym')} that the answers do not contain; keep only exact synonyms")
    typer.echo(
        f"Review   {target}: read every field before you use the file; `karenina show {quote(str(results))}` prints "
        "the calls"
    )


def _json(drafts: Sequence[Draft], target: Path) -> dict[str, object]:
    """Return the outcome of each draft without its template, the number that passed, and the path `target` of their
    file as a JSON-compatible dict.
    """
    from karenina_drafting.drafts import foreign_synonyms

    return {
        "questions": len(drafts),
        "passed": sum(draft.answer is not None for draft in drafts),
        "output": str(target),
        "drafts": [
            {
                "id": draft.question.id,
                "passed": draft.answer is not None,
                "tries": draft.tries,
                "failed": draft.failed,
                "reason": draft.reason,
                "synonyms_not_in_answer": list(foreign_synonyms(draft)),
            }
            for draft in drafts
        ],
    }


def _exit(screen: Screen, drafts: Sequence[Draft]) -> None:
    """Exit with `NOTHING_JUDGED` and a note if the model failed for every question that has an answer."""
    from karenina_terminal.screen import ExitCode

    asked = [draft for draft in drafts if draft.failed or draft.tries]
    if all(draft.failed for draft in asked):
        screen.note("The model failed for every question. Fix the cause, move the output, and run the command again.")
        raise typer.Exit(ExitCode.NOTHING_JUDGED)
