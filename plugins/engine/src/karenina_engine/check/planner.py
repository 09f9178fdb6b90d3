"""Plans for the questions of a run.

Most questions share a plan, so only a few plans have to be computed. Plans can be shown as text or, in notebooks, as a
table.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from karenina_core.errors import ConfigError
from karenina_core.namespaces import namespace_of
from karenina_core.plan import Plan, PlanError, PlannedStage, make_plan
from karenina_core.stage_selection import SLOT_RULES
from karenina_core.stages.stage import Skip, Stage, registered_stages
from karenina_core.text import to_html
from karenina_engine.check.plugin_checks import blocked_stages, requested_but_blocked
from karenina_engine.check.turns import turn_problems
from karenina_engine.progress.observers import NO_OBSERVERS, Observers
from karenina_engine.results.question_units import UnitCounts
from karenina_engine.settings import EngineSettings
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from karenina_core.config import VerificationConfig
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust
    from karenina_core.pipeline import Pipeline, StageListener
    from karenina_core.plugins import Plugins
    from karenina_engine.check.attachments import AttachmentCheck
    from karenina_engine.check.judge_needs import JudgeNeeds
    from karenina_engine.check.plugin_checks import OwnedFields
    from karenina_engine.question_source import QuestionCheck
    from karenina_template.rules import RuleLines

_MAX_SELECTION_KEYS = 1024
"""The maximum number of cached selection keys. Keys may contain question ids, so there could be a great many."""
PLAN_HEAD: Final = ("#", "Stage", "Slot", "From", "Waits for")


class Survey(NamedTuple):
    """Facts about a run's questions, collected before the run starts.

    `stages` maps the names of the stages that check questions to the stage and the indexes of its questions.
    `with_traits` is the number of questions with rubric traits, and `repeated` that of the questions in each
    statistical unit with several questions.
    """

    stages: Mapping[str, tuple[Stage, array[int]]]
    with_traits: int
    pipelines: QuestionPipelines
    repeated: Mapping[Hashable, int]


class QuestionPipelines(Sequence["Pipeline"]):
    """The pipelines for a run's questions, in order. Each distinct pipeline is stored only once."""

    def __init__(self) -> None:
        self._numbers: dict[Pipeline, int] = {}
        self._distinct: list[Pipeline] = []
        self._by_question = array("I")

    def append(self, pipeline: Pipeline) -> None:
        """Add the pipeline of the next question."""
        number = self._numbers.get(pipeline)
        if number is None:
            number = self._numbers[pipeline] = len(self._distinct)
            self._distinct.append(pipeline)
        self._by_question.append(number)

    @property
    def plans(self) -> Sequence[Plan]:
        """The plans of the distinct pipelines."""
        return [pipeline.plan for pipeline in self._distinct]

    def without_observers(self) -> QuestionPipelines:
        """Return a copy in which the pipelines have no observers."""
        quiet = QuestionPipelines()
        quiet._distinct = [_make_pipeline(pipeline.plan, None, pipeline.item_timeout) for pipeline in self._distinct]
        quiet._numbers = {pipeline: number for number, pipeline in enumerate(quiet._distinct)}
        quiet._by_question = self._by_question
        return quiet

    def __len__(self) -> int:
        """Return the number of questions."""
        return len(self._by_question)

    def __iter__(self) -> Iterator[Pipeline]:
        """Return an iterator over the pipelines of all questions."""
        return map(self._distinct.__getitem__, self._by_question)

    @overload
    def __getitem__(self, place: int) -> Pipeline: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Pipeline]: ...
    def __getitem__(self, place: int | slice) -> Pipeline | Sequence[Pipeline]:
        """Return one pipeline or, for a slice, a list of pipelines."""
        if isinstance(place, slice):
            return [self._distinct[number] for number in self._by_question[place]]
        return self._distinct[self._by_question[place]]


