"""Declares answer templates for a column of correct answers, depending on their kinds.

A judge sees the type and description of a field. These depend on the column, the kinds of answers in it, and the
question with its options, but never on the answer in the row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from karenina_benchmark.errors import nearest_key
from karenina_benchmark.tables.answer_kinds import (
    KINDS,
    Answer,
    Cell,
    ColumnKinds,
    Kind,
    Marks,
    cell_text,
    find_kinds,
    is_empty,
    is_other_boolean,
    read_as,
    read_marks,
)
from karenina_benchmark.tables.lettered_options import parse_list
from karenina_benchmark.tables.question_wording import (
    asked_unit,
    asks_to_compute,
    asks_true_or_false,
    asks_whether,
    offered_labels,
)
from karenina_core.plugins import active_plugins
from karenina_template.templates.primitives import (
    known_primitives,
    missing_pack,
    primitive_from_json,
    primitives_by_field_type,
)
from karenina_template.templates.primitives.date_parser import read_dates
from karenina_template.templates.primitives.quantity_parser import read_quantity
from karenina_template.templates.primitives.units import find_unit
from karenina_toolkit.folding import fold
from karenina_toolkit.printable import quantity, shorten

TEXT_ANSWER: Final = "The answer that the response gives, as a name, a number or a few words"
_TEXT: Final = "as a name, a number or a few words"
_DESCRIPTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "text": (TEXT_ANSWER, f"The {{}} that the response gives, {_TEXT}"),
    "text or number": (
        "The answer that the response gives, as a name, a number with its unit, or a few words",
        "The {} that the response gives, as a name, a number with its unit, or a few words",
    ),
    "number": (
        "The number that the response gives as its answer, with its unit, copied as it is written",
        "The {} that the response gives, a number with its unit, copied as it is written",
    ),
    "date": ("The date that the response gives as its answer", "The {} that the response gives, a date"),
    "yes or no": (
        "Whether the response answers the question with yes or true",
        "Whether the response says yes or true about the {}",
    ),
    "list": (
        f"The items that the response gives as its answer, each {_TEXT}",
        f"The items that the response gives as the {{}}, each {_TEXT}",
    ),
    "read": (
        "The answer that the response gives, copied as it is written, with its unit if it has one",
        "The {} that the response gives, copied as it is written, with its unit if it has one",
    ),
    "letter": (
        "The letter of the option that the response gives as its answer",
        "The letter of the option that the response gives as the {}",
    ),
}
"""For each kind, the description of a template's only field, and of one of several fields."""
_SHOWN_KINDS: Final[Mapping[Kind, tuple[str, str, str]]] = {
    "number": ("number, with or without a unit", "numbers, with or without units", "NumberWithUnit"),
    "read": ("answer of a named type", "answers of named types", "the rule of the type"),
    "date": ("date", "dates", "DateMatch"),
    "yes or no": ("yes or no", "yes or no", "BooleanMatch"),
    "list": ("list", "lists", "SetContainment, all items in any order"),
    "letter": ("letter of an option", "letters of options", "LiteralMatch"),
    "text": ("name or short text", "names or short texts", "ExactMatch"),
    "prose": ("sentence", "sentences", "ExactMatch, word for word"),
}
"""For each kind, its singular and plural for messages, and the rule that compares its answers."""
_ALTERNATIVES: Final = ("list of correct answers", "lists of correct answers", "ExactMatch, any of them")
_IN_RESPONSE: Final = re.compile(
    r"(?:.*_)?(?:must|should)_(?P<no>not_)?(?:include|contain|mention)s?(?:_(?:all|(?P<any>any)))?|"
    r"(?:.+_)?(?P<never>not_)?contains?(?:_(?:all|(?P<some>any)))?|"
    r"(?:required|expected|must_have)_(?:terms|keywords|phrases|substrings)"
)
"""Names of columns with texts that a response must or must not contain."""
_AFTER_SOLUTION: Final = "#### "
"""The marker before the correct answer, in the last line of a worked solution, as in GSM8K."""
_BOX: Final = re.compile(r"\\(?:boxed|fbox)(?:\s*\{|\s+([^\s${}]+)\$)")
"""The beginning of a box, or a box without braces, such as `\\boxed 5$`."""
_BRACE: Final = re.compile(r"\\.|[{}]", re.DOTALL)
"""A brace, or a sign with a backslash, such as an escaped brace."""
_MANY: Final = re.compile(
    r"(?:[a-z]+_)*(?:answers|aliases|references|truths|targets?|ideal)(?:_text)?|.*(?:acceptable|possible|valid).*",
    re.IGNORECASE,
)
_ALL: Final = re.compile(
    r"\b(?:list|name (?:all|the|two|three|four|five|\d)|(?:which|what are the) (?:two|three|four|five))\b",
    re.IGNORECASE,
)
_FEWEST_LABELS: Final = 3
_MOST_LABELS: Final = 20
_MOST_PROSE: Final = 0.05
_RANGE: Final = re.compile(r"[0-9][0-9.,]*\s?[\u2013\u2014]\s?[0-9][0-9.,]*")
"""Two numbers with a dash between them. With a hyphen, they may be a score or a code."""
_FORMULA: Final = re.compile(r"\\(?:[dt]?frac|sqrt|boxed|pi|cdot|times|infty|sin|cos|tan|log|ln|left|cup|binom)\b")
"""A command of LaTeX in a mathematical expression, which can be written in other ways."""
_STOPS: Final = ".\u3002"
_MONTH_OF_YEAR: Final = re.compile(r"(?!Mars |Marco )[^\W\d_]{3,12}\.?,? (?:of )?[1-9][0-9]{3}")
"""A month of a year, but not *Mars 2020*: months have no capital letter in French, nor *Marco* in Portuguese."""
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
"""The names that `strftime` writes in the C locale. In another locale, a template would be another one."""
_LABEL: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)*")
_FEW: Final = 20
_EXAMPLES: Final = 3
_LONGEST: Final = 60


