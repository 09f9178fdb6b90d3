"""A result file is written again only if the journal contains all of it, however a killed process has left it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from result_metadata import metadata

from karenina_core import Outcome, VerificationResult
from karenina_core.data.sections import StageRecord, VerificationResultTemplate
from karenina_engine.journal.journal import Journal
from karenina_engine.results.result_file import header_line
from karenina_engine.results.result_lines import LineWriter, dump_result

RESULTS = [
    VerificationResult(
        metadata=metadata(f'a "question" {number} é'),
        outcome=Outcome.CORRECT,
        template=VerificationResultTemplate(raw_llm_response=f"answer {number} " * 40),
        stages=[
            StageRecord(name="Say", status="skipped", reason=f"reason {number % 2}", distribution="x", version="1"),
            StageRecord(name="Count", status="ran", seconds=0.25, distribution="x", version="1"),
        ],
    )
    for number in range(30)
]


@pytest.fixture(scope="module")
def holds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[bytes], bool]]:
    """Return whether a journal with all results contains all lines of a file with these bytes."""
    folder = tmp_path_factory.mktemp("output")

    async def store(journal: Journal) -> None:
        journal.begin(len(RESULTS), {})
        for place, one in enumerate(RESULTS):
            await journal.finish(place, one.item, bytes(32), one.outcome.value, dump_result(one), again=False)

    with Journal.open(folder / "r.journal") as journal:
        asyncio.run(store(journal))

        def check(content: bytes) -> bool:
            file: Path = folder / "r.jsonl"
            file.write_bytes(content)
            return journal.holds_all_lines(file)

        yield check


def content(*, full: bool = False) -> bytes:
    """Return a result file, as a run writes it with and without `--full`."""
    writer = LineWriter()
    lines = [header_line({"karenina-core": "0.1.0"}, "id")]
    for one in RESULTS:
        lines += [one.model_dump_json()] if full else writer.lines(dump_result(one))
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize("full", [False, True])
def test_a_file_that_ends_anywhere_is_in_the_journal(holds: Callable[[bytes], bool], full: bool) -> None:
    whole = content(full=full)
    assert holds(whole)
    beginning = whole.index(b'"question_id"') + 200
    for end in (*range(beginning), *range(beginning, len(whole), 211), len(whole) - 1):
        assert holds(whole[:end]), whole[:end][-80:]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("text", [b"answer 7", b"0.25", b"reason 1", b'"Say"', b'"karenina'])
def test_a_changed_line_is_not(holds: Callable[[bytes], bool], text: bytes, full: bool) -> None:
    changed = content(full=full).replace(text, text.replace(b"a", b"A").replace(b"2", b"3"))
    assert holds(changed) == (text == b'"karenina')


def test_a_cut_line_of_another_result_is_not(holds: Callable[[bytes], bool]) -> None:
    whole = content()
    cut = whole[: whole.rindex(b"answer 29") + 6]
    assert holds(cut)
    assert not holds(cut + b"ed")
    assert not holds(whole + b'{"row":"0123456789ab","metadata":{"question_id":"mine')


def test_a_cut_line_with_an_id_that_is_not_json_is_not(holds: Callable[[bytes], bool]) -> None:
    assert not holds(content() + b'{"row":"0123456789ab","metadata":{"question_id":"a\\q"')


def test_lines_without_their_table_are_not(holds: Callable[[bytes], bool]) -> None:
    lines = content().splitlines(keepends=True)
    assert not holds(b"".join(line for line in lines if not line.startswith(b'{"table"')))
