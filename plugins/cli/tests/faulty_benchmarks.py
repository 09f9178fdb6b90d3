"""Benchmark files with faults: a comment `#! words` marks each faulty line, and contains words of its report."""

from __future__ import annotations

import re

GOOD = """
  - question: Which gene is the target of venetoclax?
    answer: {gene: {description: The gene that the response names, ground_truth: BCL2}}
"""

HEAD_FAULTS = {
    "an unknown key": "desciption: Genes  #! unknown key 'desciption'; did you mean 'description'?",
    "a key that appears twice": "name: Other  #! the key 'name' appears twice (first in line 2)",
    "a text that is a list": "creator: [a, b]  #! 'creator' must be a string, not a list",
    "an unknown setting": "config:\n  evaluation_mod: rubric_only  #! did you mean 'evaluation_mode'?",
    "a setting of a wrong type": "config:\n  replicate_count: many  #! replicate_count",
    "an unknown field of a model": (
        "config:\n  parsing_models:\n    - id: j\n      interface: openai\n      model_name: m\n"
        "      temperatur: 0  #! did you mean 'temperature'?"
    ),
    "a trait without a type": "rubric:\n  - {name: short}  #! the trait needs a `type`",
    "a trait without a pattern": "rubric:\n  - {type: regex, name: short}  #! 'pattern' is missing",
    "a misspelt field of a trait": (
        "rubric:\n  - {type: regex, name: short, patern: b}  #! patern: there is no such field; did you mean 'pattern'?"
    ),
    "a misspelt word in a trait": (
        "rubric:\n  - {type: llm, name: clear, kind: bolean}  #! or 'template'; did you mean 'boolean'?"
    ),
    "a pattern of a trait": "rubric:\n  - {type: regex, name: short, pattern: '(['}  #! does not compile",
    "two traits of one name": (
        "config: {evaluation_mode: template_and_rubric}\nrubric:\n  - {type: regex, name: a, pattern: b}\n"
        "  - {type: regex, name: a, pattern: c}  #! the trait in line 5 has the same name 'a'"
    ),
    "a trait of an unknown type": (
        "config: {evaluation_mode: template_and_rubric}\nrubric:\n"
        "  - {type: regexp, name: a, pattern: b}  #! no installed plugin provides traits of type 'regexp'"
    ),
    "a trait that the mode does not use": (
        "rubric:\n  - {type: regex, name: a, pattern: b}  #! is not used because evaluation_mode"
    ),
    "a trait that is not selected": (
        "config: {evaluation_mode: template_and_rubric, rubric_trait_names: [a]}\nrubric:\n"
        "  - {type: regex, name: a, pattern: b}\n"
        "  - {type: regex, name: b, pattern: b}  #! is not used because it is not listed in rubric_trait_names"
    ),
    "a value that needs trust": (
        "config:\n  parsing_models:\n    - {id: j, interface: openai, model_name: m,\n"
        "       endpoint_base_url: http://a.example}  #! must be trusted before a run"
    ),
    "a table that does not exist": "questions_from:\n  file: none.csv  #! none.csv: the file does not exist",
}

