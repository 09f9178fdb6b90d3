"""The run of drafts: an ordinary run of the engine, in which the answers of the file take the place of a model's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from karenina_benchmark import Benchmark
from karenina_benchmark.config.model_specs import recording_interface
from karenina_benchmark.template_declarations import make_template_source
from karenina_core.config import VerificationConfig, all_settings
from karenina_core.data.question import Question
from karenina_core.errors import ConfigError
from karenina_core.text import did_you_mean
from karenina_drafting.brief import DraftBrief, choose_others

if TYPE_CHECKING:
    from collections.abc import Iterable

RUN_NAME: Final = "draft"
_TEMPLATE: Final = {"answered": {"type": "bool", "verify_with": {"type": "TraceLength", "min": 1}}}
"""The template of the run's items, which every answer passes: the verdict is that of the checks of the draft."""
_OWNERS: Final = frozenset(("karenina-core", "karenina-engine", "karenina-drafting"))
"""The owners of the settings that a run of drafts uses."""
_FIXED: Final = frozenset(
    (
        *("answering_models", "replicate_count", "evaluation_mode", "parsing_only", "rubric_trait_names", "slots"),
        *("use_full_trace_for_template", "use_full_trace_for_rubric", "draft_templates"),
    )
)
"""Settings that a run of drafts chooses."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The questions of a file: those to draft, those without an answer, and the number of those with a template."""

    wanted: tuple[Question, ...]
    without_answer: tuple[Question, ...]
    with_template: int


def select_questions(benchmark: Benchmark, ids: Iterable[str] | None, limit: int | None) -> Selection:
    """Return the questions to draft: `ids` or all, at most `limit`, without those that have a template of their own.

    Raises `ConfigError` for an unknown id, and if no question has an answer to draft from.
    """
    chosen = list(dict.fromkeys(ids)) if ids is not None else list(benchmark.ids)
    unknown = [id for id in chosen if id not in benchmark]
    if unknown:
        raise ConfigError([f"the file has no question {id!r}{did_you_mean(id, benchmark.ids)}" for id in unknown])
    questions = [benchmark.get(id) for id in chosen]
    every_open = [one for one in questions if not one.has_template or one.id in benchmark.made_templates]
    open_ones = every_open[:limit]
    wanted = tuple(one for one in open_ones if (one.raw_answer or "").strip())
    if not wanted:
        why = "all of them have a template" if questions and not open_ones else "none has an answer"
        cure = "add a column `answer` (`raw_answer` in YAML), or map a column with --columns answer=COLUMN"
        raise ConfigError([f"there is no question to draft a template for: {why}; {cure}"])
    missing = tuple(one for one in open_ones if not (one.raw_answer or "").strip())
    return Selection(wanted, missing, len(questions) - len(every_open))


def make_benchmark(wanted: Sequence[Question], every: Sequence[Question], *, from_response: bool) -> Benchmark:
    """Return a benchmark with the `wanted` questions; the answers that drafts must reject are from `every` question."""
    benchmark = Benchmark.create(name="Drafts")
    source = make_template_source(_TEMPLATE)
    answered = [one for one in every if (one.raw_answer or "").strip()]
    places = {one.id: place for place, one in enumerate(answered)}
    for question in wanted:
        brief = DraftBrief(others=choose_others(answered, places[question.id]), from_response=from_response)
        plain = Question(
            id=question.id,
            question=question.question,
            raw_answer=question.raw_answer,
            answer_template=source,
        )
        benchmark.add_question(brief.attach_to(plain))
    return benchmark


def make_config(
    wanted: Sequence[Question], settings: VerificationConfig, tries: int | None
) -> tuple[VerificationConfig, list[str]]:
    """Return the configuration of the run, and the names of given settings that have no effect on drafts.

    Raises `ConfigError` unless exactly one model is configured.
    """
    owned = all_settings()
    used = {name: value for name, value in settings.given().items() if owned[name].owner in _OWNERS}
    unused = sorted(settings.given().keys() - used.keys())
    kept = {name: value for name, value in used.items() if name not in _FIXED}
    models = len(kept.get("parsing_models") or ())
    if models != 1:
        problem = "no model is given" if not models else f"{models} models are given, and drafts need one"
        raise ConfigError([f"{problem}: name it with --model, for example --model openai:NAME"])
    recorded: dict[str, Any] = {"id": "recorded", "interface": recording_interface(), "model_name": "recorded"}
    values = {
        "run_name": RUN_NAME,
        **kept,
        **({} if tries is None else {"draft_tries": tries}),
        "draft_templates": True,
        "evaluation_mode": "template_only",
        "answering_models": [{**recorded, "manual_traces": {one.id: one.raw_answer for one in wanted}}],
    }
    return VerificationConfig(**values), unused