@dataclass
class DeclaredAnswers:
    """The declared field for each answer in a column. It is None for answers without a field.

    `notes` has a line for each kind that was found. `warnings` lists answers that cannot be compared like the rest.
    `refused` explains why sentences are not compared, and is empty if there are none.
    """

    fields: list[dict[str, Any] | None]
    kinds: ColumnKinds
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refused: str = ""
    objects: str = ""
    """The explanation why objects are not compared. It is empty if there are none."""
    asks_the_question: bool = True
    """Whether the fields are about the question itself, because they have no subject or description."""


class WrongTypeError(ValueError):
    """Raised if an answer does not have the type specified in its row. `cure` says how to fix this."""

    def __init__(self, place: str, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.place, self.what, self.cure = place, what, cure


def holds_alternatives(column: str, questions: Iterable[str]) -> bool:
    """Return whether each item of a list in `column` is a correct answer by itself. The column's name must say so, and
    no question may ask for several items.
    """
    name = re.sub(r"[^a-z]+", "_", column.casefold()).strip("_")
    return _MANY.fullmatch(name) is not None and not any(_ALL.search(question) for question in questions)


def declare_answers(
    given: Sequence[Cell],
    *,
    types: Sequence[object] | None = None,
    any_of: bool = False,
    exact: bool = False,
    subject: str | None = None,
    descriptions: Sequence[str | None] | None = None,
    column: str = "",
) -> DeclaredAnswers:
    """Declare the field for each correct answer in a column, by its kind in `types` or, by default, the kind that is
    detected. Nothing is raised for answers that cannot be compared: they get no field, and the result says why. Raises
    `WrongTypeError` if a row specifies an unknown kind, or a kind that does not fit its answer. If `column` has a name
    like `must_include`, the cells contain strings to find in the response instead.

    `types` contains names in `answer_kinds.KINDS`. If `any_of` is set, each item of a list is a correct answer by
    itself. Otherwise, all items are needed. If `exact` is set, sentences are compared word for word. `subject` is what
    the field is about, such as *gene*, if a template has several fields. `descriptions` are the user's own
    descriptions. With strings to find, `any_of` depends on the name, and all other arguments are ignored.
    """
    name = re.sub(r"[^a-z]+", "_", column.casefold()).strip("_")
    if contained := _IN_RESPONSE.fullmatch(name):
        forbidden = bool(contained["no"] or contained["never"])
        return _declare_contained(given, forbidden=forbidden, any_of=bool(contained["any"] or contained["some"]))
    cells = [_without_solution(_unwrapped(cell) if any_of else cell) for cell in given]
    kinds = _find_alternatives(cells) if any_of else find_kinds(cells)
    if types is not None:
        marks = read_marks(cells)
        named = [_named_answer(cell, type, marks) for cell, type in zip(cells, types, strict=True)]
        answers = tuple(answer or detected for answer, detected in zip(named, kinds.answers, strict=True))
        kinds = ColumnKinds(answers, unfit=())
    done = DeclaredAnswers([], kinds, asks_the_question=subject is None and descriptions is None)
    prose = [at for at, detected in enumerate(kinds.answers) if detected.kind == "prose"]
    count = sum(kinds.counts.values())
    if prose and not exact and (count < _FEW or len(prose) > _MOST_PROSE * count):
        done.refused = _refusal(cells, prose, count)
    done.objects = _describe_objects(
        cells, [at for at, detected in enumerate(kinds.answers) if detected.kind == "object"], count
    )
    for at, (cell, answer) in enumerate(zip(cells, kinds.answers, strict=True)):
        declared = None if answer.kind == "prose" and done.refused else _declare(cell, answer, any_of=any_of)
        if declared is not None:
            alternatives = any_of and answer.kind == "list"
            own = descriptions[at] if descriptions is not None else None
            declared = {**declared, "description": own or _describe(answer.kind, kinds, subject, any_of=alternatives)}
        done.fields.append(declared)
    _report(done, cells, any_of=any_of)
    solved = sum(_without_solution(cell) is not cell for cell in given)
    if solved:
        done.notes.append(f"{_are(solved, 'answer')} the end of a worked solution, after '####' or in \\boxed{{}}")
    return done


def _declare_contained(cells: Sequence[Cell], *, forbidden: bool, any_of: bool) -> DeclaredAnswers:
    """Declare that a response contains all, any or none of the strings in each cell, ignoring case. If `forbidden` is
    set, it must contain none of them. If `any_of` is set, one of them is enough. A cell without strings gets no field.
    """
    done = DeclaredAnswers([], find_kinds(cells))
    one_of = forbidden or any_of
    what = "Whether the response contains one of the texts" if one_of else "Whether the response contains all texts"
    for cell in cells:
        value = parse_list(cell.value) if isinstance(cell.value, str) else cell.value
        items = value if isinstance(value, list) else [cell.value]
        texts = [text for item in items if not is_empty(item) and (text := _pattern_of(item))]
        pattern = "|".join(texts) if one_of else "".join([r"\A", *(f"(?=.*{text})" for text in texts)])
        rule = {"type": "TraceRegex", "pattern": pattern, "flags": ["IGNORECASE", "DOTALL"]}
        declared = {"type": "bool", "description": what, "ground_truth": not forbidden, "verify_with": rule}
        done.fields.append(declared if texts else None)
    count = sum(declared is not None for declared in done.fields)
    word = "must not contain" if forbidden else "must contain one of" if any_of else "must contain"
    done.notes.append(f"{quantity(count, 'answer')} with strings that the response {word} (TraceRegex)")
    return done


def _pattern_of(item: object) -> str:
    """Return the regular expression that finds the text of a cell, or of one of a list of cells, literally and
    anywhere in the response. The result is empty if there is nothing to search for.
    """
    alternatives = item if isinstance(item, list) else [item]
    patterns = [re.escape(cell_text(alternative).strip()) for alternative in alternatives if not is_empty(alternative)]
    return f"(?:{'|'.join(patterns)})" if len(patterns) > 1 else "".join(patterns)


def _without_solution(cell: Cell) -> Cell:
    """Return a cell with the correct answer at the end of a worked solution alone, or the cell itself."""
    if not isinstance(cell.value, str):
        return cell
    answer = final_answer(cell.value)
    return cell if answer == cell.value else replace(cell, value=answer)


def final_answer(text: str) -> str:
    r"""Return the correct answer of a worked solution: what follows `####` in its last line, as in GSM8K, or the
    content of its last `\boxed{...}`, as in MATH. Any other text is returned unchanged.
    """
    solution, _, last = text.rstrip().rpartition("\n")
    if solution and last.lstrip().startswith(_AFTER_SOLUTION):
        return last.lstrip().removeprefix(_AFTER_SOLUTION).strip()
    boxes = list(_BOX.finditer(text))
    if not boxes:
        return text
    box = boxes[-1]
    if box[1]:
        return box[1]
    depth = 1
    for brace in _BRACE.finditer(text, box.end()):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth == 0:
            return text[box.end() : brace.start()].strip() or text
    return text


def _unwrapped(cell: Cell) -> Cell:
    """Return a cell with a list that is written as text parsed. If it has only one distinct item, the item replaces the
    list.
    """
    items = parse_list(cell.value) if isinstance(cell.value, str) else cell.value
    if not isinstance(items, list):
        return cell
    different = list({cell_text(item).strip().casefold(): item for item in reversed(items)}.values())[::-1]
    return replace(cell, value=different[0] if len(different) == 1 else items)


def _find_alternatives(cells: Sequence[Cell]) -> ColumnKinds:
    """Return the kinds of a column of alternatives. Cells with a single answer have the kinds that they would have in a
    column without lists, so a number beside lists of names is still a number; a list of one item is a text.
    """
    kinds = find_kinds(cells)
    alone = find_kinds([replace(cell, value=None) if isinstance(cell.value, list) else cell for cell in cells])
    answers = []
    for cell, answer, single in zip(cells, kinds.answers, alone.answers, strict=True):
        found = answer if isinstance(cell.value, list) or answer.kind != "list" or len(answer.truth) > 1 else single
        is_item = found.kind == "list" and len(found.truth) == 1
        answers.append(replace(found, kind="text", truth=found.truth[0]) if is_item else found)
    return replace(kinds, answers=tuple(answers), kind="text" if kinds.kind == "list" else kinds.kind)


def _named_answer(cell: Cell, type: object, marks: Marks) -> Answer | None:
    """Read an answer as the kind specified in its row, or return None if the row specifies none. Raises
    `WrongTypeError` if there is no such kind, or if the answer cannot be read as this kind.
    """
    if type is None or not str(type).strip():
        return None
    name = str(type).strip().casefold()
    if name not in KINDS:
        active_plugins()  # which may add primitives
        if name in primitives_by_field_type():
            return _read_by_primitive(name, cell, marks)
        if (missing := missing_pack(name)) is not None:
            raise WrongTypeError(cell.place, f"the answer type {name!r} is not available", missing)
        by_rule = {rule.casefold(): of for of, rule in primitives_by_field_type().items()}
        types = [*KINDS, *by_rule.values()]
        nearest = nearest_key(name, [*types, *by_rule])
        cure = f"the types are {', '.join(dict.fromkeys([*KINDS.values(), *types]))}"
        if nearest is not None:
            cure = f"did you mean {by_rule.get(nearest, nearest)!r}?"
        cure += " (rename the column if it does not contain types of answers)"
        raise WrongTypeError(cell.place, f"unknown answer type {type!r:.40}", cure)
    answer = read_as(KINDS[name], cell, marks)
    if answer is None:
        what = f"the answer {cell_text(cell.value)!r:.60} is not of type {KINDS[name]!r}"
        raise WrongTypeError(cell.place, what, "correct the answer or the type, or leave the type empty")
    return answer


def _read_by_primitive(field_type: str, cell: Cell, marks: Marks) -> Answer:
    """Return an answer of a type that a primitive reads, such as quantity, or *empty* for an empty cell. The answer
    stays as written, but the primitive must be able to read it. Raises `WrongTypeError` if it cannot.
    """
    if is_empty(cell.value):
        return Answer("empty")
    answer = Answer("read", cell_text(cell.value).strip(), decimal=marks.decimal, field_type=field_type)
    rule = _rule_of_type(field_type, cell, answer)
    try:
        primitive_from_json(rule).check_expected(answer.truth)
    except ValueError as error:
        what = f"the answer {answer.truth!r:.60} is not of type {field_type!r}: {error}"
        raise WrongTypeError(cell.place, what, "correct the answer or the type, or leave the type empty") from error
    return answer


def _rule_of_type(field_type: str, cell: Cell, answer: Answer) -> dict[str, Any]:
    """Return the rule for an answer of a type that a primitive reads. If the primitive has parameters for them, the
    rule includes the question's unit and the column's decimal mark.
    """
    name = primitives_by_field_type()[field_type]
    rule: dict[str, Any] = {"type": name}
    parameters = known_primitives()[name].model_fields
    if "unit" in parameters and (unit := asked_unit(cell.question)) is not None:
        rule["unit"] = unit
    if "decimal" in parameters and answer.decimal != ".":
        rule["decimal"] = answer.decimal
    return rule


def _declare(cell: Cell, answer: Answer, *, any_of: bool) -> dict[str, Any] | None:
    """Declare the field for an answer, without its description. Returns None if it is empty or an object. If `any_of`
    is set, the items of a list are alternatives.
    """
    truth = answer.truth
    match answer.kind:
        case "empty" | "object":
            return None
        case "number":
            return {"type": "str", "ground_truth": truth, "verify_with": _number_rule(cell, answer)}
        case "read":
            rule = _rule_of_type(answer.field_type, cell, answer)
            return {"type": "str", "ground_truth": truth, "verify_with": rule}
        case "date":
            is_one = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", truth) is not None
            return {"type": "date" if is_one else "str", "ground_truth": truth, "verify_with": "DateMatch"}
        case "yes or no":
            return {"type": "bool", "ground_truth": truth, "verify_with": "BooleanMatch"}
        case "letter":
            labels = list(offered_labels(cell.question))
            return {"type": {"literal": labels}, "ground_truth": truth, "verify_with": "LiteralMatch"}
        case "list" if any_of:
            return {"type": "str", "ground_truth": truth[0], "verify_with": exact_match(truth)}
        case "list":
            rule = {"type": "SetContainment", "mode": "exact", "normalize": ["lowercase", "strip"]}
            return {"type": "list[str]", "ground_truth": truth, "verify_with": rule}
        case _:
            truths = [truth]
            if truth.isdigit() and truth.startswith("0") and asks_to_compute(cell.question):
                truths.append(truth.lstrip("0") or "0")  # as in AIME, whose answers have three digits
            truths += _forms_of_month(truth)
            return {"type": "str", "ground_truth": truth, "verify_with": exact_match(truths)}


def _forms_of_month(text: str) -> list[str]:
    """Return other ways to write a month of a year, such as *Mar 2024* and *2024-03* for *March 2024*, or an empty list
    for any other text.
    """
    readings = read_dates(f"1 {text}") if _MONTH_OF_YEAR.fullmatch(text) else ()
    if not readings:
        return []
    year, month = readings[0].at.year, readings[0].at.month
    name = _MONTHS[month - 1]
    forms = [f"{name} {year}", f"{name[:3]} {year}", f"{name[:3]}. {year}", f"{name}, {year}", f"{name} of {year}"]
    return [*forms, f"{year}-{month:02}", f"{month:02}/{year}", f"{month}/{year}"]


def exact_match(truths: Sequence[str]) -> Any:
    """Return the declaration of an `ExactMatch` for the first of the given ground truths, with all others as synonyms.
    The full stop at the end of a ground truth may be missing from the response.
    """
    first, *rest = (fold(truth).casefold().strip() for truth in truths)
    rest += [text.rstrip(_STOPS) for text in (first, *rest) if text.rstrip(_STOPS) and text[-1:] in _STOPS]
    others = {other: first for other in rest if other not in ("", first)}
    if not others:
        return "ExactMatch"
    return {"type": "ExactMatch", "normalize": ["lowercase", "strip", {"type": "SynonymMap", "mapping": others}]}


def _number_rule(cell: Cell, answer: Answer) -> Any:
    """Return the rule for a number, which is `NumberWithUnit`, with the question's unit if the number has none. If the
    question names a known unit and a plugin's rule for quantities accepts the number, that rule is returned instead.
    """
    truth, unit = read_quantity(answer.truth, answer.decimal), asked_unit(cell.question)
    if unit is not None and find_unit(unit) is not None and "quantity" in primitives_by_field_type():
        rule = _rule_of_type("quantity", cell, answer)
        with suppress(ValueError):
            primitive_from_json(rule).check_expected(answer.truth)
            return rule
    unit = unit if truth is not None and not truth.unit else None
    options = {**({"unit": unit} if unit else {}), **({} if answer.decimal == "." else {"decimal": answer.decimal})}
    return {"type": "NumberWithUnit", **options} if options else "NumberWithUnit"


def _describe(kind: Kind, kinds: ColumnKinds, subject: str | None, *, any_of: bool) -> str:
    """Describe a field, in the same way for all texts and numbers in a column. If `any_of` is set, any item of a list
    is accepted. `subject` is what the field is about, or None for a single field.
    """
    if any_of or kind in ("number", "text", "prose"):
        has_numbers = kinds.counts["number"] > 0
        key = "number" if kinds.kind == "number" else "text or number" if has_numbers else "text"
    else:
        key = kind
    alone, of_several = _DESCRIPTIONS[key]
    return alone if subject is None else of_several.format(subject.replace("_", " "))


def _refusal(cells: Sequence[Cell], prose: Sequence[int], count: int) -> str:
    """Return the reason why answers cannot be compared: those at the positions in `prose` are sentences. `count` is the
    total number of answers.
    """
    what = "is the sentence" if len(prose) == 1 else "are sentences such as"
    return (
        f"{len(prose)} of {quantity(count, 'answer')} {what} {_examples(cells, prose[:1])}, which no response is "
        "likely to repeat word for word"
    )


def _report(done: DeclaredAnswers, cells: Sequence[Cell], *, any_of: bool) -> None:
    """Add notes to `done` about the kinds that were found, and warnings about answers that probably have another
    meaning.
    """
    kinds = done.kinds
    for kind, count in kinds.counts.most_common():
        if kind != "object" and (kind != "prose" or not done.refused):
            one, several, rule = _ALTERNATIVES if kind == "list" and any_of else _SHOWN_KINDS[kind]
            first = [at for at, answer in enumerate(kinds.answers) if answer.kind == kind][:1]
            if kind in ("number", "read"):
                rule = _names_of_rules(
                    done.fields[at] for at, answer in enumerate(kinds.answers) if answer.kind == kind
                )
            example = f", such as {_examples(cells, first)}" if kind == "text" else ""
            done.notes.append(f"{count:,} {one if count == 1 else several} ({rule}){example}")
    if any(answer.decimal == "," for answer in kinds.answers):
        done.notes.append("commas in numbers are read as decimal commas, so 1,234 means 1.234")
    if kinds.kind is not None and kinds.unfit:
        others = _SHOWN_KINDS[kinds.kind][1]
        what = f"{_are(len(kinds.unfit), 'answer')} compared as text although most answers are {others}"
        done.warnings.append(
            f"{what}: {_examples(cells, kinds.unfit)}; correct the answers that should be {others} too"
        )
    prose = [at for at, answer in enumerate(kinds.answers) if answer.kind == "prose" and at not in kinds.unfit]
    if prose and not done.refused:
        what = f"{_are(len(prose), 'sentence')} compared word for word, although hardly any response will match"
        done.warnings.append(f"{what}: {_examples(cells, prose)}")
    booleans = [
        at
        for at, answer in enumerate(kinds.answers)
        if answer.kind == "yes or no" and not is_other_boolean(cells[at].value)
    ]
    asking = sum(_asks_yes_or_no(cells[at].question) for at in booleans)
    if booleans and done.asks_the_question and 2 * asking < len(booleans):
        done.warnings.append(
            "the judge is asked whether the response answers the question with yes or true, but most questions "
            "are not yes-or-no questions. If the column is about something else, describe it with --columns "
            "answer.NAME=COLUMN,description.NAME=COLUMN (`karenina check` and `run`) or a `description` (YAML "
            "file)"
        )
    labels = _unasked_labels(kinds, cells)
    if labels:
        done.warnings.append(
            f"the answers are labels ({shorten(', '.join(labels), _LONGEST)}) that no question mentions, so hardly "
            "any response contains them; list the labels in the questions, and ask for one of them"
        )
    texts = [at for at, answer in enumerate(kinds.answers) if answer.kind == "text" and at not in kinds.unfit]
    if booleans_as_text := [at for at in texts if is_other_boolean(cells[at].value)]:
        what = f"{_are(len(booleans_as_text), 'answer')} compared as text: {_examples(cells, booleans_as_text)}"
        done.warnings.append(
            f"{what}; to compare yes or no, write `yes/no` in a `type` column, or use type: bool in YAML"
        )
    if ranges := [at for at in texts if _RANGE.fullmatch(kinds.answers[at].truth)]:
        what = f"{_are(len(ranges), 'answer')} compared as text: {_examples(cells, ranges)}"
        done.warnings.append(f"{what}; to compare a range of numbers, write it with *to*, such as `10 to 12`")
    commas = [
        at
        for at, answer in enumerate(kinds.answers)
        if answer.kind == "text" and re.search(r",\s|\band\b", answer.truth) and _ALL.search(cells[at].question)
    ]
    if commas:
        what = (
            f"{_are(len(commas), 'answer')} compared as a single string although the question asks for several items: "
        )
        cure = "separate the items with semicolons, or write `list` in a `type` column"
        done.warnings.append(f"{what}{_examples(cells, commas)}; {cure}")
    formulas = [
        at for at, answer in enumerate(kinds.answers) if answer.kind == "text" and _FORMULA.search(answer.truth)
    ]
    if formulas:
        what = f"{_are(len(formulas), 'LaTeX expression')} compared as text, so 1/2 does not match \\frac{{1}}{{2}}"
        cure = (
            "to compare values, write `expression` in a `type` column, or use --map answer=expression with `karenina "
            "import` (plugin karenina-math)"
        )
        done.warnings.append(f"{what}: {_examples(cells, formulas)}; {cure}")
    nested = [
        at
        for at, answer in enumerate(kinds.answers)
        if (answer.kind == "text" or (answer.kind == "prose" and not done.refused))
        and isinstance(cells[at].value, list)
    ]
    if nested:
        what = (
            f"{_are(len(nested), 'answer')} compared as a single string although the cell contains several values: "
            f"{_examples(cells, nested)}"
        )
        done.warnings.append(f"{what}; give each value its own column answer.NAME")
    two = [at for at, answer in enumerate(kinds.answers) if answer.kind == "date" and len(read_dates(answer.truth)) > 1]
    if two:
        what = f"{quantity(len(two), 'answer')} could be either of two dates: {_examples(cells, two)}"
        done.warnings.append(
            f"{what}; the month was assumed to come first. To avoid ambiguity, write dates as 2024-01-31"
        )
    placeholders = [
        at
        for at, answer in enumerate(kinds.answers)
        if answer.kind == "empty" and cells[at].value not in (None, "", [])
    ]
    if placeholders:
        what = (
            f"found {quantity(len(placeholders), 'placeholder')} in place of an answer: "
            f"{_examples(cells, placeholders)}"
        )
        done.warnings.append(f"{what}; no template was made for such questions")


def _names_of_rules(fields: Iterable[dict[str, Any] | None]) -> str:
    """Return the names of the primitives that compare the given fields, with the most frequent first."""
    rules = [declared["verify_with"] for declared in fields if declared is not None]
    names = Counter(rule if isinstance(rule, str) else rule["type"] for rule in rules)
    return " or ".join(name for name, _ in names.most_common())


def _describe_objects(cells: Sequence[Cell], objects: Sequence[int], count: int) -> str:
    """Describe how many of `count` answers are objects or lists of several values, with an example. `objects` contains
    the indexes of their `cells`. If there are none, the result is an empty string.
    """
    if not objects:
        return ""
    what = "is an object or a list of several" if len(objects) == 1 else "are objects or lists of several"
    return f"{len(objects)} of {quantity(count, 'answer')} {what} values such as {_examples(cells, objects[:1])}"


def _asks_yes_or_no(question: str) -> bool:
    """Return whether a question is answered with yes or no, or true or false, or is empty."""
    return not question or asks_whether(question) or asks_true_or_false(question)


def _unasked_labels(kinds: ColumnKinds, cells: Sequence[Cell]) -> list[str]:
    """Return the labels in a column, such as *late_delivery*, if no question mentions any of them. Only answers of the
    kind `text` are considered. The list is empty if one of them is not a label, if there are fewer than 3 of them or
    more than 20 labels, or if no label has an underscore.
    """
    texts = [
        (answer.truth, cell.question)
        for answer, cell in zip(kinds.answers, cells, strict=True)
        if answer.kind == "text"
    ]
    labels = list(dict.fromkeys(truth for truth, _ in texts))
    if len(texts) < _FEWEST_LABELS or len(labels) > _MOST_LABELS or not any("_" in label for label in labels):
        return []
    is_asked = any(label in question for _, question in texts for label in labels)
    return [] if is_asked or not all(_LABEL.fullmatch(label) for label in labels) else labels


def _are(count: int, noun: str) -> str:
    return f"{quantity(count, noun)} {'is' if count == 1 else 'are'}"


def _examples(cells: Sequence[Cell], places: Sequence[int]) -> str:
    """Return the first three cells at `places`, up to 60 characters each, and the number of further places."""
    shown = [
        f"{shorten(cell_text(cells[at].value), _LONGEST)!r}{f' ({cells[at].place})' if cells[at].place else ''}"
        for at in places[:_EXAMPLES]
    ]
    more = len(places) - _EXAMPLES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
