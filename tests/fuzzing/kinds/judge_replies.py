"""Replies of models in whole runs: schemas that judges fill, and texts of models and agents."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.benchmarks import SOURCE
from fuzzing.engine import Kind
from fuzzing.mutation import (
    NUMBERS,
    OPS,
    TEXT_OPS,
    TEXTS,
    Op,
    Raw,
    TextOp,
    apply_changes,
    broken,
    choose_weighted,
    dump_json,
    parse_tree,
    parts,
    shift_bytes,
)
from karenina import Benchmark
from karenina_core import VerificationConfig, VerificationResult, plugins
from karenina_core.data.rubrics import DynamicRubric, LLMRubricTrait, MetricRubricTrait, RegexRubricTrait, Rubric
from karenina_core.models.ports import AgentReply, CallInfo, LLMReply, Message, ParserReply, ToolCall, Usage
from karenina_core.plugins import Plugins
from karenina_testing import ScriptedModels

Said: TypeAlias = tuple[int, list[Op], list[TextOp], str, int]
"""Which set-up runs; changes of the judge's JSON and then of its text; what the model says; and further choices."""

_QUESTIONS: Final = 6
"""Questions of a run, each with changes of its own: a run costs more than an item."""
_SIMPLE: Final = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene", ground_truth="BCL2", verify_with=ExactMatch())
    year: int = VerifiedField(description="The year", ground_truth=2016, verify_with=NumericTolerance(tolerance=2))
    share: float = VerifiedField(description="Share", ground_truth=0.5, verify_with=NumericRange(min=0, max=1))
