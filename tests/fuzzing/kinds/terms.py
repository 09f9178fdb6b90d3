"""Tables of terms in CSV, OBO and OWL, and values of `SameTerm`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from hypothesis import strategies as st

from fuzzing.engine import Kind
from fuzzing.mutation import TEXT_OPS, broken
from karenina_template.templates import Undecided
from karenina_terms.same_term import SameTerm

Table: TypeAlias = tuple[str, bytes, str]
"""The suffix of a table, its content, and a value."""

_CSV: Final = b"id,name,synonyms\nHGNC:11998,TP53,p53|LFS1\nHGNC:6407,KRAS,K-Ras\nHGNC:7989,NR3C1,GR\n"
_OBO: Final = b"""format-version: 1.4
import: http://127.0.0.1:9/none.obo

[Term]
id: HGNC:11998
name: TP53
synonym: "p53" EXACT []
synonym: "guardian" RELATED [PMID:1]

[Term]
id: HGNC:6407
name: KRAS
is_a: HGNC:11998 ! TP53
"""
_OWL: Final = b"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY obo "http://purl.obolibrary.org/obo/">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:owl="http://www.w3.org/2002/07/owl#"
  xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#" xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#">
<owl:Ontology rdf:about="&obo;demo.owl"><owl:imports rdf:resource="http://127.0.0.1:9/none.owl"/></owl:Ontology>
<owl:Class rdf:about="&obo;HGNC_11998"><rdfs:label>TP53</rdfs:label>
<oboInOwl:hasExactSynonym>p53</oboInOwl:hasExactSynonym></owl:Class>
</rdf:RDF>
"""
_SEEDS: Final = (("csv", _CSV), ("tsv", _CSV.replace(b",", b"\t")), ("obo", _OBO), ("owl", _OWL))
_PIECES: Final = (
    "TP53",
    "p53",
    "GR",
    "HGNC:",
    "11998",
    "HGNC_11998",
    "http://x/",
    "(",
    ")",
    " ",
    "-",
    "\u03b1",
    "'",
    "\u2032",
    "**",
    "`",
    "|",
    "/",
    "kras",
    "\x00",
    "\ud7ff",
    "%",
    "é",
)
_VALUES: Final = st.one_of(st.lists(st.sampled_from(_PIECES), max_size=12).map("".join), st.text(max_size=100))


def _damaged(seed: tuple[str, bytes], ops: list[tuple[int, int, int]], value: str) -> Table:
    """Return a table with a few bytes changed, and a value."""
    return seed[0], broken(seed[1], ops), value


@contextmanager
def _opened(folder: Path) -> Iterator[Callable[[Table], bool]]:
    def check(given: Table) -> bool:
        suffix, content, value = given
        path = folder / f"table.{suffix}"
        path.write_bytes(content)
        accepted = False
        for rule in (SameTerm(table=str(path), unreadable="wrong"), SameTerm(table=str(path), related=True)):
            for truth in ("TP53", value):
                try:
                    rule.check_expected(truth)
                    rule.check_files(truth)
                except ValueError:
                    continue
                verdict = rule.check_extracted(value, truth, value)
                assert isinstance(verdict, bool | Undecided), verdict
                assert rule.check(truth, truth) is True, truth
                accepted = True
        return accepted

    yield check


KIND: Final = Kind(
    "terms",
    st.builds(_damaged, st.sampled_from(_SEEDS), st.one_of(st.just([]), TEXT_OPS), _VALUES),
    _opened,
    valid=[(suffix, content, "p53") for suffix, content in _SEEDS],
)
