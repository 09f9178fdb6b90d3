"""Turns the correct answers of other tools into answer templates."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any, Final
from unicodedata import category

from karenina_benchmark.tables.answer_kinds import OTHER_BOOLEANS, Cell
from karenina_benchmark.tables.column_roles import TRUTH
from karenina_benchmark.tables.declare_answers import declare_answers, exact_match, final_answer, holds_alternatives
from karenina_benchmark.tables.lettered_options import Options, find_right_options
from karenina_benchmark.tables.message_texts import as_texts
from karenina_benchmark.tables.table_answers import declare_options
from karenina_importing.field_mapping import FieldMapping
from karenina_template.templates.primitives import known_primitives, primitives_by_field_type
from karenina_toolkit.patterns import PatternTimeout, search
from karenina_toolkit.printable import quantity

_THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]+)?")
_BOOLEANS: Final = {"true": True, "yes": True, "false": False, "no": False, "1": True, "0": False, **OTHER_BOOLEANS}
_DESCRIPTIONS: Final = {
    "text": "The answer that the response gives, as a name, a number or a few words",
    "number": "The number that the response gives as its answer",
    "integer": "The whole number that the response gives as its answer",
    "boolean": "Whether the response answers the question with yes or true",
    "date": "The date that the response gives as its answer",
}
_READ: Final = "The answer that the response gives, copied as it is written, with its unit if it has one"
"""The description of a field whose type a primitive reads, such as quantity."""
_WORDS: Final = "The answer that the response gives, in plain words without LaTeX"
EXPRESSION: Final = "expression"
_TEXT: Final = re.compile(r"\\(?:text|textbf|textit|textrm|mbox|mathrm)\{([^{}]*)\}")
"""Words in LaTeX."""
_COUNT: Final = re.compile(r"([0-9][0-9.,]* [^0-9^]+)(?:\^[23])?")
"""A number of something, such as *6 ways* and *6 inches^2*."""
_MATHEMATICS: Final = "\\{}()[]^_*/"
"""Signs that are not in words, besides those that Unicode calls mathematical, such as = and the integral sign."""
_TYPES: Final = {"text": "str", "number": "float", "integer": "int", "boolean": "bool", "date": "date"}


AGREES: Final = "The response contains the content of this expert answer, and contradicts none of it: {}"
"""The description of a trait that shows the correct answer to the judge."""


class NoAnswer(ValueError):
    """Raised if no template can be made from a correct answer. The message says how to fix this."""


def declare_answer(mapping: FieldMapping, truths: Sequence[str], choices: Sequence[str]) -> dict[str, Any]:
    """Return a template with the field `answer`, for an answer type other than `auto` and `graded`. Its ground truth is
    the correct answer or, if there are `choices`, the letter (type `choice`) or text (type `text`) of the correct
    option. Several truths of type `text` are alternatives. Raises `NoAnswer` if there is no correct answer, too many,
    or one of another type. Words are compared as text if the type is `expression`.
    """
    kind = mapping.answer
    assert isinstance(kind, str), "declared fields are used as they are"
    if not truths:
        raise NoAnswer("the row has no correct answer; map raw_answer to a different path")
    answers = extract(mapping, truths)
    if mapping.answer_pattern is None and kind not in ("text", "choice"):
        answers = [final_answer(answer) for answer in answers]
    declared: dict[str, Any] = {"description": _DESCRIPTIONS.get(kind, _READ)}
    if kind == "choice":
        options = dict(zip(ascii_uppercase, choices, strict=False))
        letter = ascii_uppercase[choice_index(mapping, answers, choices)]
        return {"answer": declare_options(options, (letter,), several=False)}
    if choices and kind == "text":
        answers = [choices[choice_index(mapping, answers, choices)]]
    if kind == EXPRESSION and len(answers) == 1 and (words := _words_in(answers[0])) is not None:
        if _COUNT.fullmatch(words):
            return {"answer": {"type": "str", **declared, "ground_truth": words, "verify_with": "NumberWithUnit"}}
        rule = exact_match([words, answers[0]])
        return {"answer": {"type": "str", "description": _WORDS, "ground_truth": words, "verify_with": rule}}
    declared = {"type": _TYPES.get(kind, kind), **declared}
    if kind == "text":
        return {"answer": {**declared, "ground_truth": answers[0], "verify_with": exact_match(answers)}}
    if len(set(answers)) > 1:
        raise NoAnswer(
            f"the row has {len(answers)} correct answers, but the answer type '{kind}' allows only one; "
            "map raw_answer to one of them"
        )
    return {"answer": {**declared, "ground_truth": _convert(kind, answers[0])}}


def _words_in(answer: str) -> str | None:
    """Return the words in a correct answer of the type `expression` that is none, such as *even* for `\\text{even}`,
    without LaTeX. Returns None for expressions, and for anything but words.
    """
    words = " ".join(_TEXT.sub(r"\1", answer).strip("$").split())
    signs = count[1] if (count := _COUNT.fullmatch(words)) else words
    if not any(map(str.isalpha, signs)) or any(sign in _MATHEMATICS or category(sign) == "Sm" for sign in signs):
        return None
    try:
        known_primitives()[primitives_by_field_type()[EXPRESSION]]().check_expected(answer)
    except ValueError:
        return words
    return None


def declare_graded(mapping: FieldMapping, truths: Sequence[str]) -> list[dict[str, Any]]:
    """Return a rubric with one trait for which a judge compares responses with the correct answers. Raises `NoAnswer`
    if there is no correct answer, or if the mapping's pattern is not found in one of them.

    A response only has to agree with one of them.
    """
    if not truths:
        raise NoAnswer("the row has no correct answer; map raw_answer to a different path")
    return _agrees(extract(mapping, truths), any_of=True)


def _agrees(truths: Sequence[str], *, any_of: bool) -> list[dict[str, Any]]:
    """Return a rubric with one trait that shows the correct answers to a judge. Set `any_of` if a response only has to
    agree with one of them.
    """
    shown = ("\nor: " if any_of else "\nand: ").join(dict.fromkeys(truths))
    return [{"type": "llm", "name": "agrees", "description": AGREES.format(shown)}]


def declare_by_kind(
    mapping: FieldMapping, cells: Sequence[Cell], options: Sequence[Options]
) -> tuple[list[dict[str, Any] | None], list[str]]:
    """Return how to check each question, as `{"answer": fields}`, as `{"rubric": traits}` if the correct answer is a
    sentence, or as None if it has none to compare with, and notes for the user. `cells` and `options` have one entry
    per question.

    A trait shows the sentence to the judge. If several sentences are needed, they are joined as `raw_answer`. For a
    question with options, the field is the letter of the correct option.
    """
    right = find_right_options([cell.value for cell in cells], options, mapping.choice_by)
    several = right.several
    decided: list[dict[str, Any] | None] = [
        {"answer": {TRUTH: declare_options(option, letters, several=several)}} if letters else None
        for option, letters in zip(options, right.letters, strict=True)
    ]
    lettered = sum(map(bool, right.letters))
    notes = [f"answer: {quantity(lettered, 'question')} with options"] if lettered else []
    if right.problem:
        cure = "add --map choice_by=number (counted from 1), index (from 0), letter or text"
        notes.append(f"answer: questions with options have no template because {right.problem}; {cure}")
    places = [at for at, letters in enumerate(right.letters) if not letters and not (right.problem and options[at])]
    path = mapping.of("raw_answer")
    # A question for several items must not turn the alternatives of other questions into items that are all needed.
    alternatives = {at: holds_alternatives(path[0] if path else "", (cells[at].question,)) for at in places}
    for any_of in (True, False):
        chosen = [at for at in places if alternatives[at] is any_of]
        if not chosen:
            continue
        column = path[0].rpartition(".")[2] if path else ""
        answers = declare_answers([cells[at] for at in chosen], any_of=any_of, column=column)
        for at, declared, answer in zip(chosen, answers.fields, answers.kinds.answers, strict=True):
            if declared is not None:
                decided[at] = {"answer": {TRUTH: declared}}
            elif answer.kind == "prose":
                truths = as_texts(cells[at].value)
                needed = {} if any_of or len(truths) < 2 else {"raw_answer": "; ".join(truths)}
                decided[at] = {"rubric": _agrees(truths, any_of=any_of), **needed}
        notes += [f"answer: {note}" for note in (*answers.notes, *answers.warnings)]
        lists = (
            cells[at].value for at, answer in zip(chosen, answers.kinds.answers, strict=True) if answer.kind == "list"
        )
        if not any_of and any(isinstance(value, list) and len(value) > 1 for value in lists):
            notes.append(
                "answer: all items of a list are needed; if each item is a correct answer by itself, "
                "add --map answer=text"
            )
        if answers.objects:
            notes.append(
                f"answer: {answers.objects}, which no rule can compare, so their questions have no template. "
                f"Map one part of each value with --map raw_answer={path[0] if path else 'PATH'}.PART"
            )
        if answers.refused:
            notes.append(
                f"answer: {answers.refused}, so a judge that sees the sentence scores whether a response "
                "agrees with it (trait 'agrees', as with --map answer=graded). Alternatively, use --map "
                "'answer_pattern=...' to find a short answer in each sentence, `karenina draft` to draft a "
                "template for each question, or --map answer=text to compare word for word"
            )
    return decided, notes


def extract(mapping: FieldMapping, truths: Sequence[str]) -> list[str]:
    """Return what the mapping's `answer_pattern` finds in each correct answer: the first group of the match, or the
    whole match if there are no groups, without surrounding white space. Without a pattern, the answers are returned
    unchanged. Raises `NoAnswer` if the pattern is not found, or if the search takes too long.
    """
    if mapping.answer_pattern is None:
        return list(truths)
    parts = []
    for truth in truths:
        try:
            match = search(mapping.answer_pattern, truth)
        except PatternTimeout as error:
            raise NoAnswer(str(error)) from error
        if match is None:
            what = f"answer_pattern does not match anything in the correct answer {truth!r:.80}"
            raise NoAnswer(f"{what}; correct or remove the pattern")
        part = match[1] if match.re.groups else match[0]
        parts.append((part or "").strip())
    return parts


def choice_index(mapping: FieldMapping, truths: Sequence[str], choices: Sequence[str]) -> int:
    """Return the index of the correct option, which may be given by its text, letter or index (from 0), or only in the
    way that `mapping.choice_by` states, if any (`number` is the position from 1). Raises `NoAnswer` if there are no
    options, more than 26, or not exactly one that is correct. The mapping's `answer_pattern` is not applied.
    """
    if not choices:
        raise NoAnswer("the row has no options; map choices to a different path")
    if len(choices) > len(ascii_uppercase):
        raise NoAnswer(f"the row has {len(choices)} options, but there are only {len(ascii_uppercase)} letters")
    if len(truths) != 1:
        raise NoAnswer(f"the row has {len(truths)} correct options, but the answer type 'choice' requires exactly one")
    truth = truths[0].strip()
    ways = {
        "text": [place for place, choice in enumerate(choices) if choice.strip() == truth],
        "letter": [place for place in range(len(choices)) if ascii_uppercase[place] == truth.strip("().").upper()],
        "index": [place for place in range(len(choices)) if str(place) == truth],
    }
    if mapping.choice_by == "number":
        ways = {"number": [place for place in range(len(choices)) if str(place + 1) == truth]}
    elif mapping.choice_by is not None:
        ways = {mapping.choice_by: ways[mapping.choice_by]}
    indices = {place for places in ways.values() for place in places}
    if len(indices) == 1:
        return indices.pop()
    if indices:
        names = " and ".join(name for name, places in ways.items() if places)
        raise NoAnswer(
            f"the correct answer {truth!r:.80} matches more than one option (by {names}); "
            "set choice_by to the intended one"
        )
    what = f"the correct answer {truth!r:.80} is not one of the {len(choices)} options"
    raise NoAnswer(f"{what}; map raw_answer to a different path, or set choice_by or answer_pattern")


def show_truths(mapping: FieldMapping, truths: Sequence[str], choices: Sequence[str]) -> str:
    """Return the correct answers joined with " or ", or the correct option with its letter (`B. Paris`) if it can be
    found.
    """
    if choices:
        try:
            place = choice_index(mapping, extract(mapping, truths), choices)
        except NoAnswer:
            return " or ".join(dict.fromkeys(truths))
        letter, choice = ascii_uppercase[place], choices[place].strip()
        return choice if choice == letter else f"{letter}. {choice}"
    return " or ".join(dict.fromkeys(truths))


def _convert(kind: str, truth: str) -> Any:
    """Convert a correct answer to the type `kind`: `boolean`, `number` or `integer`. Dates and other kinds stay strings
    and are not checked. Commas between thousands are removed from numbers. Raises `NoAnswer` if the answer cannot be
    converted.
    """
    text = truth.strip()
    if kind == "boolean":
        if text.casefold() not in _BOOLEANS:
            raise NoAnswer(f"the correct answer must be yes, no, true or false, not {truth!r:.80}")
        return _BOOLEANS[text.casefold()]
    if kind == "date":
        return text
    if kind not in _TYPES:
        return text
    text = text.replace(",", "") if _THOUSANDS.fullmatch(text) else text
    try:
        # `float` accepts 1_000, which may be a name.
        number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,300}", text) else float(text.replace("_", " _"))
    except ValueError as error:
        cure = "map raw_answer to a number, or set answer_pattern"
        raise NoAnswer(f"the correct answer {truth!r:.80} is not a number; {cure}") from error
    if kind == "integer" and not isinstance(number, int):
        raise NoAnswer(f"the correct answer {truth!r:.80} is not an integer; use the answer type 'number'")
    return number if kind == "integer" else float(number)


def fill_declared(fields: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return declared fields with mapped values for each `{column: NAME}`. Raises `NoAnswer` if one is not mapped. A
    field without a type gets the type `str` if its ground truth becomes a string.
    """
    from karenina_benchmark.template_declarations import fill_columns

    try:
        filled = fill_columns(fields, values)
    except KeyError as error:
        names = ", ".join(values)
        raise NoAnswer(f"no mapped value is named {error.args[0]!r}; the mapped values are {names}") from error
    for name, declared in fields.items():
        from_column = isinstance(declared, Mapping) and isinstance(declared.get("ground_truth"), Mapping)
        if from_column and "type" not in declared and isinstance(filled[name].get("ground_truth"), str):
            filled[name] = {"type": "str", **filled[name]}  # otherwise the type would depend on the row
    return dict(filled)
