"""JavaScript in promptfoo that only searches the response for text, imported as rules and judged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from imports import import_file, run_imported, write_json, write_lines

from karenina_benchmark import Benchmark
from karenina_importing.formats.promptfoo.assertions import convert
from karenina_importing.formats.promptfoo.javascript import read_javascript
from karenina_template.templates.primitives import TracePrimitive, primitive_from_json

NAME: dict[str, Any] = {"name": "Ada", "n": 3}
READ: list[tuple[str, str, str]] = [
    (r"/\bLi(?:ma|moges)\b/.test(output)", "It is Lima.", "It is Limassol."),
    (r"/lima/i.test(output)", "LIMA", "Cusco"),
    (r"!/sorry|can't/i.test(output)", "It is Lima.", "SORRY, no."),
    (r"/^\d+$/.test(output)", "12", "12\n"),
    (r"/^\d+$/m.test(output)", "So:\n12\n", "x12"),
    (r"/\d/.test(output)", "3", "٣"),
    (r"/^\w+$/.test(output)", "Lima", "Perú"),
    (r"/a.b/.test(output)", "a-b", "a\nb"),
    (r"/a.b/s.test(output)", "a\nb", "ab"),
    (r"/^[\s\S]*end$/g.test(output)", "the\nend", "the end."),
    (r"/a\sb/.test(output)", "a\ufeffb", "a\x1cb"),
    (r'/{"city"/.test(output)', '{"city": 1}', '{"town": 1}'),
    (r"/[a\-z]/.test(output)", "-", "m"),
    (r"/[[.]x/.test(output)", "[x", "x"),
    (r"/^.{1,3}$/u.test(output)", "\U0001f600ab", "abcd"),
    (r"/(\S+\s+){2}\S/.test(output)", "one two three", "one two"),
    (r"/é/i.test(output)", "É", "e"),
    (r"/k/i.test(output)", "K", "j"),
    (r"!!output.match(/^Lima/)", "Lima is it", "It is Lima"),
    (r"output.match(/\d+/g) !== null", "12", "none"),
    (r"output.match(/\d/) === null", "none", "12"),
    ("output.includes('Lima')", "It is Lima.", "It is lima."),
    ("!output.includes('Lima')", "It is Cusco.", "It is Lima."),
    ("output.toLowerCase().includes('lima');", "LIMA", "Cusco"),
    ("output.toLowerCase().includes('ss')", "pASSed", "groß"),
    ('output.includes("a, \\"b\\"")', 'a, "b"', "a, b"),
    ("output.includes('7') || output.includes('seven')", "seven", "eight"),
    ("output.includes('a') && output.includes(`b`)", "b a", "a"),
    ("output.includes('a') && !(/b/i.test(output) || output.includes('c'))", "a", "a B"),
    ("output.toLowerCase().includes('yes') || output.includes('JA')", "YES", "ja"),
    ("output.startsWith('Lima')", "Lima is it", "It is Lima"),
    ("output.trim().startsWith('{') && output.trim().endsWith('}')", '\n {"a": 1}\n', 'So: {"a": 1}'),
    ("output.endsWith('.')", "Lima.", "Lima.\n"),
    ("output === 'Lima'", "Lima", "Lima\n"),
    ("output.trim() === 'Lima'", " Lima\n", "Lima."),
    ("String(output).trim().toLowerCase() == 'yes'", "YES\n", "yes."),
    ("output !== 'Lima'", "lima", "Lima"),
    ("output.indexOf('Lima') !== -1", "It is Lima.", "It is not."),
    ("output.indexOf('Lima') === -1", "It is not.", "It is Lima."),
    ("['Lima', 'Callao'].some(c => output.includes(c))", "near Callao", "near Cusco"),
    ("['peru', 'lima'].every((word) => output.toLowerCase().includes(word))", "Lima, Peru", "Lima"),
    ("!['x', 'y'].some(c => output.includes(c))", "z", "x"),
    ("output.includes(context.vars.name)", "Ada says", "she says"),
    ("output.toLowerCase().includes(context.vars['name'].toLowerCase())", "ADA", "Eve"),
    ("output.includes('{{ name }}!')", "Ada!", "Ada"),
    ("const text = output.toLowerCase(); text.includes('a') && !text.includes('b')", "A", "AB"),
    ("const text = output.trim();\n// either\nreturn text === 'a' ||\n  text === 'b';\n", "b ", "ab"),
    ("try {\n  JSON.parse(output);\n  return true;\n} catch (error) {\n  return false;\n}", '{"a": 1}', "{a: 1}"),
]
LEFT = [
    "output.length < 10",
    "output.trim().length <= 280",
    "output.length",
    "output.match(/a/)",
    "output.match(/a/) && output.match(/b/)",
    "!output === 'x'",
    "!output.indexOf('x') > -1",
    "!output.length === 0",
    "output.includes('x') ? 1 : 0",
    "output.includes('x') || 0.5",
    "output.includes('x') === false",
    "return output.includes('x')",
    "const text = output;\ntext.includes('x')",
    "return\noutput.includes('x')",
    "return output.includes('x')\nreturn true",
    "output.toLowerCase().includes('X')",
    "output.includes('')",
    "output.trim() === ' x'",
    "output.includes(context.vars.nothing)",
    "output.includes(context.vars.n)",
    "output.includes('{{ nothing | own }}')",
    "output.city.includes('x')",
    "JSON.parse(output).city === 'Lima'",
    "JSON.parse(output)",
    "output.split(' ').length < 5",
    "require('fs').readFileSync('x')",
    "file://check.js",
    r"/(a)\1/.test(output)",
    r"/(?<a>x)\k<a>/.test(output)",
    r"/\p{L}/u.test(output)",
    r"/[\u{1F600}]/.test(output)",
    r"/^.{1,80}$/.test(output)",
    r"/(?i:a)/.test(output)",
    r"/a++/.test(output)",
    r"/k/iu.test(output)",
    r"/a/y.test(output)",
    r"/[z-a]/.test(output)",
    r"/[à-þ]/i.test(output)",
    r"/a/.test(output.trim())",
    r"/a/g.exec(output)",
    "['a'].some(a => ['b'].some(b => output.includes(b)))",
    "['a'].some(a => { return output.includes(a) })",
    "(" * 200 + "output.includes('x')" + ")" * 200,
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("right", [True, False], ids=["right", "wrong"])
@pytest.mark.parametrize("negated", [False, True], ids=["", "not"])
def test_simple_programs_judge_as_they_do_in_javascript(tmp_path: Path, right: bool, negated: bool) -> None:
    kind = "not-javascript" if negated else "javascript"
    asserted = [{"type": kind, "value": case[0]} for case in READ]
    tests = [{"vars": NAME | {"i": at}, "assert": [assertion]} for at, assertion in enumerate(asserted)]
    write_json(tmp_path / "c.json", {"prompts": ["Question {{i}}?"], "providers": ["echo"], "tests": tests})

    done = import_file("c.json")
    assert done.code == 0, done.err
    assert "Not carried over" not in done.err
    ids = [question.id for question in Benchmark.load("out.yaml")]
    answers = [case[1 if right else 2] for case in READ]
    lines = [{"id": id, "response": answer} for id, answer in zip(ids, answers, strict=True)]
    write_lines(tmp_path / "answers.jsonl", lines)

    verdicts = run_imported(tmp_path)

    expected = right is not negated
    assert [case[0] for case, verdict in zip(READ, verdicts.values(), strict=True) if verdict is not expected] == []


@pytest.mark.parametrize("code", LEFT)
def test_other_programs_are_left_to_be_written(code: str) -> None:
    converted = convert([{"type": "javascript", "value": code}], NAME)

    assert converted.left_out == ["javascript (a trait to be written)"]
    assert not converted.fields
    assert converted.traits[0]["description"] == code


def test_programs_about_a_transformed_output_are_left() -> None:
    program = {"type": "javascript", "value": "output.includes('x')"}

    assert convert([program], {}, transform="output.city").fields == {}
    assert convert([{**program, "transform": "output.city"}], {}).left_out == ["javascript of a transformed output"]


def test_fields_of_programs_have_names_weights_and_thresholds() -> None:
    programs = [
        {"type": "javascript", "value": "output.includes('Lima')", "weight": 2},
        {"type": "javascript", "value": "/peru/i.test(output)", "metric": "namesCountry", "weight": 2},
    ]

    converted = convert(programs, {}, threshold=0.5)

    assert list(converted.fields) == ["output_includes_lima", "names_country"]
    assert converted.fields["output_includes_lima"]["weight"] == 2
    assert converted.strategy == {"at_least": {"n": 1, "of": ["output_includes_lima", "names_country"]}}


PIECES = st.sampled_from(
    [
        *("output", ".includes(", "'a'", ")", "&&", "||", "!", "(", ".test(", "/a/i", "=== ", "null", ".trim()", "\n"),
        *("return ", ";", "['a', 'b']", ".some(w => ", "w", "const t = ", "t", ".length > 0", "/[^a-z]{2}/", "\\"),
    ]
)


@given(st.one_of(st.lists(PIECES, max_size=12).map("".join), st.text(max_size=60)))
def test_any_program_is_read_or_left(code: str) -> None:
    field = read_javascript(code, {})

    if field is not None:
        assert isinstance(primitive_from_json(field["verify_with"]), TracePrimitive)


@given(st.from_regex(re.compile(r"[\[\](){}^$.*+?|\\/dDwWsSbBaé🙂-]{0,20}[gimsu]{0,3}", re.ASCII), fullmatch=True))
def test_any_regular_expression_is_read_or_left(regex: str) -> None:
    field = read_javascript(f"/{regex}.test(output)", {})

    if field is not None:
        assert isinstance(primitive_from_json(field["verify_with"]), TracePrimitive)
