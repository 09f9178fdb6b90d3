"""Contracts of stages, primitives, traits, formats and price lists find one flaw each."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from karenina_core import ArtifactKey, ArtifactKeys, CheckStage, Detection, Skip, Stage, VerificationContext
from karenina_core.data.rubrics import RubricTrait, register_trait_kind
from karenina_core.errors import KareninaError
from karenina_core.models.ports import PortError
from karenina_core.models.prompts import PromptTask
from karenina_core.models.settings_models import AllowedInFiles
from karenina_testing.contracts import (
    CheckContract,
    FormatContract,
    ImportFormatContract,
    PriceSourceContract,
    PrimitiveContract,
    StageContract,
    TraitContract,
)

pytestmark = pytest.mark.alone

WORDS = ArtifactKey("flaws.words", int)
TASK = PromptTask("flaws", "You count the words of a response.")
SCHEMA = {"type": "object", "properties": {"words": {"type": "integer"}}, "required": ["words"]}


class Count(Stage):
    name = "Count"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    produces = frozenset({WORDS})
    prompts = (TASK,)

    async def execute(self, context: VerificationContext) -> None:
        reply = await context.parser().parse(context.prompt(TASK, "How many?"), SCHEMA)
        context.set_artifact(WORDS, len(reply.text))


class Undeclared(Count):
    requires = frozenset({ArtifactKeys.TRACE_MESSAGES})

    async def execute(self, context: VerificationContext) -> None:
        context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)


class Lazy(Count):
    async def execute(self, context: VerificationContext) -> None:
        """Set nothing."""


class Revealing(Count):
    async def execute(self, context: VerificationContext) -> None:
        await context.parser().parse(context.prompt(TASK, f"Is it {context.question.raw_answer}?"), SCHEMA)
        context.set_artifact(WORDS, 1)


class Values(Stage):
    name = "Values"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    offers: ClassVar[dict[str, object]] = {"flaws.words": int, "flaws.*.count": int}

    def execute(self, context: VerificationContext) -> None:
        context.offer_value("flaws.words", 3)
        context.offer_value("flaws.links.count", None, why="the answer is no text")


class Other(Values):
    """Offers a name that it does not declare."""

    offers: ClassVar[dict[str, object]] = {"flaws.words": int}


class Fewer(Values):
    """Does not offer all names that it declares."""

    def execute(self, context: VerificationContext) -> None:
        context.offer_value("flaws.links.count", 3)


class NoneOfMany(Values):
    def execute(self, context: VerificationContext) -> None:
        context.offer_value("flaws.words", 3)


class Untyped(Values):
    """Offers a list whose entries have another type than it declares."""

    offers: ClassVar[dict[str, object]] = {"flaws.words": list[int]}

    def execute(self, context: VerificationContext) -> None:
        context.offer_value("flaws.words", ["3"])


class Silent(Count):
    def included(self, *_: object) -> bool | Skip:
        return False


class Secretive(Count):
    prompts = ()


class Harsh(Count):
    async def execute(self, context: VerificationContext) -> None:
        try:
            await super().execute(context)
        except PortError:
            context.veto("the judge does not like it")
            context.set_artifact(WORDS, 0)


class Private(Count):
    async def execute(self, context: VerificationContext) -> None:
        context.set_artifact(WORDS, 1)
        context.set_result_field("numbers", {1: "one"})


class Settings(BaseModel):
    flaws_limit: int = 3


class Unmarked(Count):
    settings = Settings


class Mistyped(Count):
    scope = "items"  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("flawed", "test"),
    [
        (Mistyped, "test_its_declarations_are_valid"),
        (Undeclared, "test_it_keeps_its_declarations"),
        (Lazy, "test_it_keeps_its_declarations"),
        (Other, "test_it_keeps_its_declarations"),
        (Fewer, "test_it_offers_each_known_value_that_it_declares"),
        (NoneOfMany, "test_it_offers_each_known_value_that_it_declares"),
        (Untyped, "test_it_offers_each_known_value_that_it_declares"),
        (Undeclared, "test_it_runs_with_only_what_it_requires"),
        (Silent, "test_leaving_it_out_of_the_plan_has_a_reason"),
        (Revealing, "test_no_ground_truth_reaches_a_model"),
        (Secretive, "test_a_stage_that_calls_the_judge_says_so"),
        (Private, "test_its_result_is_the_same_after_a_round_trip_through_json"),
        (Unmarked, "test_each_setting_says_whether_a_benchmark_may_set_it"),
        (Count, "test_it_skips_items_with_a_reason"),
        (Count, "test_the_plugin_is_installed_and_loaded"),
    ],
)
def test_the_stage_contract_finds_a_flaw(flawed: type[Stage], test: str) -> None:
    class Contract(StageContract):
        entry_point = "nowhere:plugin"
        stage = flawed
        skipped_with = {ArtifactKeys.RECURSION_LIMIT_REACHED: True}

    with pytest.raises((AssertionError, ValidationError)):
        getattr(Contract(), test)()


def test_the_stage_contract_accepts_known_values() -> None:
    class Contract(StageContract):
        stage = Values

    Contract().test_it_keeps_its_declarations()
    Contract().test_it_offers_each_known_value_that_it_declares()


def test_the_stage_contract_finds_a_veto_after_a_failure() -> None:
    class Contract(StageContract):
        stage = Harsh

    with pytest.raises(AssertionError, match="must not affect the verdict"):
        Contract().test_a_failing_model_is_never_a_wrong_answer("no server")


class Shouting(CheckStage):
    name = "Shouting"
    requires = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})
    prefix = "flaws_shouting"

    async def detect(self, context: VerificationContext) -> Detection:
        return Detection(context.get_artifact(ArtifactKeys.RAW_LLM_RESPONSE)[0].isupper())


@pytest.mark.parametrize("test", ["test_it_lets_a_good_response_through", "test_a_response_without_text_is_no_error"])
def test_the_check_contract_finds_a_flaw(test: str) -> None:
    class Contract(CheckContract):
        stage = Shouting
        passing = "It is BCL2."
        failing = "IT IS BCL2!"

    with pytest.raises(AssertionError):
        getattr(Contract(), test)(*[""] * test.startswith("test_a_response"))


class Loose(BaseModel):
    """A primitive that accepts everything, raises on other types, and takes any truth and parameter."""

    model_config = ConfigDict(extra="allow")
    reads_trace: ClassVar[bool] = False
    limit: int = 3

    def check(self, extracted: Any, expected: object) -> bool:
        return len(extracted) > 0

    def check_extracted(self, extracted: Any, expected: object, response: str) -> object:
        return self.check(extracted, expected)

    def score(self, extracted: object, expected: object) -> float:
        return 100.0

    def check_trace(self, text: str) -> bool:
        return True

    def check_expected(self, expected: object) -> None:
        """Accept it."""

    def accept(self, expected: object) -> object:
        return expected

    def mutate(self, expected: object) -> object:
        return f"not {expected}"

    @classmethod
    def full_name(cls) -> str:
        return cls.__name__

    def to_json(self) -> dict[str, Any]:
        return {"type": "Loose"}


@pytest.mark.parametrize(
    "test",
    [
        "test_json_gives_the_same_primitive",
        "test_an_unknown_parameter_is_refused",
        "test_each_parameter_says_whether_a_benchmark_may_set_it",
        "test_a_truth_passes_for_itself",
        "test_a_changed_truth_does_not_pass",
        "test_the_samples_pass_and_fail",
        "test_credit_is_between_none_and_all",
        "test_an_extracted_value_of_any_type_is_no_error",
        "test_a_bad_truth_is_an_error_that_shows_it",
    ],
)
def test_the_primitive_contract_finds_a_flaw(test: str) -> None:
    class Contract(PrimitiveContract):
        primitive = Loose(limit=4)
        truths = ("BCL2",)
        bad_truths = (3,)
        fails = (("TP53", "BCL2"),)

    with pytest.raises((AssertionError, TypeError, pytest.fail.Exception)):
        getattr(Contract(), test)()


@pytest.mark.parametrize("answer", [None, 1, "yes"])
def test_an_answer_that_is_no_verdict_is_a_flaw(answer: object) -> None:
    class Sloppy(Loose):
        def check(self, extracted: Any, expected: object) -> Any:
            return answer

    class Contract(PrimitiveContract):
        primitive = Sloppy(limit=4)
        truths = ("BCL2",)
        undecided = (("01/02/2024", "BCL2"),)

    for test in ("test_the_samples_pass_and_fail", "test_an_extracted_value_of_any_type_is_no_error"):
        with pytest.raises(AssertionError):
            getattr(Contract(), test)()


def test_a_rule_for_unreadable_values_without_effect_is_a_flaw() -> None:
    class Undecided(SimpleNamespace):
        why: str = "it cannot be read"

    class Deaf(Loose):
        unreadable: str = "not_judged"

        def check(self, extracted: Any, expected: object) -> Any:
            return Undecided()

    class Contract(PrimitiveContract):
        primitive = Deaf()
        truths = ("BCL2",)
        unreadable = (("some gene", "BCL2"),)

    with pytest.raises(AssertionError, match="some gene"):
        Contract().test_only_an_unreadable_value_of_the_response_can_be_wrong()


@register_trait_kind
class LengthTrait(RubricTrait):
    allowed_in_files: ClassVar[AllowedInFiles] = "any"
    type: Literal["flaws_length"] = "flaws_length"


class Greedy:
    """An evaluator that claims every trait."""

    name: ClassVar[str] = "greedy"
    precedence: ClassVar[int] = 0
    score: ClassVar[Callable[[str], Any]] = len

    def claims(self, trait: RubricTrait, context: object) -> bool:
        return True

    async def evaluate(self, traits: Sequence[RubricTrait], text: str, context: VerificationContext) -> list[Any]:
        return [
            SimpleNamespace(trait=one.name, result_field="length_trait_scores", score=len(text), error=None)
            for one in traits
        ]


class Guessing(Greedy):
    """An evaluator that gives a score if its judge fails, of the first trait only."""

    def claims(self, trait: RubricTrait, context: object) -> bool:
        return isinstance(trait, LengthTrait)

    async def evaluate(self, traits: Sequence[RubricTrait], text: str, context: VerificationContext) -> list[Any]:
        with suppress(PortError):
            await context.llm().invoke(context.prompt(TASK, f"{text} or {context.question.raw_answer}"))
        return await super().evaluate(traits[:1], text, context)


def trait_contract(evaluator_: Any) -> TraitContract:
    class Contract(TraitContract):
        trait = LengthTrait(name="length")
        evaluator = evaluator_
        scores = {"It is BCL2.": 11}
        highest = 10

    return Contract()


@pytest.mark.parametrize(
    ("evaluator", "test"),
    [
        (Greedy(), "test_the_evaluator_scores_its_kind_and_no_other"),
        (Guessing(), "test_scores_are_in_their_range"),
        (Guessing(), "test_each_trait_gets_one_score"),
        (Guessing(), "test_no_ground_truth_reaches_a_model"),
    ],
)
def test_the_trait_contract_finds_a_flaw(evaluator: object, test: str) -> None:
    with pytest.raises((AssertionError, RuntimeError)):
        getattr(trait_contract(evaluator), test)()


def test_the_trait_contract_finds_a_score_without_a_judge() -> None:
    with pytest.raises(AssertionError):
        trait_contract(Guessing()).test_a_failing_judge_is_an_error_and_not_a_score("no server")


class Lines(list[Any]):
    """A benchmark: one question per line, none of them broken."""

    problems: ClassVar[list[Any]] = []
    broken: ClassVar[list[Any]] = []


def read_lines(file: Path, _check: object) -> Lines:
    if not file.exists():
        raise KareninaError("no file")
    lines = file.read_bytes().decode("latin-1").splitlines()
    return Lines(SimpleNamespace(id=str(number), question=line) for number, line in enumerate(lines))


def write_lines(benchmark: Lines, file: Path) -> Iterator[str]:
    yield "\n".join(reversed([question.question for question in benchmark]))


@pytest.mark.parametrize(
    "test",
    [
        "test_the_format_has_a_name_and_suffixes",
        "test_a_file_gives_its_questions",
        "test_saving_and_reading_gives_the_same_benchmark",
        "test_an_error_names_the_file_the_place_and_the_cure",
        "test_a_missing_file_is_an_error",
    ],
)
def test_the_format_contract_finds_a_flaw(tmp_path: Path, test: str) -> None:
    class Contract(FormatContract):
        format = SimpleNamespace(name="lines", suffixes=(".Lines",), read=read_lines, write=write_lines)
        sample = "Which gene?\nWhich year?"
        questions = {"1": "Which gene?", "2": "Which year?"}
        broken = (("?\n?", "line 2"),)

    with pytest.raises(AssertionError):
        getattr(Contract(), test)(*[tmp_path] * (test != "test_the_format_has_a_name_and_suffixes"))


@pytest.mark.parametrize(
    ("flaw", "test"),
    [
        ({"key": "All Lines"}, "test_the_format_has_a_name_and_suffixes"),
        ({"suffixes": (".jsonl",)}, "test_the_format_has_a_name_and_suffixes"),
        ({"recognizes": lambda _path: True}, "test_its_files_are_recognized_and_others_are_not"),
        ({"recognizes": lambda _path: False}, "test_its_files_are_recognized_and_others_are_not"),
        ({"rows": lambda _path: [SimpleNamespace(place="")]}, "test_each_row_has_its_place"),
    ],
)
def test_the_import_contract_finds_a_flaw(tmp_path: Path, flaw: dict[str, Any], test: str) -> None:
    good = {"name": "lines", "key": "lines", "suffixes": (), "recognizes": lambda path: b"tool" in path.read_bytes()}

    class Contract(ImportFormatContract):
        format = SimpleNamespace(**{**good, **flaw})
        sample = '{"tool": "lines"}'

    with pytest.raises(AssertionError):
        getattr(Contract(), test)(*[tmp_path] * (test != "test_the_format_has_a_name_and_suffixes"))


class Prices:
    """A price list that asks a server, has a price of every model, in floats, and no edition."""

    name = "prices"
    edition = ""

    def tariff(self, model_name: str, served_by: str | None) -> tuple[Any, str]:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", 1), timeout=1)
        if served_by is not None:
            int(served_by.rpartition(":")[2])
        return SimpleNamespace(cost=lambda usage: -0.5 * usage.input_tokens), ""


@pytest.mark.parametrize(
    "test",
    [
        "test_it_has_a_name_and_an_edition",
        "test_models_cost_what_the_samples_say",
        "test_no_usage_has_a_negative_price",
        "test_it_says_under_which_name_it_lists_a_model",
        "test_an_unknown_model_has_no_price",
        "test_an_odd_model_or_server_is_no_error",
        "test_no_request_is_made",
    ],
)
def test_the_price_contract_finds_a_flaw(monkeypatch: pytest.MonkeyPatch, test: str) -> None:
    class Contract(PriceSourceContract):
        source = Prices()
        prices = {("small", None): ("1", "2")}

    arguments = {"test_no_request_is_made": [monkeypatch], "test_an_odd_model_or_server_is_no_error": ["a-provider"]}
    with pytest.raises((AssertionError, ValueError)):
        getattr(Contract(), test)(*arguments.get(test, []))