class Planner:
    """Computes and caches the plan of each question for one configuration."""

    def __init__(self, config: VerificationConfig, plugins: Plugins, observers: Observers = NO_OBSERVERS) -> None:
        show_plans_in_notebooks()
        self._config = config
        self._offered = registered_stages(plugins)
        self._observers = observers
        self._plans: dict[frozenset[tuple[str, str]], Plan] = {}
        self._pipelines: dict[int, Pipeline] = {}
        self._by_selection_key: dict[Hashable, Plan] = {}
        stages = [(offer.stage(), offer.slot) for offer in self._offered]
        self._blocked = blocked_stages(plugins)
        self._choosers = [stage for stage, _ in [*stages, *self._blocked] if type(stage).included is not Stage.included]
        self._comparing = [stage for stage, _ in stages if type(stage).known_values is not Stage.known_values]
        self._scorers = [stage for stage, slot in stages if slot is not None and SLOT_RULES[slot].scores_rubric]
        bad = [info for info in plugins.describe() if info.failure is not None]
        bad_stages = [info for info in bad if info.kind == "stage"]
        self._failures = [
            (info.name, info.failure or "") for info in bad if info in bad_stages or info.state != "blocked"
        ]
        self._conflicts = [info.failure or "" for info in bad_stages if info.state == "conflict"]

    def plan(self, question: Question) -> Plan:
        """Return the plan of `question`. Questions with the same stages share one plan. Raises `PlanError` if no valid
        plan exists.
        """
        key = self._selection_key(question)
        plan = self._by_selection_key.get(key) if key is not None else None
        if plan is None:
            plan = self._make_plan(question)
            if key is not None and len(self._by_selection_key) < _MAX_SELECTION_KEYS:
                self._by_selection_key[key] = plan
        return plan

    def pipeline(self, question: Question) -> Pipeline:
        """Return the pipeline of `question`, which questions with the same plan share. Raises `PlanError` if no valid
        plan exists.
        """
        plan = self.plan(question)
        if id(plan) not in self._pipelines:
            limit = self._config.section(EngineSettings).item_timeout
            listener = self._observers if self._observers.observes_stages else None
            self._pipelines[id(plan)] = _make_pipeline(plan, listener, limit)
        return self._pipelines[id(plan)]

    def survey(
        self,
        questions: Sequence[Question],
        fields: OwnedFields,
        trust: Trust,
        judging: JudgeNeeds,
        attachments: AttachmentCheck,
        question_check: QuestionCheck | None = None,
        rules: RuleLines | None = None,
    ) -> Survey:
        """Plan every question, check it, and return the facts that the checks before a run need. The questions are also
        added to `judging`, `attachments` and `rules`. Raises `ConfigError` for invalid or missing values of `fields`
        and turns that a question cannot have, the error of `question_check`, and `PlanError` if a question has no valid
        plan.

        Each question is read once, and not kept in memory.
        """
        problems: dict[str, None] = {}
        by_stage: dict[str, tuple[Stage, array[int]]] = {}
        with_traits = 0
        pipelines, units = QuestionPipelines(), UnitCounts()
        checking: dict[Pipeline, list[tuple[Stage | None, array[int]]]] = {}  # None if every question is checked
        required: dict[Pipeline, list[tuple[str, str]]] = {}
        for place, question in enumerate(questions):
            if question_check is not None:
                question_check.check(question)
            pipeline = self.pipeline(question)
            pipelines.append(pipeline)
            units.add(question)
            judging.add(question, pipeline)
            attachments.add(question)
            if rules is not None:
                rules.add(question)
            for problem, _ in fields.problems(question, trust):
                problems[f"question {question.id}: {problem}"] = None
            for problem, _ in turn_problems(question, trust, pipeline.plan):
                problems[f"question {question.id}: {problem}"] = None
            if pipeline not in checking:
                stages = [planned.stage for planned in pipeline.plan.stages]
                required[pipeline] = [*_required_fields(stages)]
                checking[pipeline] = [
                    (
                        None if type(stage).checks_question is Stage.checks_question else stage,
                        by_stage.setdefault(stage.name, (stage, array("L")))[1],
                    )
                    for stage in stages
                    if type(stage).before_run is not Stage.before_run
                ]
            for name, stage_name in required[pipeline]:
                if name not in question.extra:
                    problem = f"{name} is missing, which the stage {stage_name} requires; add it to the question"
                    problems[f"question {question.id}: {problem}"] = None
            for choosing, places in checking[pipeline]:
                if choosing is None or choosing.checks_question(self._config, question):
                    places.append(place)
            with_traits += bool(question.rubric) or bool(question.dynamic_rubric)
        if problems:
            raise ConfigError([*problems])
        return Survey(by_stage, with_traits, pipelines, units.repeated())

    def _selection_key(self, question: Question) -> Hashable:
        """Return a cache key for the stages that apply to a question. Returns None if a stage raises an error."""
        traits = [trait for rubric in (question.rubric, question.dynamic_rubric) if rubric for trait in rubric.traits]
        config = self._config
        try:
            answers = [stage.included(config, question) for stage in self._choosers]
            return (
                tuple([answer.why if isinstance(answer, Skip) else answer for answer in answers]),
                frozenset([tuple([stage.scores(trait) for stage in self._scorers]) for trait in traits]),
                frozenset(name for stage in self._comparing for name in stage.known_values(config, question)),
            )
        except Exception:
            return None  # make_plan calls the stage again and reports the error

    def _make_plan(self, question: Question) -> Plan:
        """Plan `question`, and return its plan or an equal one made before. Raises `PlanError` with all problems found.
        It is also a problem if a setting asks for a blocked stage.
        """
        blocked = [*requested_but_blocked(self._blocked, self._config, question)]
        try:
            plan = make_plan(
                self._offered,
                self._config,
                question,
                failures=self._failures,
                conflicts=self._conflicts,
                known=self._plans,
            )
        except PlanError as error:
            raise PlanError([*error.problems, *blocked]) from error
        if blocked:
            raise PlanError(blocked)
        return plan


