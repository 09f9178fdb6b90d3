"""Reads ontologies in OBO and OWL with pronto, without following their imports."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from karenina_toolkit.files.bounded_files import FileError, open_file

SUFFIXES: Final = (".obo", ".owl")
_COMPRESSED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")
_RELATED: Final = ("BROAD", "NARROW", "RELATED")


class Term(NamedTuple):
    """The names of a term in an ontology."""

    identifiers: list[str]
    name: str
    synonyms: list[str]
    related: list[str]


def read_ontology(path: Path) -> Iterator[Term]:
    """Yield the terms of an OBO or OWL file, except those that are obsolete or have neither a name nor a synonym.
    Imported ontologies are not read. Raises `FileError` if the file is compressed, invalid or cannot be read.
    """
    from pronto.ontology import Ontology

    with open_file(path, any_size=True) as file:
        content = file.read()
    if content.startswith(_COMPRESSED):
        raise FileError(path, "", "the file is compressed", "unpack it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about axioms that are not needed here
            ontology = Ontology(BytesIO(content), import_depth=0, threads=1)
    except BaseException as error:  # the parsers of pronto raise many kinds
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of a parser in Rust
            raise
        what = f"the file is not a valid ontology: {type(error).__name__}: {error}"
        raise FileError(path, "", what, "correct the file, or write the names into a CSV file") from error
    for term in ontology.terms():
        if term.obsolete or not (term.name or term.synonyms):
            continue
        found: dict[bool, list[str]] = {True: [], False: []}
        for synonym in term.synonyms:
            found[synonym.scope in _RELATED].append(synonym.description)
        yield Term([term.id, *term.alternate_ids], term.name or "", found[False], found[True])
