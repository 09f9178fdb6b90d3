"""A journal's results are found for questions whose texts are composed of other code points."""

import unicodedata
from pathlib import Path

from journal_runs import ScriptedRuns, make_benchmark


def test_results_are_found_in_every_form_of_the_id(tmp_path: Path) -> None:
    written = "caf\u00e9"
    for first, second in (("NFC", "NFD"), ("NFD", "NFC")):
        world, journal = ScriptedRuns(), tmp_path / f"{first}.journal"
        world.run(make_benchmark(unicodedata.normalize(first, written)), journal=journal)
        assert world.calls
        world.calls.clear()
        results = world.run(make_benchmark(unicodedata.normalize(second, written)), journal=journal)
        assert world.calls == []
        assert [one.outcome.value for one in results] == ["scored", "scored"]
