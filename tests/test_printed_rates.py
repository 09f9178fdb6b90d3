"""Random runs through the GitHub action: every rate and count that is printed or written follows from the results."""

from __future__ import annotations

import json
import os
import random
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import preloaded
import pytest
from servers import Said, recording_server
from test_action import RUN, Step

from karenina_testing.server import Reply

DAY = {"description": "The day", "type": "date", "ground_truth": "2024-02-01", "verify_with": {"type": "DateMatch"}}
READ = {"right": "2024-02-01", "wrong": "2023-05-05", "undecided": "01/02/2024"}
RIGHT, WRONG = {"correct"}, {"wrong", "partial", "truncated", "abstained", "insufficient", "auto_failed"}


@dataclass
class Counted:
    """The counts of one answering model and judge, as this test makes them from the lines of the results."""

    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def items(self) -> int:
        return self.outcomes.total()

    @property
    def right(self) -> int:
        return sum(self.outcomes[name] for name in RIGHT)

    @property
    def judged(self) -> int:
        return self.right + sum(self.outcomes[name] for name in WRONG)

    @property
    def undecided(self) -> int:
        return self.outcomes["undecided"]

    @property
    def rate(self) -> Fraction | None:
        return Fraction(self.right, self.judged) if self.judged else None

    @property
    def low(self) -> Fraction | None:
        """The rate if all undecided items were wrong; None if no item has a verdict or is undecided."""
        comparable = self.judged + self.undecided
        return Fraction(self.right, comparable) if comparable else None


def count(file: Path) -> dict[tuple[str, str], Counted]:
    groups: dict[tuple[str, str], Counted] = {}
    for line in file.read_text("utf-8").splitlines():
        result = json.loads(line)
        if "outcome" in result:
            about = result["metadata"]
            groups.setdefault((about["answering_id"], about["parsing_id"]), Counted()).outcomes[result["outcome"]] += 1
    return groups


