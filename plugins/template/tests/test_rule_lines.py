"""The rules of a run's templates, collected one question at a time."""

import json

import pytest

from karenina_core import Question
from karenina_template.rules import RuleLines

TEMPLATE = """class Answer(BaseAnswer):
    year: str = VerifiedField(description="The year", ground_truth="{truth}", verify_with={rule})
"""
CODE = TEMPLATE + "    def verify(self): return True\n"


def question(id: str, source: str) -> Question:
    return Question(id=id, question="In which year?", answer_template=source)


@pytest.mark.parametrize("count", [0, 1, 2000])
def test_lines_have_the_rules_of_each_template(count: int) -> None:
    lines = RuleLines()
    for number in range(count):
        lines.add(question(f"q{number}", TEMPLATE.format(truth=number, rule=f'ContainsAny(substrings=["{number}"])')))
    found = [json.loads(line) for line in b"".join(lines.blocks()).splitlines()]

    assert [rules for _, rules in found] == [{"year": f"ContainsAny (substrings {number})"} for number in range(count)]
    assert len({template for template, _ in found}) == count


def test_templates_with_code_are_left_out() -> None:
    lines = RuleLines()
    lines.add(question("code", CODE.format(truth="1985", rule="ExactMatch()")))
    lines.add(question("declared", TEMPLATE.format(truth="1985", rule="ExactMatch()")))

    assert [json.loads(line)[1] for line in b"".join(lines.blocks()).splitlines()] == [{"year": "ExactMatch"}]


def test_lines_can_be_read_twice_and_continued() -> None:
    lines = RuleLines()
    lines.add(question("a", TEMPLATE.format(truth="1985", rule="ExactMatch()")))
    first = b"".join(lines.blocks())
    lines.add(question("b", TEMPLATE.format(truth="1986", rule="ExactMatch()")))

    assert b"".join(lines.blocks()).startswith(first)
    assert len(b"".join(lines.blocks()).splitlines()) == 2