def _required_fields(stages: Iterable[Stage]) -> Iterator[tuple[str, str]]:
    """Yield the name of each field that a question must have for one of the stages, with the name of the stage."""
    for stage in stages:
        model = stage.question_settings
        for name, info in model.model_fields.items() if model is not None else ():
            if info.is_required():
                yield f"{namespace_of(model)}{name}", stage.name


def _make_pipeline(plan: Plan, listener: StageListener | None, item_timeout: float | None) -> Pipeline:
    """Return a pipeline for a plan. What it needs is imported only here, because most commands only plan."""
    from karenina_core.pipeline import Pipeline

    return Pipeline(plan, listener, item_timeout)


class QuestionSubset(Sequence["Question"]):
    """A lazy view of the questions at the given indexes (`places`)."""

    def __init__(self, questions: Sequence[Question], places: Sequence[int]) -> None:
        self._questions = questions
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> Question: ...
    @overload
    def __getitem__(self, place: slice) -> QuestionSubset: ...
    def __getitem__(self, place: int | slice) -> Question | QuestionSubset:
        """Return one question or, for a slice, a view of several questions."""
        if isinstance(place, slice):
            return QuestionSubset(self._questions, self._places[place])
        return self._questions[self._places[place]]

    def __iter__(self) -> Iterator[Question]:
        """Return an iterator that reads one question at a time."""
        return (self._questions[place] for place in self._places)


def plan_rows(plan: Plan) -> Iterator[list[str]]:
    """Yield a row for each stage of the plan, with the columns of `PLAN_HEAD`."""
    for number, stage in enumerate(plan.stages, 1):
        slot = stage.slot.config_name if stage.slot is not None else "-"
        once = " (once per answer)" if stage.stage.scope == "answer" else ""
        yield [str(number), stage.name + once, slot, f"{stage.distribution} {stage.version}", _waits(stage)]


def offering_stages(plan: Plan, names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each of the names of known values, in order, with the plan's stages that offer it."""
    for name in sorted(set(names)):
        yield name, [stage.name for stage in plan.stages if any(fnmatchcase(name, offer) for offer in stage.offers)]


def left_out_lines(plan: Plan) -> Iterator[str]:
    """Yield a line for each stage that was left out of the plan, with the reason."""
    for left in plan.left_out:
        yield f"{left.name}: {left.why}"


def show_plans_in_notebooks() -> None:
    """Make notebooks display plans with `plan_html`."""
    to_html.register(Plan, plan_html)


def plan_html(plan: Plan) -> str:
    """Return a plan as HTML for display in a notebook."""
    from karenina_terminal.notebook_html import Cell, make_heading, make_table, make_text, render_html

    rows: list[list[Cell]] = [[*row, make_text(waits)] for *row, waits in plan_rows(plan)]
    left = [make_heading("Left out"), make_text("\n".join(left_out_lines(plan)))] if plan.left_out else []
    return render_html(make_heading(f"Plan of {quantity(len(rows), 'stage')}"), make_table(PLAN_HEAD, rows), *left)


def _waits(stage: PlannedStage) -> str:
    """Return the stages that this one waits for and the reasons, one stage per line."""
    if stage.reads_everything:
        return "all others: reads everything"
    by_stage: dict[str, list[str]] = {}
    for wait in stage.waits_for:
        reason = f"{wait.why} {wait.artifact}" if wait.artifact is not None else wait.why
        by_stage.setdefault(wait.stage, []).append(reason)
    return "\n".join(f"{name}: {', '.join(reasons)}" for name, reasons in by_stage.items())
