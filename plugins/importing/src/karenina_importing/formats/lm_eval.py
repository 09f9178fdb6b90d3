"""lm-evaluation-harness samples: `samples_TASK_DATE.jsonl`, written by `--log_samples`.

Each line is a document of the task with its requests and the model's replies, repeated for each filter. The tool writes
the target as text, so a list of correct answers (`['Paris', 'paris']`) is converted back to a list. Each row gets an
additional key `request`, which contains the text of the first request, or its messages if a chat template was applied.
In a multiple-choice task, the target is the index of an option, and the options are the continuations of the requests.
The target is converted to the option's letter, and the row gets an additional key `options`. If the continuations are
just letters, the document or the request contains the options. In WinoGrande, the requests are the sentence with each
option, and the target is the rest of the sentence; the document states the right option. A target that is only a
placeholder is left out. In
DROP, each item of the target is a tuple of the spans that an answer needs (`[('Paris',), ('Paris', 'Rome')]`).
If all targets in a file are labelled strings separated by a delimiter (`PER: Ada $$ LOC: Lima`), each target is read as
a list, and an empty target as an empty list.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from string import ascii_uppercase
from typing import Any, Final

from karenina_benchmark.tables.answer_kinds import Cell
from karenina_benchmark.tables.column_roles import TRUTH
from karenina_benchmark.tables.declare_answers import declare_answers
from karenina_benchmark.tables.lettered_options import read_options
from karenina_importing.answer_fields import declare_graded
from karenina_importing.field_mapping import FieldMapping, find_first
from karenina_importing.formats.structured_values import as_list, as_mapping, as_messages
from karenina_importing.import_format import Fit, make_import_format
from karenina_importing.source_files import FileHead, SourceRow, read_lines

_ESCAPE: Final = r"""\\(?:[\\'nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|U000[0-9a-f]{5})"""
_TEXT: Final = rf"""(?:'(?:[^'\\\n]|{_ESCAPE})*'|"(?:[^"\\\n]|{_ESCAPE})*")"""
_LIST: Final = re.compile(rf"\[{_TEXT}(?:, {_TEXT})*\]")
"""Matches a list of strings in Python notation."""
_TUPLE: Final = rf"\(\s*{_TEXT}(?:, {_TEXT})*,?\)"
_TUPLES: Final = re.compile(rf"\[{_TUPLE}(?:, {_TUPLE})*\]")
"""Matches a list of tuples of strings in Python notation, as in DROP."""
_LABELLED: Final = re.compile(r"[A-Z][A-Z_-]{1,19}: ?\S.*")
_MARK: Final = "$$"
_FIRST_ROWS: Final = 1000
"""The number of rows whose targets decide whether targets are lists of labelled strings."""
_ENTITIES: Final = "All entities that the response names, each once and written as LABEL: entity"
_LISTS: Final = (
    "The targets are lists of labelled strings (`LABEL: entity`); a response is correct only if "
    "it contains exactly the listed items, in any order, with no partial credit"
)
_REQUESTS: Final = (("gen_args_0", "arg_0"), (0, 0))
"""The paths to the first request in files written by new and old versions."""
_QUESTIONS: Final = (
    "asked",
    "doc.question",
    "doc.query",
    "doc.problem",
    "doc.prompt",
    "doc.instruction",
    "doc.input",
    "request",
)
_SHORTEST_PASSAGE: Final = 40
_GREEDY: Final = ("['True']", "['False']", "[True]", "[False]")
_PLACES: Final = re.compile(r"-?[0-9]+|\[[0-9, ]*\]")
_OPTIONS: Final = ("doc.choices", "doc.options", "doc.endings")
_PROGRAMS: Final = {
    "instruction_id_list": "instruction check",
    "entry_point": "unit tests",
    "test_list": "unit tests",
}
"""The keys of documents whose replies a program checks, so that the target is a placeholder or the program."""


def _detect(head: FileHead) -> Fit:
    """Return whether the first line of a file is a sample."""
    keys = head.record.keys()
    is_sample = {"doc_id", "doc"} <= keys and bool({"resps", "filtered_resps", "arguments"} & keys)
    return Fit.YES if is_sample else Fit.NO


def _rows(path: Path) -> Iterator[SourceRow]:
    """Yield a row for each document. Only the lines for its first filter are read, because those for others have the
    same replies. A line that cannot be read becomes a row with a problem.
    """
    filters: dict[str, object] = {}
    are_lists = _are_labelled([row.values.get("target") for row in islice(read_lines(path), _FIRST_ROWS)])
    for row in read_lines(path):
        id = str(row.values.get("doc_id"))
        name = row.values.get("filter")
        if row.problem:
            yield row
        elif name is None or filters.setdefault(id, name) == name:
            added = {"target": _target(row.values), "request": _request(row.values.get("arguments"))}
            values = {**row.values, **{key: value for key, value in added.items() if value}}
            values |= _multiple_choice(values)
            if _requests(values.get("arguments")) == [[row.values.get("target")]]:
                values.pop("resps", None)  # the likelihood of a text, not an answer
            if _are_likelihoods(values.get("resps")):
                values["unanswered"] = "the model was asked for likelihoods only, not for an answer"
            notes = _lacking(values)
            program = next((what for key, what in _PROGRAMS.items() if key in as_mapping(values.get("doc"))), None)
            if program is not None:
                values.pop("target", None)
                yield SourceRow(row.place, values, left_out=[program], notes=notes)
                continue
            target = row.values.get("target")
            items = _items(target) if are_lists and isinstance(target, str) else None
            if items is not None:
                yield SourceRow(row.place, values, question={"answer": _declare(items)}, notes=[*notes, _LISTS])
            elif spans := _spans(values):
                values["target"], question = _declare_spans(spans)
                yield SourceRow(row.place, values, question=question, notes=notes)
            elif values.get("target") == target and _is_placeholder(target, as_mapping(values.get("doc"))):
                values.pop("target")
                yield SourceRow(row.place, values, left_out=["target that is not an answer"], notes=notes)
            else:
                is_lost = target is not None and values["target"] is None
                lost = ["target that is not the index of one option"] if is_lost else []
                yield SourceRow(row.place, values, left_out=lost, notes=notes)


def _are_labelled(targets: Sequence[Any]) -> bool:
    """Return whether all targets that are strings are labelled strings, at least one of them with a delimiter."""
    texts = [target for target in targets if isinstance(target, str)]
    return any(_MARK in text for text in texts) and all(_items(text) is not None for text in texts)


def _items(target: str) -> list[str] | None:
    """Return the distinct labelled strings in a target, or None if it contains any other text. An empty target gives an
    empty list.
    """
    parts = [part.strip() for part in target.split(_MARK) if part.strip()]
    return list(dict.fromkeys(parts)) if all(map(_LABELLED.fullmatch, parts)) else None


def _declare(items: list[str]) -> dict[str, Any]:
    """Return a dict with the single field of a template that requires all labelled strings in `items` to be found."""
    rule = {"type": "SetContainment", "mode": "exact", "normalize": ["lowercase", "strip"]}
    return {
        "entities": {"type": "list[str]", "description": _ENTITIES, "ground_truth": items, "verify_with": rule},
    }


def _target(values: Mapping[str, Any]) -> Any:
    """Return the target. A list in Python notation is parsed, unless the document itself contains it as text."""
    target, document = values.get("target"), values.get("doc")
    if not isinstance(target, str) or not _LIST.fullmatch(target):
        return target
    if isinstance(document, Mapping) and target in document.values():
        return target
    try:
        return ast.literal_eval(target)
    except (ValueError, SyntaxError):  # such as an escape that is not a character
        return target


def _is_placeholder(target: Any, document: Mapping[str, Any]) -> bool:
    """Return whether a target is not an answer, but the text "None", which is not a text in the document, or the names
    of the parts of the document's answer, which the template of DROP joins.
    """
    if target == "None":
        return json.dumps(target) not in json.dumps(document)
    parts = as_mapping(document.get("answer"))
    return len(parts) > 1 and target == ",".join(map(str, parts))


def _spans(values: Mapping[str, Any]) -> list[list[str]]:
    """Return the correct answers of a document of DROP, each of which is a list of spans that are all needed, or an
    empty list for any other document. They are in the target or, if that is a placeholder, in the document.
    """
    target, document = values.get("target"), as_mapping(values.get("doc"))
    if isinstance(target, str) and _TUPLES.fullmatch(target):
        try:
            return [list(spans) for spans in ast.literal_eval(target)]
        except (ValueError, SyntaxError):
            return []
    answers = as_list(document.get("answers")) if _is_placeholder(target, document) else []
    are_spans = all(
        isinstance(spans, list) and spans and all(isinstance(span, str) for span in spans) for spans in answers
    )
    return [list(spans) for spans in answers] if are_spans else []


def _declare_spans(answers: list[list[str]]) -> tuple[list[str], dict[str, Any]]:
    """Return the correct answers as strings (one if all need the same spans), and the keys of the question that say how
    to check them, which are empty if each answer is a single span, because that is declared by its kind. If answers
    differ in which spans they need, a judge sees them.
    """
    shown = ["; ".join(spans) for spans in answers if any(span.strip() for span in spans)]
    distinct = {frozenset(span.strip().casefold() for span in spans): spans for spans in reversed(answers)}
    if all(len(spans) == 1 for spans in answers):
        return shown, {}
    if len(distinct) > 1:
        return shown, {"rubric": declare_graded(FieldMapping({}), shown)}
    (declared,) = declare_answers([Cell(answers[0])]).fields
    return shown[:1], {"answer": {TRUTH: declared}} if declared else {}


def _multiple_choice(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the letter of the right option as `target`, and the `options` if the document does not contain them, for a
    sample of a multiple-choice task. If only the request contains them, `asked` is the request; for WinoGrande, whose
    options fill a blank, it is the sentence. The target is None if it is unknown which option is right, or if several
    are. Returns an empty dict for any other sample.
    """
    texts = _continuations(values.get("arguments"))
    target, document = str(values.get("target")).strip(), as_mapping(values.get("doc"))
    if _is_in_all(target, values.get("arguments")):
        return _blank(document)
    if _are_several_right(texts, document):
        return {"target": None}
    is_place = target.isascii() and target.isdecimal() and len(target) < 3 and int(target) < len(texts)
    if target in texts and not (is_place and target not in document.values()):
        place = texts.index(target)
    elif is_place:
        place = int(target)
    else:
        has_options = len(pairs := _requests(values.get("arguments"))) > 1 and all(map(_is_scored, pairs))
        return {"target": None} if has_options and _PLACES.fullmatch(target) else {}
    letters = [*ascii_uppercase[: len(texts)]]
    right = {"target": letters[place]}
    if [text.strip("().") for text in texts] != letters:
        return {**right, "options": texts}
    if len(read_options(find_first(values, _OPTIONS))) == len(texts):
        return right
    return {**right, "options": letters, "asked": values.get("request")}


def _are_several_right(texts: Sequence[str], document: Mapping[str, Any]) -> bool:
    """Return whether an object in the document labels more than one of the options as right, as in TruthfulQA."""
    for value in map(as_mapping, document.values()):
        choices = [str(choice).strip() for choice in as_list(value.get("choices"))]
        if texts and choices == [*texts] and list(as_list(value.get("labels"))).count(1) > 1:
            return True
    return False


def _is_in_all(target: str, arguments: Any) -> bool:
    """Return whether the target continues each of several different texts, which contain the options instead."""
    pairs = _requests(arguments)
    texts = {pair[1].strip() if len(pair) > 1 and isinstance(pair[1], str) else None for pair in pairs}
    return texts == {target} and len({str(pair[0]) for pair in pairs}) > 1


def _blank(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the question, the options and the letter of the right option of a document of WinoGrande, whose sentence
    has a blank for one of two options. For other documents, the target is None, because the right option is unknown.
    """
    asked, options = document.get("sentence"), [document.get("option1"), document.get("option2")]
    place = ("1", "2").index(str(document["answer"])) if str(document.get("answer")) in ("1", "2") else None
    if not isinstance(asked, str) or place is None or not all(isinstance(option, str) for option in options):
        return {"target": None}
    return {"asked": asked, "options": options, "target": ascii_uppercase[place]}


def _lacking(values: Mapping[str, Any]) -> list[str]:
    """Return a note if the request contains a longer text of the document, such as a passage, and the question does
    not.
    """
    question, request = find_first(values, _QUESTIONS), values.get("request")
    if not isinstance(question, str) or not isinstance(request, str):
        return []
    texts = {key: value.strip() for key, value in as_mapping(values.get("doc")).items() if isinstance(value, str)}
    lacking = [
        f"doc.{key}"
        for key, text in texts.items()
        if len(text) >= _SHORTEST_PASSAGE and text in request and text not in question
    ]
    what = f"the requests also contain {', '.join(lacking)}, which the documents' questions do not"
    return [f"{what}; --map question=request asks with the whole requests"] if lacking else []


def _continuations(arguments: Any) -> list[str]:
    """Return the continuations of the first request's text in all requests with this text. The list is empty if some
    request is not scored, if the continuations are not distinct, or if there are not 2 to 26 of them.
    """
    pairs = _requests(arguments)
    if not all(map(_is_scored, pairs)):
        return []
    texts = [pair[1].strip() for pair in pairs if pair[0] == pairs[0][0]]
    distinct = all(texts) and len(set(texts)) == len(texts)
    return texts if distinct and 1 < len(texts) <= len(ascii_uppercase) else []


def _is_scored(request: Sequence[Any]) -> bool:
    """Return whether a request asks for the likelihood of a continuation, not for an answer."""
    return len(request) > 1 and isinstance(request[1], str)


def _are_likelihoods(replies: Any) -> bool:
    """Return whether all replies are likelihoods of continuations, each with whether it is the most likely one."""
    pairs = [pair for reply in as_list(replies) for pair in as_list(reply)]
    return bool(pairs) and all(isinstance(pair, list) and str(pair[-1:]) in _GREEDY for pair in pairs)


def _requests(arguments: Any) -> list[Sequence[Any]]:
    """Return the arguments of each request in a sample."""
    requests = [*arguments.values()] if isinstance(arguments, Mapping) else as_list(arguments)
    return [[*request.values()] if isinstance(request, Mapping) else as_list(request) for request in requests]


def _request(arguments: Any) -> Any:
    """Return the text or messages of a sample's first request, or None if it has an unknown form."""
    for first, second in _REQUESTS:
        try:
            request = arguments[first][second]
        except (KeyError, IndexError, TypeError):
            continue
        if isinstance(request, list) and len(request) == 1 and isinstance(request[0], str):
            return as_messages(request[0])
        return request if isinstance(request, str) else None
    return None


LM_EVAL: Final = make_import_format(
    "lm-eval",
    "lm-evaluation-harness samples",
    _detect,
    _rows,
    FieldMapping(
        paths={
            "question": _QUESTIONS,
            "raw_answer": ("target",),
            "id": ("doc-{doc_id}",),
            "choices": ("options", *_OPTIONS),
            "keywords": ("doc.subject", "doc.category"),
            "response": ("resps.0",),
            "error": ("unanswered",),
        },
        metadata={"doc_hash": "doc_hash"},
    ),
)
"""lm-evaluation-harness samples."""