"""
_WRAPPERS: Final = (
    "{}",
    "```json\n{}\n```",
    "Well: {} That is all.",
    "<think>hm</think>{}",
    "[{}]",
    '"{}"',
    "{}{}",
    "",
)
_BUG: Final = re.compile(
    r"\b(TypeError|AttributeError|KeyError|IndexError|RecursionError|AssertionError|OverflowError|UnicodeEncodeError|"
    r"UnicodeDecodeError|NameError|ZeroDivisionError|RuntimeError|NotImplementedError|JSONDecodeError|MemoryError|"
    r"InvalidOperation|DecimalException|UnboundLocalError|StopIteration|error): "
)
_SETUPS: Final[tuple[dict[str, Any], ...]] = (
    {"evaluation_mode": "template_only"},
    {"evaluation_mode": "template_and_rubric", "abstention_enabled": True, "sufficiency_enabled": True},
    {"evaluation_mode": "rubric_only", "rubric_evaluation_strategy": "sequential"},
    {"evaluation_mode": "template_and_rubric", "deep_judgment_mode": "full", "deep_judgment_rubric_mode": "enable_all"},
)


def _benchmark(source: str) -> Benchmark:
    benchmark = Benchmark.create("judged")
    benchmark.global_rubric = Rubric.of(
        LLMRubricTrait(name="safe", description="It warns."),
        LLMRubricTrait(name="score", description="How good.", kind="score", min_score=1, max_score=5),
        LLMRubricTrait(name="tone", kind="literal", classes={"rude": "It insults.", "kind": "It cares."}),
        RegexRubricTrait(name="doi", pattern=r"(doi:\S+)+x?"),
        MetricRubricTrait(name="facts", metrics=("recall",), tp_instructions=("is BCL2", "blocks apoptosis")),
    )
    benchmark.dynamic_rubric = DynamicRubric.of(LLMRubricTrait(name="risks", summary="risks of a treatment"))
    for number in range(_QUESTIONS):
        benchmark.add_question(f"Which gene is it ({number})?", "BCL2", source, question_id=str(number))
    return benchmark


_BENCHMARKS: Final = (_SIMPLE, SOURCE)


def _sample(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> Any:
    """Return a value that fits a schema, more or less."""
    if "$ref" in schema and depth < 6:
        name = str(schema["$ref"]).rpartition("/")[2]
        return _sample(root.get("$defs", {}).get(name, {}), root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key) and depth < 6:
            return _sample(schema[key][0], root, depth + 1)
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("format") == "date":
        return "2016-04-11"
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {name: _sample(part, root, depth + 1) for name, part in schema.get("properties", {}).items()}
    if kind == "array":
        return [_sample(schema.get("items", {}), root, depth + 1)] * max(1, min(schema.get("minItems", 1), 3))
    plain = {"string": "BCL2", "integer": 2016, "number": 0.5, "boolean": True, "null": None}
    return plain.get(kind if isinstance(kind, str) else "string", "BCL2")


class _Models:
    """The models of one input."""

    def __init__(self, said: Said) -> None:
        _, self.ops, self.text_ops, self.text, self.choice = said
        numbers = [one for one in NUMBERS if isinstance(one, int) and one >= 0]
        count = numbers[self.choice % len(numbers)] if self.choice % 5 == 0 else 5
        self.usage = Usage(input_tokens=min(count, 2**53), output_tokens=5, calls=1)

    def say(self, _messages: Sequence[Message], _info: CallInfo) -> LLMReply:
        finish = ("stop", "stop", "stop", "length", "content_filter")[self.choice % 5]
        return LLMReply(self.text, self.usage, finish)  # type: ignore[arg-type] # one of its words

    def fill(self, _messages: Sequence[Message], schema: Mapping[str, Any], info: CallInfo) -> ParserReply:
        tree = parse_tree(_sample(schema, schema))
        written = dump_json(apply_changes(tree, shift_bytes(self.ops, int(info.question_id)), list(parts(tree))))
        wrapper = _WRAPPERS[self.choice % len(_WRAPPERS)] if self.choice % 3 == 0 else "{}"
        text = wrapper.replace("{}", written)
        if self.text_ops:
            text = broken(text.encode("utf-8", "surrogatepass"), self.text_ops).decode("utf-8", "surrogateescape")
        return ParserReply(text, "json_schema", self.usage, "length" if self.choice % 11 == 0 else "stop")

    def act(self, _messages: Sequence[Message], _info: CallInfo) -> AgentReply:
        call = ToolCall("c1", self.text[:50], {"text": self.text})
        return AgentReply((Message.assistant("", [call]), Message.tool(self.text, call), Message.assistant(self.text)))


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[Said], bool]]:
    benchmarks = [_benchmark(source) for source in _BENCHMARKS]
    models = ScriptedModels()
    room = Plugins.discover()
    room.register(models)
    logging.getLogger("karenina").setLevel(logging.CRITICAL)
    with plugins.use_plugins(room):
        pair = {"answering_models": [models.model("a")], "parsing_models": [models.model("j")]}
        configs = [VerificationConfig(**pair, **more) for more in _SETUPS]

        def check(said: Said) -> bool:
            one = _Models(said)
            models.say, models.fill, models.act = one.say, one.fill, one.act
            models.requests.clear()
            setup, choice = said[0], said[4]
            config = configs[setup % len(configs)]
            benchmark = benchmarks[setup // len(configs) % len(benchmarks)]
            journal = folder / "j" if choice % 4 == 0 else None
            results = benchmark.run_verification(config, journal=journal)
            for leftover in folder.glob("j*"):
                leftover.unlink()
            for result in results:
                _look_at(result)
            return any(result.outcome.judged or _scored(result) for result in results)

        yield check


def _scored(result: VerificationResult) -> bool:
    """Return whether a trait has a score, although others may have none."""
    scores = result.rubric.get_all_trait_scores() if result.rubric is not None else {}
    return any(score is not None for score in scores.values())


def _look_at(result: VerificationResult) -> None:
    """Check that the result states its error in words, and that it can be written and read."""
    text = result.model_dump_json()
    text.encode("utf-8")
    json.loads(text)
    if VerificationResult.model_validate_json(text).outcome != result.outcome:
        raise AssertionError("a result that was written is another one")
    for told in (
        result.metadata.error,
        result.template.field_verification_error,
        *(stage.error for stage in result.stages),
    ):
        if told is not None and (found := _BUG.search(told)) is not None:
            raise AssertionError(f"{result.outcome} in {told[found.start() :][:80]!r}")


_TEXTS = [one for one in TEXTS if isinstance(one, str)]
_SAYINGS = choose_weighted(
    (3, st.just("It is BCL2, of 2016, see doi:10.1/x.")),
    (2, st.sampled_from(_TEXTS)),
    (1, st.builds(lambda text, more: f"It is {text}. {more}", st.sampled_from(_TEXTS), st.text(max_size=20))),
)
_TEXT_OPS = choose_weighted((4, st.just([])), (1, TEXT_OPS))
_FAR = st.integers(0, 10_000)
assert not any(isinstance(one, Raw) for one in _TEXTS)
KIND: Final = Kind(
    "judge_replies",
    st.tuples(st.integers(0, len(_SETUPS) * len(_BENCHMARKS) - 1), OPS, _TEXT_OPS, _SAYINGS, _FAR),
    _opened,
    regressions=[
        (0, [("replace", 190, 22)], [], "1e5", 320),
        (6, [("insert", 36411, 107)], [], "It is BCL2, of 2016.", 0),
        (4, [("replace", 315727, 331)], [], "It is BCL2, of 2016.", 0),
    ],
    valid=[(setup, [], [], "It is BCL2.", 1) for setup in range(len(_SETUPS) * len(_BENCHMARKS))],
)
