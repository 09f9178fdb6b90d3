"""The page's items as JSON, with their files, and the index of items.

The index has a column for everything that the page can filter by. Small files are included as data; for others, the
page states why they are missing. Files are not trusted. A picture is recognized by its first bytes, not by its name,
and only if its type cannot contain code. Other files can be shown as text or saved. They are never opened in place of
the page.
"""

from __future__ import annotations

import base64
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any, Final

from karenina_core.data.outcome import Outcome
from karenina_core.text import compose
from karenina_engine.results.rates import is_number
from karenina_engine.results.result_text import field_rows, left_out_fields
from karenina_engine.results.tables import result_table
from karenina_report.attached_files import AttachedFiles, attachments_of
from karenina_report.runs import answer_id, truth_id
from karenina_toolkit.files.bounded_files import format_size
from karenina_toolkit.kept_files import picture_type
from karenina_toolkit.known_values import known_fields
from karenina_toolkit.printable import clean, quantity, shorten
from karenina_toolkit.shown_work import FORGEABLE, shown_checks, shown_patch

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult
    from karenina_core.data.sections import KeptFile
    from karenina_core.models.ports import Message
    from karenina_engine.offline.replay import SentPrompt
    from karenina_engine.results.kept_files import KeptFiles
    from karenina_engine.results.table_columns import Row
    from karenina_report.rules import FieldRules


Prompts = Mapping[str, "SentPrompt"]
"""Prompts by the keys of their calls."""
FIELD_COLUMNS: Final = frozenset({"field", "extracted", "known", "truth", "passed", "score", "reasoning"})
TRAIT_COLUMNS: Final = frozenset({"trait", "kind", "value", "label", "error", "reasoning"})
EXCERPT_COLUMNS: Final = frozenset({"of", "name", "text", "start", "end", "confidence", "similarity"})
"""The columns of the tables that the page shows: to make the others takes longer than these."""
_SHOWN_OF_CALL: Final = (
    *("stage", "task", "model", "port", "failed", "finish_reason", "input_tokens", "output_tokens", "seconds"),
)
CALL_COLUMNS: Final = frozenset({*_SHOWN_OF_CALL, "calls", "reply", "key"})
"""The columns of the table `calls` that the page uses."""


