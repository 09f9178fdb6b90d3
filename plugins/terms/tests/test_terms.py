"""`SameTerm`: the contract of primitives, the kinds of tables, and files that are missing, large or changed."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from karenina_template.templates import Undecided
from karenina_template.templates.primitives import files_in
from karenina_terms import names, term_table
from karenina_terms.same_term import SameTerm
from karenina_testing.contracts import PrimitiveContract

ROWS = (
    "id\tname\tsynonyms\nHGNC:11998\tTP53\tp53|LFS1\nHGNC:6407\tKRAS\tK-Ras\nHGNC:7989\tNR3C1\tGR\nHGNC:4622\tGSR\tGR\n"
)
OBO = """\
format-version: 1.4
ontology: demo
import: http://127.0.0.1:9/none.obo

[Term]
id: GO:0006915
name: apoptotic process
alt_id: GO:0008632
synonym: "apoptosis" NARROW []
synonym: "apoptotic cell death" EXACT []

[Term]
id: GO:0006914
name: autophagy

[Term]
id: GO:0000001
name: cell suicide
is_obsolete: true
"""
OWL = """\
<?xml version="1.0"?>
<rdf:RDF xmlns="http://purl.obolibrary.org/obo/go.owl#" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
  xmlns:owl="http://www.w3.org/2002/07/owl#" xmlns:rdfs="http://www.w3.org/2000/01/rdf-schema#"
  xmlns:oboInOwl="http://www.geneontology.org/formats/oboInOwl#">
  <owl:Ontology rdf:about="http://purl.obolibrary.org/obo/go.owl">
    <owl:imports rdf:resource="http://127.0.0.1:9/none.owl"/>
  </owl:Ontology>
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/GO_0006915">
    <rdfs:label>apoptotic process</rdfs:label>
    <oboInOwl:hasExactSynonym>apoptotic cell death</oboInOwl:hasExactSynonym>
  </owl:Class>
  <owl:Class rdf:about="http://purl.obolibrary.org/obo/GO_0006914"><rdfs:label>autophagy</rdfs:label></owl:Class>
