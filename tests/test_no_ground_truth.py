"""No request that leaves this process contains a ground truth, weight or default, for any template."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from servers import RecordingServer, recording_server

from karenina import Benchmark, VerificationConfig

WORD = st.text("abcdefghijklmnopqrstuvwxyz", min_size=8, max_size=12)


def fill(schema: dict[str, Any]) -> Any:
    """Some value that fits the part of a JSON Schema that judges get."""
    if "anyOf" in schema:
        return fill(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    kinds = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "array": [], "null": None}
    kind = schema.get("type")
    return kinds[kind[0] if isinstance(kind, list) else kind]


def reply(body: dict[str, Any]) -> str:
    form = body.get("response_format")
    if form is None:
        return "Something was said."
    return json.dumps({name: fill(part) for name, part in form["json_schema"]["schema"]["properties"].items()})


@pytest.fixture(scope="module")
def server() -> Iterator[RecordingServer]:
    with recording_server(reply) as running:
        yield running


KINDS: dict[str, Callable[[str, int], tuple[str, ...]]] = {
    "str": lambda word, _: ("str", repr(word), f"ContainsAny(substrings=[{word!r}])"),
    "int": lambda _, number: ("int", str(number), f"NumericTolerance(tolerance={number / 7})"),
    "float": lambda _, number: ("float", f"{number}.25", f"NumericRange(min={number}.125, max={number + 1}.375)"),
    "list[str]": lambda word, _: ("list[str]", f"[{word!r}]", "SetContainment(mode='exact')"),
    "literal": lambda *_: ("Literal['alpha', 'beta']", "'beta'", "LiteralMatch()"),
    "bool": lambda word, _: ("bool", "True", f"TraceRegex(pattern={word!r})"),
    "pattern": lambda word, _: ("str", repr(word), "ExactMatch()", f", pattern='^{word}$'"),
    "equal bounds": lambda _, number: ("int", str(number), "NumericExact()", f", ge={number}, le={number}"),
    "one literal": lambda word, _: (f"Literal[{word!r}]", repr(word), "ExactMatch()"),
    "nested literals": lambda word, _: (f"list[Literal[{word!r}]]", f"[{word!r}]", "SetContainment(mode='exact')"),
}
"""The annotation, truth and primitive of a field, and its constraints, from a word and a number."""


@st.composite
def templates(draw: st.DrawFn) -> tuple[str, list[str], list[str]]:
    """Return a template's source, the secrets in it, and the words in it that the judge may see."""
    secrets, shown, lines = [], [], []
    for at in range(draw(st.integers(1, 4))):
        description, hint = draw(WORD), draw(WORD)
        weight = draw(st.integers(10**6, 10**9)) + 0.5
        kind = draw(st.sampled_from(sorted(KINDS)))
        number = draw(st.integers(10**9, 10**12))
        word = "truth" + draw(WORD)
        annotation, truth, check, *constraints = KINDS[kind](word, number)
        secrets.append(str(weight))
        if repr(word) in f"{truth} {check}":
            secrets.append(word)
        if str(number) in truth:
            secrets.append(str(number))
        if kind != "bool":
            shown += [description, hint]
        lines.append(
            f"    f{at}: {annotation} = VerifiedField(description={description!r}, ground_truth={truth}, "
            f"verify_with={check}, weight={weight}, extraction_hint={hint!r}{''.join(constraints)})"
        )
    note = "note" + draw(WORD)
    secrets.append(note)
    return "\n".join(["class Answer(BaseAnswer):", f'    """{note}"""', *lines]), secrets, shown


@settings(max_examples=60)
@given(templates(), WORD)
def test_no_ground_truth_weight_or_default_leaves_the_process(
    server: RecordingServer, template: tuple[str, list[str], list[str]], raw_answer: str
) -> None:
    source, secrets, shown = template
    raw_answer = "raw" + raw_answer
    benchmark = Benchmark.create(name="secrets")
    benchmark.add_question("What is it?", raw_answer, source, metadata={"gold": raw_answer})
    model = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url, "endpoint_api_key": "k"}
    server.seen.clear()
    results = benchmark.run_verification(
        VerificationConfig(answering_models=[{"id": "a", **model}], parsing_models=[{"id": "j", **model}])
    )
    assert results[0].metadata.error is None
    assert len(server.seen) == (2 if shown else 1)
    sent = "\n".join(server.seen)
    assert [secret for secret in [*secrets, raw_answer] if secret in sent] == []
    assert [word for word in shown if word not in sent] == []
