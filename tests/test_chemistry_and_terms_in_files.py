"""Molecules, formulas and terms in files, checks and runs: types, tables of terms, and trust in their paths."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import preloaded
import pytest
from command_runs import registered
from loaded_files import load, template_of

from karenina import VerificationConfig
from karenina_benchmark import Benchmark, BenchmarkFileError
from karenina_core.data.outcome import Outcome
from karenina_core.data.trust import Trust
from karenina_core.errors import ConfigError
from karenina_engine.offline import rescoring
from karenina_selftest.own_cases import make_own_cases
from karenina_template.templates.primitives import files_in
from karenina_testing import ScriptedModels

HEAD = "karenina: 1\nname: names\nquestions:\n  - id: q\n    question: What is asked?\n    answer:\n      it: "
GENES = "id\tname\tsynonyms\nHGNC:11998\tTP53\tp53|LFS1\nHGNC:6407\tKRAS\tK-Ras\n"
TERM = "{{description: The gene, ground_truth: TP53, verify_with: {{type: SameTerm, table: {}}}}}\n"
TYPES = {"molecule": ("CCO", "SameMolecule"), "formula": ("SO4^2-", "SameFormula")}


def with_genes(folder: Path, table: str = "genes.tsv") -> Benchmark:
    """Return a benchmark whose table of genes is beside it, unless `table` is elsewhere."""
    (folder / "given").mkdir(exist_ok=True)
    (folder / "given" / table).write_text(GENES, "utf-8")
    return load(folder / "given", "a.yaml", HEAD + TERM.format(table))


def configured(value: str) -> tuple[ScriptedModels, VerificationConfig]:
    """Return scripted models that fill the field with a value, and a configuration with them."""
    scripted = ScriptedModels(fill=lambda _messages, _schema, _info: {"it": value})
    return scripted, VerificationConfig(answering_models=[scripted.model("a")], parsing_models=[scripted.model("j")])


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["b.yaml", "b.jsonld", "b.jsonl"])
def test_a_typed_field_survives_each_format(kind: str, name: str, tmp_path: Path) -> None:
    truth, primitive = TYPES[kind]
    benchmark = load(tmp_path, "a.yaml", f"{HEAD}{{type: {kind}, description: x, ground_truth: '{truth}'}}\n")
    benchmark.save(tmp_path / name)

    assert f"verify_with={primitive}()" in template_of(benchmark)
    assert template_of(Benchmark.load(tmp_path / name)) == template_of(benchmark)


@pytest.mark.parametrize("kind", TYPES)
def test_tables_and_imports_name_the_type_of_answers(kind: str, tmp_path: Path) -> None:
    truth, primitive = TYPES[kind]
    benchmark = load(tmp_path, "a.csv", f"question,answer,type\nWhich?,{truth},{kind}\n")
    (tmp_path / "rows.jsonl").write_text(f'{{"question": "Which?", "target": "{truth}"}}\n', "utf-8")
    command = ["import", "rows.jsonl", "-o", "out.yaml", "--map", f"answer={kind}"]
    maps = ["--map", "question=question", "--map", "raw_answer=target"]
    preloaded.run([*command, *maps], folder=tmp_path, environment=os.environ, timeout=120).check_returncode()

    assert f"{primitive}()" in template_of(benchmark)
    assert f"{primitive}()" in template_of(Benchmark.load(tmp_path / "out.yaml"))
    with pytest.raises(BenchmarkFileError, match=f"'unknown' is not of type '{kind}'"):
        load(tmp_path, "b.csv", f"question,answer,type\nWhich?,unknown,{kind}\n")


@pytest.mark.parametrize("name", ["b.yaml", "b.jsonld", "b.jsonl"])
def test_the_path_of_a_table_stays_as_it_is_written(name: str, tmp_path: Path) -> None:
    benchmark = with_genes(tmp_path)
    benchmark.save(tmp_path / "given" / name)

    assert "SameTerm(table='genes.tsv')" in template_of(Benchmark.load(tmp_path / "given" / name))
    assert Benchmark.load(tmp_path / "given" / name).check().errors == ()


def test_checks_and_selftests_read_the_table(tmp_path: Path) -> None:
    benchmark = with_genes(tmp_path)

    assert benchmark.check().unchecked == benchmark.check().errors == ()
    assert "q" in make_own_cases(benchmark, Trust.all()).left_out  # the working directory has no table
    with files_in(tmp_path / "given"):
        assert {case.passes for case in make_own_cases(benchmark, Trust.all()).cases} == {True, False}


@pytest.mark.parametrize(("value", "hits"), [("LFS1", 1), ("K-Ras", 0)])
def test_a_run_finds_the_table_beside_its_benchmark(value: str, hits: int, tmp_path: Path) -> None:
    benchmark = with_genes(tmp_path)
    scripted, config = configured(value)
    with registered(scripted):
        results = benchmark.run_verification(config, journal=tmp_path / "run.journal")
        found = rescoring.rescore(tmp_path / "run.journal", benchmark, config)

    assert sum(result.outcome is Outcome.CORRECT for result in results) == hits
    assert found.before.pass_rate.hits == found.after.pass_rate.hits == hits


@pytest.mark.parametrize(
    ("text", "message"),
    [(None, "does not exist"), (GENES.replace("TP53", "TP63"), "a term of the table"), ("", "genes.tsv")],
)
def test_a_run_refuses_a_table_that_does_not_fit(text: str | None, message: str, tmp_path: Path) -> None:
    benchmark = with_genes(tmp_path)
    scripted, config = configured("TP53")
    (tmp_path / "given" / "genes.tsv").unlink()
    if text is not None:
        (tmp_path / "given" / "genes.tsv").write_text(text, "utf-8")
    with registered(scripted), pytest.raises((ConfigError, ValueError), match=message):
        benchmark.run_verification(config)

    assert message in str(benchmark.check().errors)
    assert scripted.requests == []


def test_a_changed_table_is_refused_if_its_digest_is_given(tmp_path: Path) -> None:
    digest = hashlib.sha256(GENES.encode()).hexdigest()
    with_genes(tmp_path)
    benchmark = load(tmp_path / "given", "a.yaml", HEAD + TERM.format(f"genes.tsv, sha256: '{digest}'"))
    assert benchmark.check().errors == ()
    (tmp_path / "given" / "genes.tsv").write_text(GENES + "HGNC:1\tA1BG\t\n", "utf-8")

    assert "the file has changed" in str(benchmark.check().errors)


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_table_outside_of_the_folder_needs_trust(is_linked: bool, tmp_path: Path) -> None:
    benchmark = with_genes(tmp_path, "../genes.tsv")
    if is_linked:
        (tmp_path / "given" / "genes.tsv").symlink_to("../genes.tsv")
        benchmark = load(tmp_path / "given", "a.yaml", HEAD + TERM.format("genes.tsv"))
    scripted, config = configured("LFS1")
    with registered(scripted):
        with pytest.raises((ConfigError, ValueError), match="outside"):
            benchmark.run_verification(config)
        results = benchmark.run_verification(config, trust="all")

    assert "is outside" in str(benchmark.check().errors)
    assert benchmark.check(trust="all").errors == ()
    assert [result.outcome for result in results] == [Outcome.CORRECT]


def test_a_setting_names_the_folder_of_the_tables(tmp_path: Path) -> None:
    benchmark = with_genes(tmp_path)
    (tmp_path / "given" / "genes.tsv").rename(tmp_path / "genes.tsv")
    scripted, config = configured("LFS1")
    with registered(scripted):
        results = benchmark.run_verification(config.with_values(template_files=tmp_path))

    assert [result.outcome for result in results] == [Outcome.CORRECT]