class RandomRun:
    """Random questions, models, judges and failures, all from one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = chance = random.Random(seed)
        self.models = [f"m{number}" for number in range(chance.choice([1, 2, 3]))]
        self.judges = [f"j{number}" for number in range(chance.choice([1, 1, 2, 3]))]
        self.jury = len(self.judges) > 1 and chance.random() < 0.6
        self.replicates = chance.choice([1, 1, 3])
        self.questions = chance.choice([1, 4, 9])
        kinds = ["right", "wrong", "undecided", "no answer", "no model", "no JSON", "no judge"]
        self.odds = {
            name: {kind: chance.random() ** 2 * (chance.random() < 0.7) + 0.001 for kind in kinds}
            for name in self.models
        }
        self.calls: Counter[tuple[str, str]] = Counter()
        self.fail_under = chance.choice([0.0, 0.3, 0.5, 0.8, 1.0])
        self.max_unjudged = chance.choice([0, 1, 3, 10])

    def reply(self, body: Mapping[str, Any]) -> Said:
        text = "\n".join(str(message["content"]) for message in body["messages"])
        # A reply depends on its request, not on the order in which the requests come.
        call = body["model"], text
        self.calls[call] += 1
        chance = random.Random(f"{self.seed} {call} {self.calls[call]}")
        if "response_format" not in body:
            odds = self.odds[body["model"]]
            kind = chance.choices([*odds], [*odds.values()])[0]
            if kind == "no model":
                return Reply({"error": {"message": "no such model"}}, 400)
            return "" if kind == "no answer" else f"This answer is {kind}. {chance.random()}"
        kind = re.findall(r"This answer is ([a-zA-Z ]+)\.", text)[-1]
        if self.jury and chance.random() < 0.2:
            kind = chance.choice([*READ, "no judge"])
        if kind == "no judge":
            return Reply({"error": {"message": "no such judge"}}, 400)
        return "nothing" if kind == "no JSON" else json.dumps({"day": READ[kind]})

    def inputs(self, folder: Path, url: str) -> dict[str, str]:
        questions = [
            {"id": f"q{number}", "question": f"Which day, number {number}?", "answer": {"day": DAY}}
            for number in range(self.questions)
        ]
        document = {"karenina": 1, "name": "Days", "questions": questions}
        (folder / "days.yaml").write_text(json.dumps(document), "utf-8")
        same = {"interface": "openai", "endpoint_base_url": url}
        config = {
            "answering_models": [{"id": name, "model_name": name, **same} for name in self.models],
            "parsing_models": [{"id": name, "model_name": name, **same} for name in self.judges],
            "replicate_count": self.replicates,
            **({"jury": {"vote": self.chance.choice(["field", "verdict"])}} if self.jury else {}),
        }
        (folder / "config.json").write_text(json.dumps(config), "utf-8")
        return {
            "benchmark": "days.yaml",
            "arguments": "--config=config.json\n--set=retry_server=0\n--no-journal",
            "fail-under": str(self.fail_under),
            "max-unjudged": str(self.max_unjudged),
        }


def check_outputs(groups: Mapping[tuple[str, str], Counted], outputs: Mapping[str, str]) -> None:
    several = len({judge for _, judge in groups}) > 1
    names = {key: f"{key[0]} judged by {key[1]}" if several else key[0] for key in groups}
    rates = {names[key]: None if one.rate is None else float(one.rate) for key, one in groups.items()}
    known = [one.rate for one in groups.values() if one.rate is not None]
    lows = [one.low for one in groups.values() if one.low is not None]
    all_known = len(known) == len(groups)
    assert json.loads(outputs["pass-rates"]) == pytest.approx(rates)
    assert outputs["pass-rate"] == ("" if not all_known else str(float(min(known))))
    lowest = str(float(min(lows))) if len(lows) == len(groups) else ""
    assert outputs["pass-rate-if-undecided-wrong"] == lowest
    assert outputs["items"] == str(sum(one.items for one in groups.values()))
    assert outputs["undecided"] == str(sum(one.undecided for one in groups.values()))
    assert outputs["not-judged"] == str(sum(one.items - one.judged for one in groups.values()))


def check_junit(groups: Mapping[tuple[str, str], Counted], file: Path) -> None:
    root = ET.parse(file).getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert set(suites) == {f"{answering} judged by {judge}" for answering, judge in groups}
    for (answering, judge), one in groups.items():
        suite = suites[f"{answering} judged by {judge}"]
        cases = list(suite)
        failures = [case for case in cases if case.find("failure") is not None]
        errors = [case for case in cases if case.find("error") is not None]
        expected = (one.items, one.judged - one.right, one.items - one.judged)
        assert tuple(int(suite.get(name, "")) for name in ("tests", "failures", "errors")) == expected
        assert (len(cases), len(failures), len(errors)) == expected
        assert len({case.get("name") for case in cases}) == one.items
        assert {case.get("classname") for case in cases} == {suite.get("name")}
    for name in ("tests", "failures", "errors"):
        assert root.get(name) == str(sum(int(suite.get(name, "")) for suite in suites.values()))


def check_markdown(groups: Mapping[tuple[str, str], Counted], text: str) -> None:
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    found = {(row[0], re.sub(r"\\(.)", r"\1", row[1])): row for row in rows[2:] if len(row) == 6}
    assert set(found) == set(groups)
    for key, one in groups.items():
        rate, _, judged, unjudged = found[key][2:]
        shown = "none" if one.rate is None else f"{float(one.rate):.1%} ({one.right} of {one.judged})"
        assert rate.startswith(shown)
        assert (judged, unjudged) == (f"{one.judged} of {one.items}", str(one.items - one.judged))
    outcomes: Counter[str] = sum((one.outcomes for one in groups.values()), Counter())
    line = next(line for line in text.splitlines() if line.startswith("Outcomes: "))
    assert dict(reversed(part.split()) for part in line.removeprefix("Outcomes: ").split(", ")) == {
        name: str(number) for name, number in outcomes.items()
    }


def unmet_conditions(run: RandomRun, groups: Mapping[tuple[str, str], Counted]) -> Iterator[str]:
    for one in groups.values():
        if one.low is None:
            yield "There is no pass rate"
        elif one.low < Fraction(str(run.fail_under)):
            yield "The pass rate"
        if one.items - one.judged > run.max_unjudged:
            yield "not judged, which is more than --max-unjudged"


def check_printed(groups: Mapping[tuple[str, str], Counted], text: str) -> None:
    """Compare the summary that the run prints: a table of several groups, or the lines of a single one."""
    if len(groups) == 1:
        (one,) = groups.values()
        if one.rate is not None:
            head = rf"{one.right} of {one.judged} judged items? correct( on \d+ questions?)? \({percent(one.rate)},"
            assert re.search(head, " ".join(text.split()))
        if one.items > one.judged:
            assert f"{one.items - one.judged} of {one.items}: " in text
        return
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if re.match(r"Model +Judge +Pass rate", line))
    heads, *rows = [re.split(r" {2,}", line.strip()) for line in lines[start : start + len(groups) + 1]]
    found = {(row["Model"], row["Judge"]): row for row in (dict(zip(heads, cells, strict=True)) for cells in rows)}
    assert set(found) == set(groups)
    for key, one in groups.items():
        row = {"Not judged": "0", **found[key]}  # a table has the column only if an item is not judged
        assert row["Pass rate"] == ("-" if one.rate is None else percent(one.rate))
        counts = (one.right, one.judged, one.items - one.judged)
        assert tuple(int(row[name]) for name in ("Correct", "Judged", "Not judged")) == counts
        best = Fraction(one.items - one.judged + one.right, one.items)
        if row.get("Bounds", "-") != "-":
            assert row["Bounds"] == f"{percent(Fraction(one.right, one.items))}-{percent(best)}"
        if one.undecided:
            assert one.low is not None
            assert row["If undecided wrong"] == percent(one.low)


def percent(share: Fraction) -> str:
    return f"{float(share):.1%}"


def try_run(folder: Path, seed: int) -> None:
    run, step = RandomRun(seed), Step(folder)
    with recording_server(run.reply) as server:
        done = step.run(RUN, run.inputs(folder, server.url))
    outputs = step.outputs
    assert "results" in outputs, done.stdout
    groups = count(folder / outputs["results"])
    expected = run.questions * run.replicates
    assert {one.items for one in groups.values()} == {expected}
    assert len(groups) == len(run.models) * (1 if run.jury else len(run.judges))
    check_outputs(groups, outputs)
    check_junit(groups, folder / outputs["junit"])
    check_markdown(groups, step.summary)
    check_printed(groups, done.stdout)
    unmet = Counter(unmet_conditions(run, groups))
    none_judged = not any(one.judged for one in groups.values())
    for text, number in unmet.items():
        assert done.stdout.count(text) == number, (text, number, done.stdout)
    assert outputs["exit-code"] == str(done.returncode) == ("1" if unmet else "4" if none_judged else "0"), done.stdout
    shown = preloaded.run(["show", outputs["results"], "--json"], folder=folder, environment=os.environ, timeout=120)
    found = {
        (one["answering"], one["judge"]): (one["items"], one["judged"], one["not_judged"], one["pass_rate"]["value"])
        for one in json.loads(shown.stdout)["summary"]["groups"]
    }
    assert found == {
        key: (one.items, one.judged, one.items - one.judged, None if one.rate is None else float(one.rate))
        for key, one in groups.items()
    }


@pytest.mark.parametrize("seed", range(3))
def test_rates_of_a_random_run_follow_from_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a narrow table is printed in two parts
    try_run(tmp_path, seed)
