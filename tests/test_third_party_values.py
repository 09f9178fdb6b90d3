"""A run ends with one result per item for any JSON-like values of third-party stages, checks and evaluators."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import pytest
from command_runs import CommandResult, run_karenina
from gene_questions import GENE
from hypothesis import example, given, settings
from hypothesis import strategies as st
from offers import offering

from karenina import Benchmark, VerificationConfig, VerificationResult
from karenina.rubrics import LLMRubricTrait, RegexRubricTrait
from karenina_core import ArtifactKeys as Keys
from karenina_core import CheckStage, Detection, Skip, Stage, VerificationContext
from karenina_core import plugins as plugin_room
from karenina_core.artifacts.artifact import AnyKey
from karenina_core.artifacts.keys import standard_keys
from karenina_core.data.outcome import Outcome
from karenina_core.data.rubrics import RubricTrait
from karenina_core.data.sections import FREE_FIELDS
from karenina_core.plugins import Plugins
from karenina_rubric.evaluators import TraitScore
from karenina_testing import ScriptedModels

QUESTIONS: Final = ("q1", "q2")
TRAITS: Final = (RegexRubricTrait(name="named", pattern="BCL2"), LLMRubricTrait(name="clear", description="It is."))
STANDARD: Final = standard_keys()
ANSWERED: Final[frozenset[AnyKey]] = frozenset(
    {
        Keys.RAW_LLM_RESPONSE,
        Keys.TRACE_MESSAGES,
        Keys.FINAL_AI_MESSAGE,
        Keys.RECURSION_LIMIT_REACHED,
        Keys.RESPONSE_TRUNCATED,
        Keys.ANSWERING_MCP_SERVERS,
        Keys.AGENT_METRICS,
    }
)
VERIFIED: Final[frozenset[AnyKey]] = frozenset(
    {
        Keys.FIELD_VERIFICATION_RESULT,
        Keys.FIELD_RESULTS,
        Keys.FIELD_SCORES,
        Keys.FIELD_VERIFICATION_ERROR,
        Keys.VERIFY_GRANULAR_RESULT,
        Keys.COMPOSITION_STRATEGY,
        Keys.REGEX_VALIDATION_RESULTS,
        Keys.REGEX_VALIDATION_DETAILS,
        Keys.REGEX_OVERALL_SUCCESS,
    }
)
FIELDS: Final = (*FREE_FIELDS, *STANDARD, "own", "verify_result", "metadata", "stages", "")
SCORE_FIELDS: Final = ("llm_trait_scores", "trait_errors", "trait_metadata", "evaluation_input", "own")

SCALARS: Final = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=8)
)
VALUES: Final = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
BY_TYPE: Final[Mapping[type, st.SearchStrategy[Any]]] = {
    bool: st.booleans(),
    int: st.integers(),
    float: st.floats(),
    str: st.text(st.characters(codec=None)),
    list: st.lists(VALUES, max_size=3),
    dict: st.dictionaries(st.text(max_size=5), VALUES, max_size=3),
}


def value_of(key: AnyKey) -> st.SearchStrategy[Any]:
    """Any value, or one that is of the key's type as far as that goes."""
    return VALUES | BY_TYPE.get(key.type, VALUES)


def nested(levels: int) -> Any:
    """Return a list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


class Script:
    """The next actions of the plugin's parts; a test sets them before each run."""

    answer: ClassVar[Mapping[AnyKey, Any]] = {}
    parsed: ClassVar[Any] = {"gene": "BCL2"}
    binds: ClassVar[bool] = True
    verified: ClassVar[Mapping[AnyKey, Any]] = {}
    detection: ClassVar[Any] = Detection(detected=False)
    skip: ClassVar[Any] = True
    acts: ClassVar[Sequence[tuple[str, Any, Any]]] = ()
    revision: ClassVar[tuple[Any, Any] | None] = None
    claims: ClassVar[Any] = True
    scores: ClassVar[Any] = ()


def set_all(context: VerificationContext, keys: frozenset[AnyKey], given: Mapping[AnyKey, Any]) -> None:
    for key in keys:
        context.set_artifact(key, given.get(key, "BCL2" if key is Keys.RAW_LLM_RESPONSE else None))


class OddAnswer(Stage):
    name = "OddAnswer"
    scope = "answer"
    produces = ANSWERED

    def execute(self, context: VerificationContext) -> None:
        set_all(context, ANSWERED, Script.answer)


class OddParse(Stage):
    name = "OddParse"
    requires = frozenset({Keys.ANSWER_CLASS, Keys.RAW_LLM_RESPONSE})
    produces = frozenset({Keys.PARSED_ANSWER})

    def execute(self, context: VerificationContext) -> None:
        bound = context.get_artifact(Keys.ANSWER_CLASS)
        parsed = bound.bind(Script.parsed) if Script.binds and isinstance(Script.parsed, dict) else Script.parsed
        context.set_artifact(Keys.PARSED_ANSWER, parsed)