</rdf:RDF>
"""
HGNC = "hgnc_id,symbol,alias_symbol,location\nHGNC:11998,TP53,p53;LFS1,17p13.1\nHGNC:1100,BRCA1,RNF53,17q21.31\n"


def saved(folder: Path, name: str, text: str) -> str:
    """Return the path of a new file."""
    (folder / name).write_text(text, "utf-8")
    return str(folder / name)


@pytest.mark.alone
class TestSameTerm(PrimitiveContract):
    entry_point = "karenina_terms:plugin"
    truths = ("TP53", "HGNC:11998", "p53", "KRAS", "HGNC:4622")
    bad_truths = (None, "", "  ", ["TP53"])
    passes = (("p53", "TP53"), ("hgnc:11998", "p53"), ("k ras", "KRAS"))
    fails = (("KRAS", "TP53"), ("HGNC:6407", "TP53"), ("GR", "TP53"), ("", "TP53"))
    undecided = (("GR", "GSR"), ("T" * 2_000, "TP53"))
    unreadable = (("TP63", "TP53"), ("a gene", "TP53"))

    primitive = SameTerm(
        table="genes.tsv",
        column=("name", "synonyms", "id"),
        related=True,
        sha256=hashlib.sha256(ROWS.encode()).hexdigest(),
        unreadable="wrong",
    )

    @pytest.fixture(autouse=True)
    def _table(self, tmp_path: Path) -> Iterator[None]:
        saved(tmp_path, "genes.tsv", ROWS)
        with files_in(tmp_path):
            yield


@pytest.mark.parametrize(("name", "text"), [("go.obo", OBO), ("go.owl", OWL)])
def test_an_ontology_has_names_synonyms_and_identifiers(name: str, text: str, tmp_path: Path) -> None:
    rule = SameTerm(table=saved(tmp_path, name, text))
    rule.check_files("GO:0006915")

    assert rule.check("apoptotic cell death", "apoptotic process") is True
    assert rule.check("GO_0006915", "apoptotic process") is True
    assert rule.check("autophagy", "apoptotic process") is False


def test_only_exact_synonyms_of_an_ontology_count_by_default(tmp_path: Path) -> None:
    table = saved(tmp_path, "go.obo", OBO)

    assert isinstance(SameTerm(table=table).check("apoptosis", "apoptotic process"), Undecided)
    assert SameTerm(table=table, related=True).check("apoptosis", "apoptotic process") is True
    assert SameTerm(table=table).check("GO:0008632", "apoptotic process") is True
    assert isinstance(SameTerm(table=table).check("cell suicide", "apoptotic process"), Undecided)


def test_columns_and_the_separator_can_be_named(tmp_path: Path) -> None:
    rule = SameTerm(
        table=saved(tmp_path, "hgnc.csv", HGNC), column=("symbol", "alias_symbol", "hgnc_id"), separator=";"
    )

    assert rule.check("LFS1", "TP53") is True
    assert rule.check("HGNC:1100", "TP53") is False
    assert isinstance(rule.check("17p13.1", "TP53"), Undecided)


def test_rows_with_the_same_identifier_are_one_term(tmp_path: Path) -> None:
    rule = SameTerm(table=saved(tmp_path, "a.csv", "id,name\n7,ethanol\n7,ethyl alcohol\n8,methanol\n"))

    assert rule.check("ethyl alcohol", "ethanol") is True
    assert rule.check("7", "ethanol") is True
    assert rule.check("methanol", "ethanol") is False


@pytest.mark.parametrize(
    ("name", "text", "rule", "message"),
    [
        ("a.csv", "gene,alias\nTP53,p53\n", {}, "set `column` in the rule"),
        ("a.csv", "id,name\n1,TP53\n", {"column": "symbl"}, "no column 'symbl'"),
        ("a.csv", "id,name\n", {}, "contains no terms"),
        ("a.csv", "", {}, "a.csv"),
        ("a.xlsx", "x", {}, "use one of .csv"),
        ("a.obo", "[Term]\nid GO\n", {}, "not a valid ontology"),
        ("b.obo", "[Term]\nid: A:1\nname: x\n ! x\n", {}, "not a valid ontology"),
        ("a.owl", "<rdf", {}, "not a valid ontology"),
        ("a.obo", OBO, {"column": "name"}, "an ontology has no columns"),
        ("a.csv", "id,name\n1,TP63\n", {}, "a term of the table"),
        ("a.csv", "id,name\n1,TP53\n2,TP53\n", {}, "use its identifier"),
        ("a.csv", "id,name\n1,TP53\n", {"sha256": "0" * 64}, "the file has changed"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    name: str, text: str, rule: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        SameTerm.model_validate({"table": saved(tmp_path, name, text), **rule}).check_files("TP53")


@pytest.mark.parametrize("name", ["missing.csv", ".", "http://127.0.0.1:9/go.obo"])
def test_only_a_plain_local_file_is_read(name: str, tmp_path: Path) -> None:
    with files_in(tmp_path), pytest.raises(ValueError, match="file"):
        SameTerm(table=name).check_files("TP53")


def test_a_compressed_ontology_is_refused(tmp_path: Path) -> None:
    (tmp_path / "go.obo").write_bytes(gzip.compress(OBO.encode()))

    with pytest.raises(ValueError, match="compressed"):
        SameTerm(table=str(tmp_path / "go.obo")).check_files("autophagy")


def test_a_run_keeps_the_table_that_its_check_has_read(tmp_path: Path) -> None:
    rule = SameTerm(table=saved(tmp_path, "genes.tsv", ROWS))
    rule.check_files("TP53")
    saved(tmp_path, "genes.tsv", ROWS.replace("LFS1", "LFS-one-and-two"))

    assert rule.check("LFS1", "TP53") is True
    rule.check_files("TP53")
    assert isinstance(rule.check("LFS1", "TP53"), Undecided)


def test_a_large_table_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KARENINA_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(term_table, "LARGE", 10)
    columns = term_table.Columns()
    path = Path(saved(tmp_path, "genes.tsv", ROWS))
    assert term_table.read_table(path, columns, None).terms("p53") == {"HGNC:11998": names.SYNONYM}
    (kept,) = (tmp_path / "state" / "terms").iterdir()
    read = kept.stat().st_mtime_ns

    assert term_table.read_table(path, columns, None).terms("p53") == {"HGNC:11998": names.SYNONYM}
    assert [file.stat().st_mtime_ns for file in kept.parent.iterdir()] == [read]
    saved(tmp_path, "genes.tsv", ROWS + "HGNC:1\tA1BG\t\n")
    assert term_table.read_table(path, columns, None).terms("a1bg") == {"HGNC:1": names.NAME}


@pytest.mark.parametrize("state", ["", "state"])
def test_a_large_ontology_is_read_in_another_process(
    state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(tmp_path / state) if state else saved(tmp_path, "file", "")  # a file cannot be a folder
    monkeypatch.setenv("KARENINA_STATE_HOME", folder)
    monkeypatch.setattr(term_table, "LARGE", 10)
    table = term_table.read_table(Path(saved(tmp_path, "go.obo", OBO)), term_table.Columns(), None)
    assert table.terms("apoptotic cell death") == {"GO:0006915": names.SYNONYM}
    assert table.exact_terms("autophagy") == {"GO:0006914": names.NAME}

    bad = Path(saved(tmp_path, "bad.obo", "[Term]\nid GO\n"))
    with pytest.raises(ValueError, match=r"bad\.obo.*not a valid ontology.*CSV"):
        term_table.read_table(bad, term_table.Columns(), None)


def test_an_ontology_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, "go.obo", OBO))
    with path.open("r+b") as file:
        file.truncate(term_table.MOST_OF_AN_ONTOLOGY + 1)
    with pytest.raises(ValueError, match=r"100,000,000 bytes.*CSV file"):
        SameTerm(table=str(path)).check_files("autophagy")


def test_a_large_table_stays_in_memory_without_a_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("KARENINA_STATE_HOME", saved(tmp_path, "state", ""))
    monkeypatch.setattr(term_table, "LARGE", 10)
    table = term_table.read_table(Path(saved(tmp_path, "genes.tsv", ROWS)), term_table.Columns(), None)

    assert table.terms("p53")
    assert "cannot keep the table of terms" in caplog.text
