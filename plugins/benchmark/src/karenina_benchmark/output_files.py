"""Files of outputs for `karenina judge`, which contain rows of outputs or a single conversation.

Outputs may come with or without questions. A conversation is JSON from another program, or a transcript with headings
or roles.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from karenina_benchmark.evaluation import Output
from karenina_benchmark.tables.column_roles import (
    ID,
    QUESTION,
    RESPONSE,
    TRUTH,
    choose_roles,
    fold_name,
    ranked_columns,
)
from karenina_core.errors import ConfigError
from karenina_toolkit.answers.answer_keys import NO_QUESTION
from karenina_toolkit.files import (
    AUTO,
    LINES,
    SUFFIXES,
    Record,
    bounded_files,
    find_column,
    plain_cell,
    read_json,
    read_records,
)
from karenina_toolkit.traces import (
    END_KEYS,
    TraceFormatError,
    add_end,
    convert_recording,
    is_conversation,
    is_delimited,
    is_transcript,
    parse_conversation,
    parse_json_conversation,
)

Conversation = Sequence[Mapping[str, Any]] | Mapping[str, Any]
_REPLIES: Final = ("assistant", "ai", "model", "message")


def find_in_text(path: Path, text: str) -> Conversation | None:
    """Return the conversation in `text`, the contents of the file at `path` (JSON, or text with headings or roles), or
    None for any other text. Raises `ConfigError` if the text looks like a conversation but cannot be read.
    """
    document = parse_json_conversation(text)
    try:
        messages = parse_conversation(text) if document is None else convert_recording(document)
    except TraceFormatError as error:
        raise ConfigError([f"{path} contains a conversation that cannot be read: {error}"]) from None
    if document is not None:
        return cast("Conversation", document)
    return None if messages is None else [message.to_dict() for message in messages]


def find_in_document(path: Path, document: Any) -> Conversation | None:
    """Return the conversation in a JSON document, or None if it is a list of outputs. Raises `ConfigError` for anything
    else, such as an unknown format or a conversation without an answer. A list of messages or events is a conversation,
    too.
    """
    if isinstance(document, list):
        return find_in_rows(document, ())
    if is_conversation(document):
        return cast("Conversation", document)
    try:
        convert_recording(document)
        why = "it contains no answer"
    except TraceFormatError as error:
        why = str(error)
    raise ConfigError(
        [
            f"{path} is JSON, but not a conversation in a known format: {why}. Pass a list of outputs with "
            "`response`, or name that list with --rows. To judge the JSON as text, use a file whose name ends in "
            ".txt"
        ]
    )


def find_in_rows(rows: Sequence[Any], names: Collection[str]) -> Conversation | None:
    """Return `rows` if they are the messages or events of one conversation, or None if they are outputs. They are
    outputs if any row is not an object or has a key in `names`, or if all rows are replies from a model.
    """
    if not all(isinstance(row, Mapping) and not row.keys() & set(names) for row in rows):
        return None
    if all(row.get("role", row.get("type")) in _REPLIES for row in rows):
        return None
    return rows if is_conversation(rows) else None


logger = logging.getLogger("karenina")
_DOCUMENT: Final = ".json"
_ANSWERS: Final = ("answer", "text")
"""More column names for outputs. In question tables, columns with these names are not outputs."""
_CONVERSATIONS: Final = ("messages", "trace")
_RESPONSE_KEYS: Final = "response, output, answer, text, trace, messages or completion"


def read_outputs(path: Path, columns: Mapping[str, str] | None = None) -> Iterator[Output]:
    """Yield the outputs in a file, which is read only when they are requested. Raises `ConfigError`, with the line, if
    the file or an output cannot be read, or if `columns` contains other names or does not apply to the file.

    A `.jsonl` file contains one output per line, and a `.json` file contains a list of outputs. An output is a JSON
    string, an object that is itself a conversation, or an object with `response` (or output, answer, text, trace,
    messages, completion, or a name used by another tool) and optionally `id` and `question`. A table (`.csv`, `.tsv`,
    `.xlsx`, `.parquet`) has columns with these names, in upper or lower case. Any other file, or a file with a single
    conversation, is one output, whose id is the name of the file.

    `columns` maps `response`, `id` and `question` to other names, and may contain `rows`, `sheet` and `encoding` for
    `karenina_toolkit.files.read_records`.
    """
    mapped = dict(columns or {})
    for name in mapped:
        if name not in (RESPONSE, ID, QUESTION, "rows", "sheet", "encoding"):
            raise ConfigError([f"cannot map {name!r}; for outputs, --columns maps only response, id and question"])
    try:
        if path.suffix.lower() == _DOCUMENT and "rows" not in mapped:
            conversation = find_in_document(path, read_json(path, surrogates=True))
            yield from _read_rows(path, mapped) if conversation is None else [Output(path.name, conversation)]
        elif path.suffix.lower() in SUFFIXES:
            yield from _read_rows(path, mapped)
        elif mapped:
            cure = "remove --columns, --rows, --sheet and --encoding, which apply only to tables and JSON"
            raise ConfigError([f"{path} is a single output; {cure}"])
        else:
            text = bounded_files.read_text(path)
            yield Output(path.name, find_in_text(path, text) or text)
    except bounded_files.FileError as error:
        raise ConfigError([str(error)]) from error


def _read_rows(path: Path, mapped: Mapping[str, str]) -> Iterator[Output]:
    """Yield the outputs in a file of rows, or a single output if the rows are the messages of one conversation.
    `mapped` contains the user's columns by role, and the options `sheet`, `rows` and `encoding`. Raises `ConfigError`
    if there are no rows or no outputs, and `FileError` if the file cannot be read.

    Logs warnings about the encoding, other sheets, and correct answers that are not used.
    """
    is_text = path.suffix.lower() in (*LINES, _DOCUMENT, ".csv", ".tsv")
    with read_records(
        path,
        sheet=mapped.get("sheet"),
        rows=mapped.get("rows"),
        encoding=mapped.get("encoding") or (AUTO if is_text else None),
        surrogates=True,
        keep_problems=path.suffix.lower() in LINES,
        package="karenina-benchmark",
    ) as records:
        if records.encoding_note:
            logger.warning("%s", records.encoding_note)
        for warning in records.warnings:
            logger.warning("%s", warning)
        if records.other_sheets:
            others = ", ".join(map(repr, records.other_sheets))
            logger.warning(
                "only the first sheet of %s was read, but other sheets also have rows: %s (use --sheet NAME)",
                path,
                others,
            )
        if records.columns and not (RESPONSE in mapped or _response_names(records.columns)):
            cure = (
                "rename the column that contains the outputs to `response`; the columns are "
                f"{', '.join(records.columns)}"
            )
            raise ConfigError([f"{path} has no `response` column; {cure}"])
        is_table = bool(records.columns)
        rows = list(records)
        cut = rows.pop() if len(rows) > 1 and rows[-1].problem is not None else None
        for row in rows:
            if row.problem is not None:
                raise row.problem
        if not rows:
            raise ConfigError([f"{path} contains no outputs"])
        objects = [row.value for row in rows if isinstance(row.value, Mapping)]
        if not is_table and RESPONSE not in mapped:
            names = {name for item in objects for name in _response_names(item)}
            conversation = find_in_rows([row.value for row in rows], names)
            if conversation is not None:
                if cut is not None:  # of a program that was killed while it wrote
                    logger.warning("%s cannot be read, and is taken as the end of a conversation that broke off", cut)
                    conversation = add_end(conversation, {"finish_reason": "error: the last line is cut off"})
                yield Output(path.name, conversation)
                return
        if cut is not None and cut.problem is not None:
            raise cut.problem
        if objects:
            _warn_about_truths(path, objects[0])
        yield from (_make_output(row, mapped, is_table=is_table) for row in rows)


def _response_names(columns: Any) -> list[str]:
    """Return the columns or keys that can contain an output, with the most specific one first."""
    names = list(map(str, columns))
    return [
        *ranked_columns(names, RESPONSE),
        *(name for wanted in _ANSWERS for name in names if fold_name(name) == wanted),
    ]


def _warn_about_truths(path: Path, values: Mapping[str, Any]) -> None:
    """Log a warning if the rows also contain correct answers, which are not used."""
    roles = choose_roles([str(name) for name in values], [values])
    truth = roles.get(TRUTH)
    if truth is not None and roles.get(RESPONSE) is not None:
        logger.warning(
            "%s: the correct answers in %r are not used; `karenina import` makes a benchmark and recordings from "
            "this file",
            path,
            truth,
        )


def _make_output(record: Record, mapped: Mapping[str, str], *, is_table: bool) -> Output:
    """Return the output in a record: a text, or a conversation that it contains or is. Cells other than lists become
    strings if `is_table` is set. If there is no id, it is made from the line number. If there is no question, it is
    `NO_QUESTION`. Raises `ConfigError` if there is no output, or if a column that the user has mapped is missing.
    """
    default = f"line-{record.number}"
    if isinstance(record.value, str):
        return Output(default, record.value)
    values = record.value
    if not isinstance(values, Mapping):
        raise ConfigError([f"{record} is neither a JSON string nor an object with `response`"])

    def get_all(names: list[str]) -> list[Any]:
        """Return the values in the given columns, without None. Table cells become strings, except for lists."""
        cells = [cell for name in names if (cell := record.get(name)) is not None]
        return [str(plain_cell(cell)) if is_table and not isinstance(cell, list) else cell for cell in cells]

    def named(role: str) -> list[str]:
        """Return the columns for a role, with the best one first. Raises `ConfigError` if a column that the user has
        mapped is missing.
        """
        if role in mapped:
            column = find_column(map(str, values), mapped[role])
            if column is None:
                raise ConfigError(
                    [f"{record} has no {mapped[role]!r}; the available names are {', '.join(map(str, values))}"]
                )
            return [column]
        if role == ID:  # question ids do not count: several models answer the same question
            column = find_column(map(str, values), ID)
            return [column] if column is not None else []
        return _response_names(values) if role == RESPONSE else ranked_columns(map(str, values), role)

    candidates = get_all(named(RESPONSE))
    response = next(
        (candidate for candidate in candidates if isinstance(candidate, str)), candidates[0] if candidates else None
    )
    if isinstance(response, str) and response in get_all(list(_CONVERSATIONS)):
        response = parse_json_conversation(response) or response
    if not is_table and RESPONSE not in mapped and not isinstance(response, str) and is_conversation(values):
        response = values
    if response is None:
        raise ConfigError(
            [f"{record} contains no output; add one of the keys {_RESPONSE_KEYS}, or write a conversation"]
        )
    id, question = (next(iter(get_all(named(role))), None) for role in (ID, QUESTION))
    if isinstance(response, str):
        response = add_end(response, {key: next(iter(get_all([key])), None) for key in END_KEYS})
    return Output(
        default if id in (None, "") else str(id),
        response,
        NO_QUESTION if question in (None, "") else str(question),
    )


def describe_conversations(outputs: Sequence[Output], path: Path) -> Iterator[str]:
    """Yield notes for the user about outputs that are conversations or look like them."""
    if len(outputs) == 1 and outputs[0].id == path.name and not isinstance(outputs[0].response, str):
        is_json = path.suffix.lower() in (_DOCUMENT, *LINES)
        cure = "" if is_json else " To judge the whole text, put it in the `response` of a row in a .jsonl file."
        yield f"{path} was read as one conversation, and its last answer is judged.{cure}"
    texts = {output.id: output.response for output in outputs if isinstance(output.response, str)}
    roles = [id for id, text in texts.items() if is_transcript(text)]
    headings = [id for id, text in texts.items() if is_delimited(text) and id not in roles]
    json_texts = [id for id, text in texts.items() if parse_json_conversation(text) is not None]
    for one, several, ids in (
        ("begins with a role (`User: ...`)", "begin with a role (`User: ...`)", roles),
        ("begins with the heading of a conversation", "begin with the heading of a conversation", headings),
        ("is a conversation in JSON", "are conversations in JSON", json_texts),
    ):
        if ids:
            yield (
                f"{len(ids)} of {len(outputs)} outputs {one if len(ids) == 1 else several} (first: {ids[0]}). The "
                "whole text is judged; to judge only the last answer, write the conversation as a list of messages, "
                "or put its JSON in `messages`."
            )