def make_item(
    result: VerificationResult, rules: FieldRules, calls: Iterable[Row], prompts: Prompts, files: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return a result as the JSON of an item on the page, with its fields, traits, calls and files.

    `rules` are the field rules of the result's template, and `calls` are the result's rows in the table `calls`.
    `prompts` contains the known prompts of these calls. `files` are the result's files, from `PageFiles.describe`.
    """
    values = result.model_dump(mode="json", exclude_none=True)
    undecided = result.undecided_fields()
    if values.get("evaluation_input") == result.template.raw_llm_response:
        del values["evaluation_input"]
    fields = list(result_table([result], "fields", FIELD_COLUMNS))
    truth = {str(row["field"]): str(row["truth"]) for row in fields if row["truth"] is not None}
    known = {
        name: f"{source}, found by a program{f': {value.why}' if value.why else ''}"
        for name, (source, value) in known_fields(result.template).items()
    }
    left_out = left_out_fields(result)
    excerpts: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in result_table([result], "excerpts", EXCERPT_COLUMNS):
        shown = {key: row[key] for key in ("text", "start", "end", "confidence", "similarity") if row[key] is not None}
        excerpts[str(row["of"]), str(row["name"])].append(shown)
    return {
        "result": values,
        "why": result.why(),
        "answer_id": answer_id(result) if result.template.raw_llm_response.strip() else None,
        "truth_id": truth_id(result.metadata.raw_answer, truth),
        "fields": [
            {
                "name": row["field"],
                "extracted": row["known"] if row["field"] in known else row["extracted"],
                "truth": row["truth"],
                "passed": "undecided" if row["field"] in undecided else row["passed"],
                "score": row["score"],
                "reason": known.get(str(row["field"])) or left_out.get(str(row["field"])) or row["reasoning"],
                "rule": rules.get(str(row["field"])),
                "excerpts": excerpts.get(("field", str(row["field"])), []),
            }
            for row in fields
        ],
        "traits": [
            {
                **{key: row[key] for key in ("kind", "value", "label", "error")},
                "name": row["trait"],
                "reason": row["reasoning"],
                "excerpts": excerpts.get(("trait", str(row["trait"])), []),
            }
            for row in result_table([result], "traits", TRAIT_COLUMNS)
        ],
        **({"files": files} if files else {}),
        **({"work": work} if (work := _make_work(result)) else {}),
        "calls": [_make_call(row, prompts.get(str(row["key"]))) for row in calls],
    }


def _make_work(result: VerificationResult) -> dict[str, Any]:
    """Return an agent's patch and the output of its checks for the page, or an empty dict if there are none."""
    patch = shown_patch(result)
    checks = [
        {
            "name": check.name,
            "ended": check.ended,
            "output": clean(check.output),
            **({"note": FORGEABLE} if check.has_report else {}),
        }
        for check in shown_checks(result)
    ]
    return {**({"patch": clean(patch)} if patch is not None else {}), **({"checks": checks} if checks else {})}


def _make_call(row: Row, prompt: SentPrompt | None) -> dict[str, Any]:
    """Return a journal's call as a JSON-compatible dict with its reply, and with its messages and request if `prompt`
    is known.
    """
    call: dict[str, Any] = {**{key: row[key] for key in _SHOWN_OF_CALL}, "reply": _reply_text(row)}
    if prompt is not None:
        call["messages"] = [_make_message(message) for message in prompt.messages]
        call["request"] = json.dumps(prompt.request, ensure_ascii=False, indent=2) if prompt.request else None
    return call


def _make_message(message: Message) -> dict[str, str]:
    """Return a message's role and text as a dict. Content that is not plain text, such as a tool call, becomes JSON in
    the text.
    """
    values = message.to_dict()
    content = values.pop("content", "")
    role = str(values.pop("role"))
    rest = {name: value for name, value in values.items() if value}
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return {"role": role, "text": "\n".join(filter(None, (text, json.dumps(rest, ensure_ascii=False) if rest else "")))}


def _reply_text(row: Row) -> str:
    """Return the text in a call's stored reply. If it has none, return the reply as JSON, without the keys of its turns
    and files, or unchanged if it is not valid JSON.
    """
    stored = str(row["reply"])
    try:
        reply = json.loads(stored)
    except ValueError:
        return stored
    if isinstance(reply, dict):
        reply.pop("turns", None)  # keys of the calls that are shown beside it
        reply.pop("kept_files", None)  # shown as files of the item
    text = reply.get("text") if isinstance(reply, dict) else None
    return text if isinstance(text, str) else json.dumps(reply, ensure_ascii=False, indent=2)


_MOST_OF_AN_ANSWER: Final = 160
_MOST_OF_A_VALUE: Final = 80


class ItemIndex:
    """The index of the page's items. Repeated strings are stored once."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in (
                *("run", "id", "question_id", "question", "outcome", "model", "judge", "keywords", "replicate"),
                *("passed", "granular", "seconds", "calls", "tokens", "flip", "answer", "extracted", "truth", "cost"),
            )
        }
        self._questions: dict[str, int] = {}
        self._outcomes: dict[str, int] = {}
        self._models: dict[str, int] = {}
        self._judges: dict[str, int] = {}
        self._keywords: dict[str, int] = {}
        self._values: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._columns["id"])

    def add(self, run: int, result: VerificationResult, cost: float | None) -> None:
        """Add a result of the run with the number `run` to the index, with its texts shortened and the `cost` of its
        calls in US dollars, or None if it is unknown.
        """
        meta, template = result.metadata, result.template
        usage = (template.usage_metadata or {}).get("total", {})
        granular = template.verify_granular_result
        rows = field_rows(result)
        single = len(rows) == 1
        extracted = (
            [_shortened_field(name, text, alone=single) for name, text, _, _ in rows]
            if template.parsed_llm_response or template.known_values
            else []
        )
        truths = [_shortened_field(name, text, alone=single) for name, _, text, _ in rows if text]
        values = {
            "run": run,
            "id": meta.result_id,
            "question_id": compose(meta.question_id),  # as in the comparison
            "question": _position(self._questions, meta.question_text),
            "outcome": _position(self._outcomes, result.outcome.value),
            "model": _position(self._models, meta.answering_id),
            "judge": _position(self._judges, meta.parsing_id),
            "keywords": [_position(self._keywords, keyword) for keyword in meta.keywords or ()],
            "replicate": meta.replicate or 1,
            "passed": template.verify_result,
            "granular": round(float(granular), 4) if is_number(granular) else None,
            "seconds": round(meta.execution_time, 3),
            "calls": usage.get("calls", 0),
            "tokens": usage.get("input_tokens", 0) + usage.get("output_tokens", 0),
            "answer": shorten(template.raw_llm_response[:_MOST_OF_AN_ANSWER], _MOST_OF_AN_ANSWER),
            "extracted": _position(self._values, "; ".join(extracted)),
            "truth": _position(self._values, "; ".join(truths) or shorten(meta.raw_answer or "", _MOST_OF_A_VALUE)),
            "cost": cost,
        }
        for name, value in values.items():
            self._columns[name].append(value)

    def to_json(self, flipped: Set[str]) -> dict[str, Any]:
        """Return the index and the strings that it refers to as a JSON-compatible dict, in which questions with an id
        in `flipped` are marked.

        `flipped` contains the ids of the questions whose verdict differs between runs.
        """
        flips = [int(id in flipped) for id in self._columns["question_id"]]
        ordered = [outcome for outcome in Outcome if outcome.value in self._outcomes]
        places = {self._outcomes[outcome.value]: place for place, outcome in enumerate(ordered)}
        return {
            "index": {
                **self._columns,
                "outcome": [places[place] for place in self._columns["outcome"]],
                "flip": flips,
            },
            "questions": list(self._questions),
            "outcomes": [{"name": outcome.value, "class": outcome.group} for outcome in ordered],
            "models": list(self._models),
            "judges": list(self._judges),
            "keywords": list(self._keywords),
            "values": list(self._values),
        }


def _shortened_field(name: str, text: str, *, alone: bool) -> str:
    """Return a field's name and text, each cut to 80 characters. `alone` omits the name."""
    shown = shorten(text, _MOST_OF_A_VALUE)
    return shown if alone else f"{shorten(name, _MOST_OF_A_VALUE)}: {shown}"


def _position(positions: dict[str, int], text: str) -> int:
    """Return the position of a string, adding it if it is new."""
    return positions.setdefault(text, len(positions))


MOST_OF_FILE: Final = 2_000_000
"""The maximum size of a file in the page, in bytes."""
MOST_OF_PAGE: Final = 20_000_000
"""The maximum total size of all files in the page, in bytes."""
_TOO_LARGE: Final = "the file is too large for the page"


class PageFiles:
    """The files on one page, up to a total of `MOST_OF_PAGE` bytes."""

    def __init__(self, attached: AttachedFiles) -> None:
        self._attached = attached
        self._used = 0
        self._missing: Counter[str] = Counter()

    def describe(self, result: VerificationResult, folders: KeptFiles | None) -> list[dict[str, Any]]:
        """Return the question's attachments and the result's files for the page, each with its contents, as far as
        `folders` has them and the page's limit allows, or with a note on why they are missing.

        `folders` is None for results in memory.
        """
        attached = [self._attached.describe(file) for file in attachments_of(result)]
        return [*attached, *(self._describe(kept, folders) for kept in result.metadata.files)]

    def problems(self) -> Iterator[str]:
        """Yield a message for each reason why files are missing from the page, with the number of files."""
        for why, count in self._missing.items():
            yield f"the contents of {quantity(count, 'file')} of items were left out: {why}"

    def _describe(self, kept: KeptFile, folders: KeptFiles | None) -> dict[str, Any]:
        """Return the data of a file for the page, with its contents or with a note on why these are missing. The size
        of the contents counts toward the limit of the page.
        """
        shown: dict[str, Any] = {"name": kept.name, "type": kept.media_type, "size": kept.size}
        if kept.left_out is not None:
            return {**shown, "note": f"left out by the run: {kept.left_out}"}
        if folders is None:
            return {**shown, "note": self._miss("the results are in memory and have no folder of files")}
        file = folders.find(kept)
        if file.problem is not None:
            return {**shown, "note": self._miss(file.problem)}
        size = len(file.content)
        if size > MOST_OF_FILE or self._used + size > MOST_OF_PAGE:
            limit = f"at most {format_size(MOST_OF_FILE)} per file and {format_size(MOST_OF_PAGE)} in total"
            self._miss(f"{_TOO_LARGE} ({limit})")
            return {**shown, "note": f"{_TOO_LARGE}; its path is {file.path}"}
        self._used += size
        data = base64.b64encode(file.content).decode("ascii")
        picture = picture_type(file.content)
        return {**shown, "data": data, "picture": picture, "text": picture is None and _is_text(file.content)}

    def _miss(self, why: str) -> str:
        """Count a file whose contents are missing, and return `why`."""
        self._missing[why] += 1
        return why


def _is_text(content: bytes) -> bool:
    """Return whether the content is valid UTF-8 without null characters."""
    try:
        return "\0" not in content.decode("utf-8")
    except UnicodeDecodeError:
        return False
