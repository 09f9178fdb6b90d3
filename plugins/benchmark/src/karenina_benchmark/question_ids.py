"""Short ids for questions without one, and fast reading of the question ids in a file for shell completion.

Because completion has to be fast, only the first 2 MB of a file are read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from karenina_benchmark.tables.column_roles import ID, QUESTION, find_role
from karenina_toolkit.files import LINES, read_records

_WORD: Final = re.compile(r"[^\W_]+")
_MAX_WORDS: Final = 3
_MAX_CHARACTERS: Final = 24


def make_question_id(position: int, text: str) -> str:
    """Make an id from a question's position in its file (from 1) and its first words, for example `q1-which-gene-is`.

    Questions that start with the same words differ by their position. Up to three words are used, with at most 24
    characters in total.
    """
    words = [match[0].lower() for match in _WORD.finditer(text[:500])][:_MAX_WORDS]
    while len(words) > 1 and len("-".join(words)) > _MAX_CHARACTERS:
        words.pop()
    return "-".join([f"q{position}", *(word[:_MAX_CHARACTERS] for word in words)])


def identify_text(text: str, attachments: Iterable[object] = ()) -> str:
    """Return a key that two questions share if they have the same text and attachments, as written in the file."""
    return "\0".join([text, *map(str, attachments)])


MAX_BYTES: Final = 2_000_000

_NAMES: Final = (ID, QUESTION)
_ITEM: Final = re.compile(r"\n(?=- |  - )")
_ITEM_ID: Final = re.compile(r'"@type":\s*"DataFeedItem",\s*"@id":\s*"([^"\\]+)"')
_SLOW_YAML: Final = 100_000
"""The number of characters to read if PyYAML was built without its C library."""


def read_question_ids(path: Path) -> list[str]:
    """Return the ids of the questions in a file, in order, without loading the benchmark. Some ids may be missing if
    the file is larger than 2 MB, and all of them for formats other than YAML, JSON-LD, JSON lines, CSV and TSV. Nothing
    is executed and no other file is opened. Any exception may be raised if the file cannot be read, or is not a
    benchmark.
    """
    if not path.is_file():
        raise FileNotFoundError(path)
    suffix = path.suffix.lower()
    if suffix in (*LINES, ".csv", ".tsv"):
        return list(dict.fromkeys(_ids_of(_read_rows(path))))
    with path.open("rb") as file:
        data = file.read(MAX_BYTES)
        whole = not file.read(1)
    text = data.decode("utf-8-sig", "strict" if whole else "ignore")
    read = {".yaml": _read_yaml, ".yml": _read_yaml, ".json": _read_checkpoint, ".jsonld": _read_checkpoint}
    return list(dict.fromkeys(read[suffix](text, whole))) if suffix in read else []


def _read_yaml(text: str, whole: bool) -> Iterable[str]:
    """Return the question ids in YAML. Unless `whole` is set, the text is incomplete, so the last item is skipped.
    Without PyYAML's C library, only the first 100,000 characters are read. Raises `ValueError` if the YAML is invalid.
    """
    import yaml

    loader = getattr(yaml, "CBaseLoader", None)
    if loader is None and len(text) > _SLOW_YAML:
        text, whole = text[:_SLOW_YAML], False
    if not whole:
        text = text[: max((match.start() for match in _ITEM.finditer(text)), default=0)]
    try:
        document = yaml.load(text, loader or yaml.BaseLoader)  # noqa: S506 - it builds texts, lists and tables only
    except yaml.YAMLError as error:
        raise ValueError("the file is not valid YAML") from error
    return _ids_of(document.get("questions") or ()) if document is not None else ()


def _read_checkpoint(text: str, whole: bool) -> Iterable[str]:
    """Return the question ids in a checkpoint or in JSON rows. Unless `whole` is set, the text is incomplete and is
    searched for ids instead of being parsed.
    """
    if not whole:
        return _ITEM_ID.findall(text)
    document = json.loads(text)
    if isinstance(document, list):  # rows of a table
        rows = [row for row in document if isinstance(row, Mapping)]
        return _ids_of({name: row.get(find_role(row, name) or "") for name in _NAMES} for row in rows)
    return [str(item["@id"]) for item in document.get("dataFeedElement", ()) if item.get("@id")]


def _read_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the id and question of each row in the first 2 MB of a file. Rows with a key `karenina` are skipped."""
    read = 0
    with read_records(path, any_size=True) as records:
        for record in records:
            read += len(str(record.value))
            if read > MAX_BYTES:
                return
            if "karenina" not in record.values:
                yield {name: record.get(find_role(record.values, name) or name) for name in _NAMES}


def _ids_of(questions: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Return the ids of questions. Questions without one get the same id as when the file is loaded."""
    return [
        str(question.get("id") or make_question_id(position, str(question.get("question") or "")))
        for position, question in enumerate(questions, 1)
    ]