class OddVerify(Stage):
    name = "OddVerify"
    requires = frozenset({Keys.PARSED_ANSWER})
    produces = VERIFIED

    def execute(self, context: VerificationContext) -> None:
        set_all(context, VERIFIED, Script.verified)


class OddCheck(CheckStage):
    name = "OddCheck"
    prefix = "odd"

    def should_run(self, context: VerificationContext) -> bool | Skip:
        return Script.skip  # type: ignore[no-any-return]  # whatever it is

    async def detect(self, context: VerificationContext) -> Detection:
        return Script.detection  # type: ignore[no-any-return]


class OddActs(Stage):
    name = "OddActs"
    after = frozenset({"OddVerify"})
    revises = frozenset({Keys.FIELD_VERIFICATION_RESULT})
    runs_after_error = True

    def execute(self, context: VerificationContext) -> None:
        acts: Mapping[str, Callable[[Any, Any], object]] = {
            "set": context.set_result_field,
            "offer": context.offer_result_field,
            "extend": context.extend_result_field,
            "veto": context.veto,
            "error": context.mark_error,
        }
        for act, one, other in Script.acts:
            acts[act](one, other)
        if Script.revision is not None:
            context.revise_artifact(Keys.FIELD_VERIFICATION_RESULT, *Script.revision)


class OddEvaluator:
    name: ClassVar[str] = "odd"
    precedence: ClassVar[int] = 99

    def claims(self, trait: RubricTrait, context: VerificationContext) -> bool:
        return Script.claims  # type: ignore[no-any-return]

    async def evaluate(
        self, traits: Sequence[RubricTrait], text: str, context: VerificationContext
    ) -> Sequence[TraitScore]:
        return Script.scores  # type: ignore[no-any-return]


ODD: Final = offering(
    generate_answer=[OddAnswer],
    parse_template=[OddParse],
    verify_template=[OddVerify],
    extra_stages=[OddCheck, OddActs],
    trait_evaluators=[OddEvaluator()],
)


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    found = Plugins.discover()
    found.register(ODD, distribution="odd")
    found.register(ScriptedModels())
    return found


MODEL: Final = {"interface": "scripted", "model_name": "m"}
CONFIG: Final[Mapping[str, Any]] = {
    "answering_models": [{"id": "a", **MODEL}],
    "parsing_models": [{"id": "j", **MODEL}],
    "evaluation_mode": "template_and_rubric",
    "slots": {"generate_answer": "OddAnswer", "parse_template": "OddParse", "verify_template": "OddVerify"},
}


def benchmark() -> Benchmark:
    made = Benchmark.create(name="odd")
    for id in QUESTIONS:
        made.add_question("Which gene?", "BCL2", GENE, question_id=id, rubric=TRAITS)
    return made


OUTCOMES: Final = st.sampled_from([*Outcome, "correct"]) | VALUES
SCRIPTS: Final = st.fixed_dictionaries(
    {
        "answer": st.fixed_dictionaries({}, optional={key: value_of(key) for key in ANSWERED}),
        "parsed": st.fixed_dictionaries({"gene": VALUES}) | VALUES,
        "binds": st.booleans(),
        "verified": st.fixed_dictionaries({}, optional={key: value_of(key) for key in VERIFIED}),
        "detection": st.builds(Detection, VALUES, VALUES, VALUES) | VALUES,
        "skip": st.just(True) | st.builds(Skip, VALUES) | VALUES,
        "acts": st.lists(
            st.tuples(st.sampled_from(["set", "offer", "extend"]), st.sampled_from(FIELDS) | VALUES, VALUES)
            | st.tuples(st.sampled_from(["veto", "error"]), VALUES, OUTCOMES),
            max_size=4,
        ),
        "revision": st.none() | st.tuples(st.booleans() | VALUES, VALUES),
        "claims": st.just(True) | VALUES,
        "scores": VALUES
        | st.tuples(
            *(
                st.builds(
                    TraitScore,
                    st.just(trait.name) | VALUES,
                    st.sampled_from(SCORE_FIELDS) | VALUES,
                    VALUES,
                    VALUES,
                    st.dictionaries(st.sampled_from(SCORE_FIELDS), VALUES, max_size=2) | VALUES,
                )
                for trait in TRAITS
            )
        ),
    }
)


