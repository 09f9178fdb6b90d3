"""Structured requests to a judge: validation, repair, retries, and their usage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, field_validator

from karenina_core.errors import StructuredError
from karenina_core.models.ports import NO_INFO, CallInfo, ErrorCategory, Message, ParserReply, PortError, Usage
from karenina_toolkit.structured import (
    InvalidReply,
    StructuredResult,
    call_structured,
    find_mismatches,
    object_schema,
    read_object,
    repair,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Judge:
    """A parser port that returns scripted replies, and records its messages."""

    def __init__(self, *says: str | ParserReply | PortError) -> None:
        self.says = list(says)
        self.asked: list[list[Message]] = []

    async def parse(
        self, messages: Sequence[Message], schema: Mapping[str, Any], *, info: CallInfo = NO_INFO
    ) -> ParserReply:
        self.asked.append(list(messages))
        said = self.says.pop(0)
        if isinstance(said, PortError):
            raise said
        if isinstance(said, str):
            return ParserReply(said, "json_schema", Usage(10, 5, calls=1), model="judge-1")
        return said

    async def aclose(self) -> None:
        pass


class Drug(BaseModel):
    name: str
    approved: bool
    dose: float | None = None
    targets: list[str] = []
    phase: Literal["Phase 1", "Phase 2"] | None = None


SCHEMA = {**Drug.model_json_schema(), "required": ["name", "approved"]}
QUESTION = [Message.system("Extract."), Message.user("Aspirin is approved.")]
GOOD = '{"name": "aspirin", "approved": true}'
OTHER = '{"name": "aspirin", "approved": false}'


async def ask(judge: Judge, **options: Any) -> StructuredResult[Drug]:
    return await call_structured(judge, QUESTION, SCHEMA, Drug.model_validate, **options)


async def test_a_clean_reply_is_taken_as_it_is() -> None:
    found = await ask(Judge(GOOD))
    assert found == StructuredResult(
        Drug(name="aspirin", approved=True),
        {"name": "aspirin", "approved": True},
        "json_schema",
        1,
        False,
        Usage(10, 5, calls=1),
        "judge-1",
    )


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```",
        f"```\n{GOOD}\n```\nI hope that this helps {{really}}.",
        f"Here you are: {GOOD} Anything else?",
        f"Sure, {GOOD}, as you like [1].",
        f'<think>It says {{"name"...</think>\n{GOOD}',
        f"{OTHER}</think>\n\n{GOOD}",
        f"{OTHER}\nNo, it is approved. {{}}</think>{GOOD} So it is.",
        f"[{GOOD}]",
        json.dumps(GOOD),
        f'{{"Drug": {GOOD}}}',
        f'{{"properties": {GOOD}}}',
        '{"name": "aspirin", "approved": "True"}',
    ],
)
async def test_an_unambiguous_reply_is_repaired(text: str) -> None:
    found = await ask(Judge(text))
    assert (found.value, found.tries, found.repaired) == (Drug(name="aspirin", approved=True), 1, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty"),
        ("It is approved.", "no JSON object"),
        (GOOD[:-1], "not complete"),
        ('{"name": "aspirin", "more": {"approved": true, "name": "x"}, "appr', "broken"),
        ('```json\n{"name": {"name": "x", "approved": true}, "a', "broken"),
        (f"{GOOD} or rather {OTHER}", "more than one"),
        (f"[{GOOD}, {OTHER}]", "a list"),
        (f'{GOOD}, "dose": 3', "before its last key"),
        (f'{GOOD}, "dose": 3}}', "before its last key"),
        ('{"name": "aspirin" "approved": true}', "line 1 column 20"),
        ("{'name': 'Crohn's disease', 'approved': true}", "',' or '}' expected"),
        ('{"name": aspirin, "approved": true}', "a value expected"),
        ('{"name": "aspirin", "dose": 12mg}', "a value expected"),
        (f"Both: [{GOOD}, 1]", "a JSON array"),
        ('{"name": "aspirin", "name": "ibuprofen", "approved": true}', "'name' is given twice"),
        ('{"name": "aspirin", "approved": true, "dose": NaN}', "NaN"),
        ('{"name": "aspirin", "approved": true, "dose": 1e99999999999999999999}', "out of range"),
        ("[" * 100_000, "nested too deeply"),
        ("true", "a boolean"),
    ],
)
def test_a_reply_without_one_whole_object_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_object(text)


def test_half_of_a_surrogate_pair_in_a_reply_is_replaced() -> None:
    assert read_object('{"na\\ud800me": ["a\\udfff", "\\ud83d\\ude00"]}') == ({"na\ufffdme": ["a\ufffd", "😀"]}, False)


LIST = {"type": "array", "items": {"type": "string"}}
ENUM = {"enum": ["Phase 1", "Phase 2"]}


@pytest.mark.parametrize(
    ("schema", "said", "meant"),
    [
        ({"type": "boolean"}, "false", False),
        ({"type": "boolean"}, " TRUE ", True),
        ({"type": "integer"}, "12", 12),
        ({"type": "integer"}, "12.0", 12),
        ({"type": "integer"}, "1e23", 10**23),
        ({"type": "number"}, "-0.5", -0.5),
        ({"type": ["number", "null"]}, "3", 3),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "null", None),
        ({"type": "string"}, 42, "42"),
        ({"type": ["string", "null"]}, -0.5, "-0.5"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 10**20, str(10**20)),
        (LIST, [1985, "1986"], ["1985", "1986"]),
        (LIST, 5, ["5"]),
        ({"enum": ["1", "2"]}, 1, "1"),
        (LIST, "EGFR", ["EGFR"]),
        (LIST, '["EGFR", "KRAS"]', ["EGFR", "KRAS"]),
        ({"type": "array", "items": {"type": "integer"}}, "7", [7]),
        ({"type": "array", "items": {"type": "object"}}, {"a": 1}, [{"a": 1}]),
        (ENUM, "phase 2", "Phase 2"),
        (ENUM, "PHASE1", "Phase 1"),
        ({"const": "yes"}, "Yes", "yes"),
        *(({"type": "boolean"}, said, True) for said in ("yes", "Yes", " YES ", "1", 1, 1.0, "\uff59\uff45\uff53")),
        *(({"type": "boolean"}, said, False) for said in ("no", "NO", "0", 0)),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "no", False),
        ({"type": "array", "items": {"type": "boolean"}}, ["yes", 0], [True, False]),
        *(({"enum": [1, 2, 3]}, said, 2) for said in ("2", " 2", "2.0", "\uff12")),
        ({"enum": [-1, 0.5]}, "\u22121", -1),
        ({"enum": [-1, 0.5]}, "0.5", 0.5),
        ({"enum": [True, False]}, "yes", True),
        ({"enum": ["COX-2", "COX-1"]}, "COX\u20112", "COX-2"),
        ({"enum": ["caf\u00e9", "tea"]}, "cafe\u0301", "caf\u00e9"),
        ({"type": "number"}, "\u22122.5", -2.5),
    ],
)
def test_repairs_keep_the_value(schema: dict[str, Any], said: object, meant: object) -> None:
    root = {"type": "object", "properties": {"field": schema}}
    data, repaired = repair({"field": said}, root)
    assert (data, repaired, find_mismatches(data, root)) == ({"field": meant}, True, [])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "boolean"}, "maybe"),
        ({"type": "boolean"}, 2),
        ({"type": "boolean"}, ""),
        ({"enum": [1, 2, 3]}, "two"),
        ({"enum": [1, 2, 3]}, "12"),
        ({"enum": [0, 1, False]}, "0"),
        ({"type": "integer"}, "1,000"),
        ({"type": "integer"}, "007"),
        ({"type": "integer"}, "2.5"),
        ({"type": "integer"}, "1e999999"),
        ({"type": "integer"}, True),
        ({"type": "number"}, "12 mg"),
        ({"type": "number"}, "5%"),
        ({"type": "number"}, "Infinity"),
        ({"type": "string"}, True),
        ({"type": "string", "format": "date"}, 2016),
        (LIST, "EGFR, KRAS"),
        (LIST, "none"),
        (LIST, True),
        (ENUM, "Phase 3"),
        ({"enum": ["A", "a"]}, "A "),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "x"),
    ],
)
def test_what_could_mean_something_else_is_left_and_named(schema: dict[str, Any], said: object) -> None:
    root = {"type": "object", "properties": {"field": schema}}
    data, repaired = repair({"field": said}, root)
    assert (data, repaired) == ({"field": said}, False)
    assert find_mismatches(data, root)[0].startswith("field ")


def test_nested_objects_and_references_are_repaired_in_place() -> None:
    class Trial(BaseModel):
        drugs: list[Drug]

    data, _ = repair({"drugs": [{"name": "x", "approved": "true", "phase": "phase 1"}]}, Trial.model_json_schema())
    assert data == {"drugs": [{"name": "x", "approved": True, "phase": "Phase 1"}]}


def test_an_echoed_schema_is_not_an_answer() -> None:
    data, _ = repair({"properties": {"name": {"type": "string"}, "approved": {"type": "boolean"}}}, SCHEMA)
    assert find_mismatches(data, SCHEMA)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(data=st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_an_object_is_read_back_as_it_was_written(data: dict[str, Any]) -> None:
    assert read_object(json.dumps(data)) == (data, False)


PREFIXES = [
    "",
    "<think>ok</think>\n",
    "Here is the JSON:\n",
    '<think>{"why": 1, or</think>',
    "```json\n",
    'Hm, "so.</think>',
]
PARTS = [
    *("</think>", "[/THINK]", "<think>", "<|start|>assistant<|channel|>final<|message|>", "assistantfinal", "\n", " "),
    *(
        "{'city': 'Oslo', 'why': 'x'} {x",
        '{"city": "Oslo", "why": "x"}',
        '5"',
        "'",
        "\u201c",
        "{",
        "}",
        "Bergen",
        "```",
    ),
]


@given(
    why=st.lists(st.sampled_from(PARTS)).map("".join) | st.text(st.characters(exclude_categories=["C"])),
    prefix=st.sampled_from(PREFIXES),
    ascii_only=st.booleans(),
)
def test_a_mark_inside_a_string_ends_no_thoughts(why: str, prefix: str, ascii_only: bool) -> None:
    for said in ({"city": "Bergen", "why": why}, {"why": why, "city": "Bergen"}):
        assert read_object(prefix + json.dumps(said, ensure_ascii=ascii_only)) == (said, bool(prefix))


@pytest.mark.parametrize(
    "text",
    [
        'London? {"city": "London"} {"city": ...}. No.</think>{"city": "Paris"}',
        '<thinking>maybe {"city": "London"}</thinking>\n{"city": "Paris"}',
        '<|channel|>analysis<|message|>{"city": "London"}?<|end|>'
        '<|start|>assistant<|channel|>final<|message|>{"city": "Paris"}',
        'analysisMaybe {"city": "London"}.assistantfinal{"city": "Paris"}',
        '{"city": "London"}?<|end|><|start|>assistant<|channel|>final<|message|>{"city": "Paris"}<|return|>',
        '<think>They ask about </think>: {"city": "London"}. No.</think>{"city": "Paris"}',
        '{"city": "Paris"}</think>',
        '<think>Hm.</think>{city: "Paris"}',
    ],
)
def test_the_object_after_the_thoughts_is_read(text: str) -> None:
    assert read_object(text) == ({"city": "Paris"}, True)


def test_an_object_inside_a_string_is_not_read_for_the_whole() -> None:
    text = """So: {city: "Bergen", why: "</think>{'city': 'Oslo', 'why': 'x'} {x"}"""
    assert read_object(text)[0] == {"city": "Bergen", "why": "</think>{'city': 'Oslo', 'why': 'x'} {x"}


def test_a_mark_inside_a_broken_object_ends_no_thoughts() -> None:
    with pytest.raises(ValueError, match="broken"):
        read_object('So: {"city": "Bergen", "why": "A 5" one.</think>{\'city\': \'Oslo\', \'why\': \'x\'} {x"}')


@given(data=st.dictionaries(st.text(max_size=5), JSON, min_size=1, max_size=4), cut=st.integers(1, 10))
def test_a_reply_that_was_cut_off_is_never_read(data: dict[str, Any], cut: int) -> None:
    text = json.dumps({"thought": "</think>{}", **data})
    with pytest.raises(ValueError, match="the "):
        read_object(text[: max(1, len(text) - cut)])


@given(
    name=JSON,
    approved=JSON,
    dose=JSON,
    targets=JSON,
)
def test_what_fits_is_not_touched(**said: object) -> None:
    if not find_mismatches(said, SCHEMA):
        assert repair(said, SCHEMA) == (said, False)


@given(name=st.text() | JSON, approved=st.booleans() | JSON, dose=st.floats(allow_nan=False) | JSON, targets=JSON)
def test_what_fits_is_not_touched_beside_what_does_not(**said: object) -> None:
    schema = {
        **object_schema({"drug": {"$ref": "#/$defs/Drug"}, "count": {"type": "integer"}}),
        "$defs": {"Drug": SCHEMA},
    }
    if not find_mismatches(said, SCHEMA):
        assert repair({"drug": said, "count": "5"}, schema) == ({"drug": said, "count": 5}, True)


async def test_a_reply_that_does_not_fit_is_retried() -> None:
    judge = Judge('{"name": "aspirin"}', GOOD)
    found = await ask(judge)
    *before, said, told = judge.asked[1]
    assert before == QUESTION
    assert said == Message.assistant('{"name": "aspirin"}')
    assert told.role == "user"
    assert 'the key "approved" is missing' in told.content
    assert (found.tries, found.usage) == (2, Usage(20, 10, calls=2))


@pytest.mark.parametrize(
    ("said", "wants"),
    [
        ('{"name": "aspirin", "approved": "perhaps"}', 'approved must be true or false, not "perhaps"'),
        ('{"name": "aspirin", "approved": true, "dose": "a lot"}', "dose must be number or null"),
        ("It is approved.", "name: text; approved: true or false"),
    ],
)
async def test_the_second_request_names_each_field_and_its_type(said: str, wants: str) -> None:
    judge = Judge(said, GOOD)
    await ask(judge)
    assert wants in judge.asked[1][-1].content


async def test_a_missing_required_key_is_an_error_despite_a_default() -> None:
    schema = {**SCHEMA, "required": ["name", "approved", "dose"]}
    with pytest.raises(StructuredError, match='"dose" is missing'):
        await call_structured(Judge(GOOD), QUESTION, schema, Drug.model_validate, reasks=0)


async def test_a_missing_optional_key_is_allowed() -> None:
    assert (await ask(Judge(GOOD))).value.dose is None


@pytest.mark.parametrize("depth", [400, 700, 5000])
async def test_deeply_nested_json_is_an_error(depth: int) -> None:
    with pytest.raises(StructuredError, match=r"nested too deeply|is missing"):
        await ask(Judge('{"a":' * depth + "1" + "}" * depth), reasks=0)


async def test_an_empty_reply_is_not_sent_back_as_a_message() -> None:
    judge = Judge("  ", GOOD)
    await ask(judge)
    assert [message.role for message in judge.asked[1]] == ["system", "user", "user"]


async def test_the_error_after_all_tries_has_last_text_and_usage() -> None:
    with pytest.raises(StructuredError, match="to 3 requests") as caught:
        await ask(Judge("a", "b", "c"), reasks=2)
    assert (caught.value.tries, caught.value.usage, caught.value.last_text) == (3, Usage(30, 15, calls=3), "c")


@pytest.mark.parametrize("text", [GOOD[:-3], f"{GOOD}\nBut wait, maybe"])
async def test_a_reply_cut_off_at_the_limit_is_named_so(text: str) -> None:
    cut = ParserReply(text, "prompt", finish_reason="length")
    with pytest.raises(StructuredError, match="cut off at max_tokens"):
        await ask(Judge(cut), reasks=0)


async def test_a_complete_object_is_used_despite_the_token_limit() -> None:
    assert (await ask(Judge(ParserReply(GOOD + " \n \n", "prompt", finish_reason="length")))).tries == 1


async def test_a_port_error_is_passed_on_unchanged() -> None:
    error = PortError("gone", category=ErrorCategory.CONNECTION)
    with pytest.raises(PortError) as caught:
        await ask(Judge("not JSON", error))
    assert caught.value is error


TRUTH = "the secret truth 4711"


class Suspicious(BaseModel):
    """A template with code that compares a value with the truth during validation."""

    name: str
    year: int = 0

    @field_validator("name")
    @classmethod
    def _compare(cls, name: str) -> str:
        if name != TRUTH:
            raise ValueError(f"expected {TRUTH}")
        return name


@pytest.mark.parametrize("reasks", [1, 3])
async def test_errors_of_template_code_never_reach_the_judge(reasks: int) -> None:
    judge = Judge(*['{"name": "guess"}'] * (reasks + 1))
    with pytest.raises(StructuredError, match=TRUTH):
        await call_structured(judge, QUESTION, {"type": "object"}, Suspicious.model_validate, reasks=reasks)
    assert TRUTH not in repr(judge.asked)
    assert "name: this value is not accepted" in judge.asked[1][-1].content


@pytest.mark.parametrize(("error", "is_told"), [(ValueError(TRUTH), False), (InvalidReply("no such excerpt"), True)])
async def test_only_an_invalid_reply_tells_the_judge_its_message(error: ValueError, is_told: bool) -> None:
    def validate(data: dict[str, Any]) -> None:
        raise error

    judge = Judge("{}", "{}")
    with pytest.raises(StructuredError, match=str(error)):
        await call_structured(judge, QUESTION, {}, validate)
    assert (str(error) in judge.asked[1][-1].content) is is_told


async def test_pydantics_own_messages_are_sent_with_their_place() -> None:
    judge = Judge('{"name": "aspirin", "approved": true, "dose": "much"}', GOOD)
    await call_structured(judge, QUESTION, {"type": "object"}, Drug.model_validate)
    assert "dose: Input should be a valid number" in judge.asked[1][-1].content


async def test_a_filtered_judge_is_asked_once_and_the_cause_named() -> None:
    judge = Judge(ParserReply("", "prompt", Usage(10, calls=1), "content_filter", server_reason="HTTP 400: no"))
    with pytest.raises(StructuredError, match=r"content filter \(HTTP 400: no\); choose another judge") as caught:
        await call_structured(judge, [Message.user("?")], SCHEMA, Drug.model_validate)
    assert caught.value.tries == 1


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name": "Drug", "arguments": %s}</tool_call>',
        '[TOOL_CALLS][{"name": "Drug", "arguments": %s}]',
        '{"type": "function", "function": {"name": "Drug", "parameters": %s}}',
    ],
)
async def test_arguments_of_a_written_tool_call_are_read(text: str) -> None:
    schema = object_schema({"drug": {"type": "string"}})
    judge = Judge(text % '{"drug": "aspirin"}')
    assert (await call_structured(judge, [Message.user("?")], schema, dict)).value == {"drug": "aspirin"}