QUESTION_FAULTS = {
    "a question without text": "- raw_answer: a  #! the question has no text",
    "an unknown key of a question": "- question: q1\n  awnser: {}  #! did you mean 'answer'?",
    "a question that is a text": "- Which gene?  #! must be a mapping",
    "a question that is a list": "- question: [q3]  #! 'question' must be a string, not a list",
    "an example without an answer": (
        "- question: q4\n  few_shot_examples:\n    - question: a  #! an example needs a `question` and an `answer`"
    ),
    "an answer and a template": "- question: q5\n  answer: {}\n  template: a  #! both `answer` and `template`",
    "a strategy without fields": "- question: q6\n  strategy: gene  #! combines the fields of `answer`",
    "a strategy of another field": (
        "- question: q7\n  answer: {a: {description: One, ground_truth: b}}\n"
        "  strategy: {any_of: [a, c]}  #! refers to the unknown field 'c'"
    ),
    "an unknown key of a field": (
        "- question: q8\n  answer:\n    a:\n      description: One\n      ground_truth: b\n"
        "      wheight: 2  #! unknown key 'wheight'; did you mean 'weight'?"
    ),
    "a field without a description": "- question: q9\n  answer:\n    a: {ground_truth: b}  #! has no 'description'",
    "a field without a truth": "- question: q10\n  answer:\n    a: {description: One}  #! has no 'ground_truth'",
    "an unknown type": (
        "- question: q11\n  answer:\n    a: {description: One, ground_truth: b, type: text}  #! unknown type 'text'"
    ),
    "a truth of another type": (
        "- question: q12\n  answer:\n    a: {description: One, ground_truth: b, type: int}  #! 'b' is not of type 'int'"
    ),
    "a truth that is not a date": (
        "- question: q13\n  answer:\n    a: {description: One, ground_truth: 2001-13-31, type: date}  #! not of type"
    ),
    "a truth that is not a choice": (
        "- question: q14\n  answer:\n"
        "    a: {description: One, ground_truth: c, type: {literal: [a, b]}}  #! does not match the field annotation"
    ),
    "a truth that a primitive cannot compare": (
        "- question: q15\n  answer:\n"
        "    a: {description: One, ground_truth: soon, verify_with: DateMatch}  #! DateMatch requires a complete date"
    ),
    "an unknown primitive": (
        "- question: q16\n  answer:\n"
        "    a: {description: One, ground_truth: b, verify_with: ExactMach}  #! did you mean 'ExactMatch'?"
    ),
    "a wrong parameter of a primitive": (
        "- question: q17\n  answer:\n    a:\n"
        "      description: One\n      ground_truth: 5\n"
        "      verify_with: {type: NumericTolerance, tolerance: 1, tolerence: 2}  #! 'tolerence'"
    ),
    "a pattern of a primitive": (
        "- question: q18\n  answer:\n"
        "    a: {description: One, ground_truth: b, verify_with: {type: RegexMatch, pattern: '(['}}  #! the pattern"
    ),
    "a weight that is not a number": (
        "- question: q19\n  answer:\n"
        "    a: {description: One, ground_truth: b, weight: heavy}  #! must be a finite number"
    ),
    "a name of a field": (
        "- question: q20\n  answer:\n    a b: {description: One, ground_truth: b}  #! 'a b' is not a valid name"
    ),
    "a template that is not Python": (
        "- question: q21\n  template: |\n    class Answer(BaseAnswer)  #! is not valid Python\n        a: str"
    ),
    "a template that needs trust": (
        "- question: q22\n  template: |\n    import os  #! the template contains code that is not trusted\n"
        "    class Answer(BaseAnswer):\n        a: str"
    ),
    "a template without an answer": (
        "- question: q23\n  template: |  #! has no class Answer\n    class Other(BaseModel): ..."
    ),
    "a field of a template": (
        "- question: q24\n  template: |\n    class Answer(BaseAnswer):\n"
        "        a: str = VerifiedField(description='One', ground_truth='b', verify_with=ExactMatch())\n"
        "        b: int = VerifiedField(description='Two', ground_truth='c', verify_with=NumericExact())  #! number"
    ),
    "a question without a template": "- question: q25  #! has no answer template",
    "a truth in a description": (
        "- question: q26\n  answer:\n    a:\n"
        "      description: The gene, such as KRAS  #! contains the ground truth, 'KRAS'\n"
        "      ground_truth: KRAS"
    ),
    "a truth in a hint": (
        "- question: q27\n  answer:\n    a:\n      description: The year that is named\n      ground_truth: 1985\n"
        "      extraction_hint: Usually 1985  #! contains the ground truth, '1985'"
    ),
    "a description that says nothing": (
        "- question: q28\n  answer:\n    a:\n      description: The answer  #! not informative\n      ground_truth: b"
    ),
    "a description that asks for a verdict": (
        "- question: q29\n  answer:\n    a:\n      description: Whether the answer is correct  #! asks for a verdict\n"
        "      ground_truth: true"
    ),
    "two fields of one description": (
        "- question: q30\n  answer:\n    a: {description: The gene, ground_truth: b}\n"
        "    b:\n      description: The gene  #! have the same description\n      ground_truth: c"
    ),
    "a single choice": (
        "- question: q31\n  answer:\n    a:\n      description: The level\n      ground_truth: low\n"
        "      type: {literal: [low]}  #! a single possible value"
    ),
    "a truth outside of its range": (
        "- question: q32\n  answer:\n    a:\n      description: The year\n"
        "      ground_truth: 1985  #! does not pass the field's own NumericRange\n"
        "      verify_with: {type: NumericRange, min: 1990}"
    ),
    "a condition that accepts everything": (
        "- question: q33\n  answer:\n    a:\n      description: The gene\n      ground_truth: KRAS\n"
        "      verify_with: {type: RegexMatch, pattern: .*}  #! accepts wrong values, such as"
    ),
    "a text that appears twice": (
        "- question: q34\n  answer: {a: {description: One, ground_truth: b}}\n- question: q34  #! has the same text"
    ),
    "an id that appears twice": (
        "- question: q35\n  id: twice\n  answer: {a: {description: One, ground_truth: b}}\n- question: q36\n"
        "  id: twice  #! has the same id 'twice'\n  answer: {a: {description: One, ground_truth: b}}"
    ),
    "a template field without a description": (
        "- question: q37\n  template: |\n    class Answer(BaseAnswer):\n"
        "        a: str = VerifiedField(ground_truth='b', verify_with=ExactMatch())  #! has no description"
    ),
}