QUIET: Final = {name: value for name, value in vars(Script).items() if not name.startswith("_")}
AWKWARD: Final[Mapping[str, Any]] = {
    "deep": nested(250),
    "deeper": nested(5000),
    "half a character": "\ud800",
    "half a character as key": {"\udfff": 1},
    "not a number": float("nan"),
    "many digits": 10**5000,
    "bytes": b"\xff",
    "set": {1, 2},
    "tuple as key": {(1, 2): 3},
    "object": object(),
}


@given(script=SCRIPTS)
@example(script={"acts": [("error", {"why": ["so"]}, "correct")]})
@example(script={"acts": [("veto", "no", "nonsense")]})
@example(script={"verified": {Keys.FIELD_SCORES: {"gene": float("nan")}}})
@example(script={"revision": (True, {"why": 1})})
@example(script={"skip": Skip({"why": 1})})  # type: ignore[arg-type]  # as a plugin that is not type-checked may
@example(script={"scores": [TraitScore("named", ["x"], True), TraitScore("clear", "own", 1)]})  # type: ignore[arg-type]
@example(script={"scores": [TraitScore("clear", "own", 1, fields={"trait_metadata": {"model_calls": "x"}})]})
def test_a_run_ends_with_one_result_for_each_item(plugins: Plugins, script: Mapping[str, Any]) -> None:
    check_run(plugins, script)


@pytest.mark.parametrize("value", AWKWARD.values(), ids=AWKWARD)
def test_a_value_that_json_cannot_hold_costs_no_result(plugins: Plugins, value: Any) -> None:
    for act in ("set", "offer", "extend"):
        for name in ("own", "evaluation_input", "trait_errors", "trait_metadata", "llm_trait_scores"):
            check_run(plugins, {"acts": [(act, name, value)]})
    for act in ("veto", "error"):
        check_run(plugins, {"acts": [(act, "for a reason", value)]})
    check_run(plugins, {"scores": [TraitScore("clear", "llm_trait_scores", value), TraitScore("named", "own", value)]})
    check_run(plugins, {"revision": (True, value), "verified": {Keys.VERIFY_GRANULAR_RESULT: value}})
    check_run(plugins, {"detection": Detection(True, True, value), "skip": Skip(value)})
    check_run(plugins, {"answer": {Keys.AGENT_METRICS: {"odd": value}, Keys.TRACE_MESSAGES: [value]}})


@given(script=SCRIPTS)
@settings(max_examples=settings().max_examples // 3)  # each example starts several commands
def test_the_commands_end_without_a_traceback(plugins: Plugins, script: Mapping[str, Any]) -> None:
    check_commands(plugins, script)


@pytest.mark.parametrize("value", AWKWARD.values(), ids=AWKWARD)
def test_the_commands_print_what_json_cannot_hold(plugins: Plugins, value: Any) -> None:
    acts = [("set", name, value) for name in ("own", "evaluation_input", "trait_errors", "llm_trait_scores")]
    scores = [TraitScore("clear", "llm_trait_scores", value), TraitScore("named", "own", value)]
    check_commands(plugins, {"acts": acts, "scores": scores, "answer": {Keys.TRACE_MESSAGES: [value]}})


def check_run(plugins: Plugins, script: Mapping[str, Any]) -> None:
    """Run the benchmark while the plugin follows the script. Raises `AssertionError` for a result that is not whole."""
    follow(script)
    with plugin_room.use_plugins(plugins):
        results = benchmark().run_verification(VerificationConfig(**CONFIG))
    assert sorted(result.question_id for result in results) == list(QUESTIONS)
    for result in results:
        assert VerificationResult.model_validate_json(result.model_dump_json()) == result


def check_commands(plugins: Plugins, script: Mapping[str, Any]) -> None:
    """Give the commands that write and read results. Raises `AssertionError` if one of them fails by itself."""
    follow(script)
    with TemporaryDirectory() as folder:
        file, config, results, journal = (Path(folder, name) for name in ("b.jsonld", "c.json", "r.jsonl", "r.journal"))
        benchmark().save(file)
        config.write_text(json.dumps(CONFIG), "utf-8")
        given: CommandResult = run_karenina(
            "run", file, "-c", config, "-o", results, "--journal", journal, plugins=plugins
        )
        assert given.code in (0, 4), given.err
        lines = [json.loads(line) for line in results.read_text("utf-8").rstrip("\n").split("\n")]
        assert sum("metadata" in line for line in lines) == len(QUESTIONS)
        for command in (["show", results], ["show", results, "--json"], ["status", journal]):
            read = run_karenina(*command, plugins=plugins)
            assert read.code == 0, read.err
            assert "Traceback" not in read.err


def follow(script: Mapping[str, Any]) -> None:
    """Have the plugin do what the script says, and nothing odd besides."""
    for name, quiet in QUIET.items():
        setattr(Script, name, script.get(name, quiet))
