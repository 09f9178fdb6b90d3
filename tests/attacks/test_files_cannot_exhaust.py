"""A stranger's file exhausts neither memory nor time, and never blocks the command.

Files are read up to 100 MB (unpacked), lines up to 64 MB, YAML up to 250,000 values, tables up to five million cells
(a row counts five more) and nesting up to 200 levels. Pipes without a writer and devices are refused. Each attack runs
the installed command with 4 GB of address space; it must end with exit code 2, the file, what is wrong and the cure.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from limited_command import BENCHMARK, CompletedCommand, run_karenina, write_benchmark, write_file, write_recordings
from workbooks import HEAD, LAUGHS, TAIL, cell, shared_strings, workbook

from karenina import Benchmark
from karenina_benchmark import BenchmarkFileError
from karenina_benchmark.tables.table_reader import read_rows

TOO_LARGE = "the limit is 100 MB"
RAISED_BY = "KARENINA_MAX_FILE_BYTES"
Use = Callable[[Path, Path], CompletedCommand]


def shown(folder: Path, file: Path) -> CompletedCommand:
    """Use a file as a benchmark."""
    return run_karenina(folder, "prompts", file)


def imported(folder: Path, file: Path) -> CompletedCommand:
    """Use a file as the table that a benchmark names."""
    text = f"karenina: 1\nname: G\nquestions_from: {{file: {file.name}}}\n"
    return run_karenina(folder, "prompts", write_file(folder / "from.yaml", text), "--trust-all")


def configured(folder: Path, file: Path) -> CompletedCommand:
    """Use a file as a configuration."""
    return run_karenina(folder, "run", write_benchmark(folder), "-c", file, "--recordings", write_recordings(folder))


def replayed(folder: Path, file: Path) -> CompletedCommand:
    """Use a file as recordings."""
    return run_karenina(folder, "run", write_benchmark(folder), "--recordings", file)


def looked_at(folder: Path, file: Path) -> CompletedCommand:
    """Use a file as results."""
    return run_karenina(folder, "show", file)


def trusted(folder: Path, file: Path) -> CompletedCommand:
    """Use a file as a template to trust."""
    return run_karenina(folder, "trust", file)


USES: list[tuple[str, Use]] = [
    ("b.yaml", shown),
    ("b.jsonld", shown),
    ("b.jsonl", shown),
    ("t.csv", imported),
    ("t.xlsx", imported),
    ("t.jsonl", imported),
    ("c.toml", configured),
    ("c.yaml", configured),
    ("c.json", configured),
    ("r.jsonl", replayed),
    ("r.json", replayed),
    ("s.jsonl", looked_at),
    ("code.py", trusted),
]


@pytest.mark.parametrize(("name", "use"), USES)
def test_a_file_of_three_gigabytes_is_refused(tmp_path: Path, name: str, use: Use) -> None:
    """A sparse file takes no space on the disk of its author."""
    file = tmp_path / name
    with file.open("wb") as out:
        out.truncate(3 << 30)

    # one's own runs write results of any size, so their lines are bounded
    said = "the line is longer than 64 MB" if use is looked_at else TOO_LARGE
    use(tmp_path, file).assert_refused(name, said)


@pytest.mark.parametrize(("name", "use"), USES)
def test_a_pipe_without_a_writer_is_not_waited_for(tmp_path: Path, name: str, use: Use) -> None:
    os.mkfifo(tmp_path / name)

    use(tmp_path, tmp_path / name).assert_refused(name, "pipe")


@pytest.mark.parametrize(("name", "use"), USES)
def test_a_link_to_an_endless_device_is_refused(tmp_path: Path, name: str, use: Use) -> None:
    (tmp_path / name).symlink_to("/dev/zero")

    use(tmp_path, tmp_path / name).assert_refused(name, "the path is a device")


def entities(before: str) -> Callable[[Path], Path]:
    return lambda file: workbook(file, HEAD, f'<row r="2">{cell("&j;", "A2")}</row>', TAIL, before=before)


WORKBOOKS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "one cell of 300 MB in 300 KB": (
        lambda file: workbook(
            file,
            HEAD,
            '<row r="2"><c r="A2" t="inlineStr"><is><t>',
            *["a" * (1 << 20)] * 300,
            "</t></is></c></row>",
            TAIL,
        ),
        "the unpacked size is 314.6 MB",
    ),
    "rows up to the hundred thousand millionth": (
        lambda file: workbook(file, HEAD, f'<row r="99999999999">{cell("Q", "A2")}</row>', TAIL),
        "more than 5,000,000 cells",
    ),
    "rows as wide as can be": (
        lambda file: workbook(
            file, HEAD, *(f'<row r="{row}">{cell("Q", f"XFD{row}")}</row>' for row in range(2, 5000)), TAIL
        ),
        "row 2: the row has 16384 cells, but the file has 1 column;",
    ),
    "rows of empty cells as wide as can be": (
        lambda file: workbook(
            file,
            HEAD,
            *(f'<row r="{row}">{cell(f"Q{row}", f"A{row}")}<c r="XFD{row}"/></row>' for row in range(2, 5000)),
            TAIL,
        ),
        "more than 5,000,000 cells",
    ),
    "a billion laughs in the sheet": (entities(LAUGHS), "declares entities"),
    "a billion laughs in the strings": (
        lambda file: workbook(
            file,
            HEAD,
            '<row r="2"><c r="A2" t="s"><v>0</v></c></row>',
            TAIL,
            strings=shared_strings("&j;", LAUGHS),
        ),
        "declares entities",
    ),
    "a file of the reader": (entities('<!DOCTYPE s [<!ENTITY j SYSTEM "file:///etc/passwd">]>'), "declares entities"),
}


@pytest.mark.parametrize("attack", WORKBOOKS)
def test_a_hostile_workbook_is_refused(tmp_path: Path, attack: str) -> None:
    make, said = WORKBOOKS[attack]

    imported(tmp_path, make(tmp_path / "t.xlsx")).assert_refused("t.xlsx", said)


def test_dimensions_that_a_workbook_states_are_not_believed(tmp_path: Path) -> None:
    stated = HEAD.replace("<sheetData>", '<dimension ref="A1:XFD1048576"/><sheetData>')
    rows = [f'<row r="{row}">{cell(f"Which of {row}?", f"A{row}")}</row>' for row in range(2, 402)]
    file = workbook(tmp_path / "t.xlsx", stated, *rows, TAIL)

    ended = imported(tmp_path, file)

    assert ended.code == 0, ended.err


LISTS = "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
MERGES = "".join(
    f"{name}: &{name} {{<<: [{', '.join([f'*{before}'] * 10)}], x{name}: 1}}\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)
WIDE = (
    "a: &a {"
    + ", ".join(f"k{number}: 1" for number in range(1000))
    + "}\n"
    + "b: {<<: ["
    + ", ".join(["*a"] * 1000)
    + "]}\n"
)
TEXTS: dict[str, tuple[str, Use, str, str]] = {
    "lists in lists by aliases": ("b.yaml", shown, "karenina: 1\nname: x\na: &a [l]\n" + LISTS, "aliases"),
    "lists in lists by aliases in a configuration": ("c.yaml", configured, "a: &a [l]\n" + LISTS, "aliases"),
    "mappings merged again and again": ("c.yaml", configured, "a: &a {k: 1}\n" + MERGES, "unknown configuration name"),
    "a wide mapping merged a thousand times": ("c.yaml", configured, WIDE, "aliases"),
    "an alias in what it names": ("c.yaml", configured, "prompt_config: &a {x: *a}", "alias"),
    "a mapping merged into itself": ("c.yaml", configured, "prompt_config: &a {<<: *a}", "alias"),
    "more values than the bound": (
        "b.yaml",
        shown,
        "karenina: 1\nname: [" + "a," * 251_000 + "]",
        "more than 250,000 values",
    ),
    "deep YAML": ("b.yaml", shown, "karenina: 1\nmetadata: " + "[" * 100_000, "nested"),
    "deep YAML of a configuration": ("c.yaml", configured, "a: " + "[" * 5000 + "]" * 5000, "nested"),
    "YAML of 250 levels": ("c.yaml", configured, "a: " + "[" * 250 + "]" * 250, "nested"),
    "deep JSON": ("b.jsonl", shown, '{"question": "a", "metadata": ' + "[" * 100_000, "nested"),
    "JSON of 900 levels": (
        "b.jsonl",
        shown,
        '{"question": "a", "metadata": {"a":' + "[" * 900 + "]" * 900 + "}}",
        "nested",
    ),
    "deep JSON of a configuration": ("c.json", configured, "[" * 100_000, "nested"),
    "deep recordings": ("r.json", replayed, '{"q": ' + "[" * 100_000, "recursion"),
    "recordings of 900 levels": ("r.json", replayed, '{"q": ' + "[" * 900 + "]" * 900 + "}", "nested"),
    "deep TOML": ("c.toml", configured, "a = " + "[" * 100_000, "nested"),
    "a name of 20,000 tables": ("c.toml", configured, "[" + "a." * 20_000 + "a]", "nested"),
    "a number of base 60": ("c.yaml", configured, "replicate_count: 1" + ":59" * 200_000, "replicate_count"),
    "two million empty rows": ("t.csv", imported, "question\n" + "\n" * 2_000_000, "more than 5,000,000 cells"),
    "ten million cells in a row": ("t.csv", imported, "question\n" + "," * 10_000_000, "more than 5,000,000 cells"),
    "a line of 70 MB": ("b.jsonl", shown, '{"question": "' + "a" * 70_000_000 + '"}', "longer than 64 MB"),
    "zeros": ("b.jsonl", shown, "\0" * 1000, "JSON is not valid"),
}


@pytest.mark.parametrize("attack", TEXTS)
def test_a_hostile_text_is_refused(tmp_path: Path, attack: str) -> None:
    name, use, text, said = TEXTS[attack]

    use(tmp_path, write_file(tmp_path / name, text)).assert_refused(said)


def test_the_error_names_the_variable_that_raises_the_bound(tmp_path: Path) -> None:
    file = write_file(tmp_path / "b.yaml", BENCHMARK + "#" * 5000)

    refused = run_karenina(tmp_path, "prompts", file, script=True, KARENINA_MAX_FILE_BYTES="5000")
    refused.assert_refused(RAISED_BY, "the limit is 5,000 bytes")
    assert run_karenina(tmp_path, "prompts", file, KARENINA_MAX_FILE_BYTES="6000").code == 0
    run_karenina(tmp_path, "prompts", file, KARENINA_MAX_FILE_BYTES="lots").assert_refused(
        RAISED_BY, "must be a positive number of bytes"
    )


def test_nothing_in_a_file_raises_the_bound(tmp_path: Path) -> None:
    file = write_file(tmp_path / "b.yaml", f"{BENCHMARK}config: {{max_bytes: 999999}}\n#" + "#" * 5000)

    run_karenina(tmp_path, "prompts", file, KARENINA_MAX_FILE_BYTES="5000").assert_refused("the limit is 5,000 bytes")


def test_an_argument_sets_the_bound_in_python(tmp_path: Path) -> None:
    file = write_file(tmp_path / "b.yaml", BENCHMARK)
    table = write_file(tmp_path / "t.csv", "question\n" + "Which?\n" * 100)

    with pytest.raises(BenchmarkFileError, match="the limit is 50 bytes"):
        Benchmark.load(file, max_bytes=50)
    with pytest.raises(BenchmarkFileError, match="the limit is 50 bytes"):
        read_rows(table, max_bytes=50)
    assert len(Benchmark.load(file, max_bytes=5000)) == 1
    assert len(read_rows(table, max_bytes=5000).rows) == 100


def test_the_bound_holds_for_the_files_that_a_benchmark_names(tmp_path: Path) -> None:
    write_file(tmp_path / "t.csv", "question\n" + "Which?\n" * 100)
    file = write_file(tmp_path / "b.yaml", "karenina: 1\nname: G\nquestions_from: {file: t.csv}\n")

    with pytest.raises(BenchmarkFileError, match=r"t\.csv: the file size is 709 bytes, but the limit is 200 bytes"):
        Benchmark.load(file, max_bytes=200)


def test_a_pipe_with_a_writer_is_read(tmp_path: Path) -> None:
    """`-c <(command)` is how people pass a configuration with keys without writing it to the disk."""
    pipe = tmp_path / "c.toml"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # so that what is written stays until the command opens it
    try:
        pipe.write_text('run_name = "piped"\n', "utf-8")
        ended = configured(tmp_path, pipe)
    finally:
        os.close(reader)

    assert ended.code == 0, ended.err