def make_file(head: list[str], questions: list[str]) -> str:
    """Return a benchmark with these parts, and one question without faults."""
    parts = [f"  {line}" for question in questions for line in question.split("\n")]
    return "\n".join(["karenina: 1", "name: Genes", *head, "questions:", *parts]) + GOOD


FILES = {
    "an unknown version": "karenina: 2  #! the file has format version 2\nname: Genes\nquestions:" + GOOD,
    "no name": "karenina: 1  #! the benchmark has no name\nquestions:" + GOOD,
    "invalid YAML": "karenina: 1\nname: Genes\ndescription: a: b  #! the YAML is not valid",
    "questions that are no list": "karenina: 1\nname: Genes\nquestions: 5  #! 'questions' must be a list",
    **{name: make_file([fault], []) for name, fault in HEAD_FAULTS.items()},
    **{name: make_file([], [fault]) for name, fault in QUESTION_FAULTS.items()},
}

_QUESTIONS = [*QUESTION_FAULTS.values()]
_HEADS = [*HEAD_FAULTS.values()]
TENFOLD = {
    "ten questions": make_file([], _QUESTIONS[:10]),
    "ten other questions": make_file([], _QUESTIONS[10:20]),
    "templates and descriptions": make_file([], _QUESTIONS[20:30]),
    "the head and eight questions": make_file(_HEADS[:2], _QUESTIONS[28:36]),
    "a rubric, settings and questions": make_file(
        [_HEADS[3], "  replicate_count: many  #! replicate_count", _HEADS[8], _HEADS[2], "vesion: 1  #! 'version'"],
        [_QUESTIONS[place] for place in (3, 15, 20, 26, 36)],
    ),
}


def find_marks(text: str) -> list[tuple[int, str]]:
    """Return the lines with faults, and the words that their reports must contain."""
    return [
        (number, match[1].strip())
        for number, line in enumerate(text.split("\n"), 1)
        if (match := re.search(r"#! ?(.*)$", line))
    ]
