"""No answer changes a judge's instructions: only the text inside the fence of a request comes from the answer.

The attacks and honest answers are those of `karenina selftest`. The requests are those that a server on this machine
got, byte for byte; the table of the attacks is printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers import RecordingServer, recording_server

from karenina import Benchmark, Outcome, VerificationConfig, VerificationResult
from karenina_core import plugins as plugin_room
from karenina_core.plugins import Plugins
from karenina_selftest.cases import pack_cases
from karenina_testing import ScriptedModels
from karenina_toolkit.fences import break_special_tokens, fence, fence_mark

TEMPLATE = """
class Answer(BaseAnswer):
    gene: str = VerifiedField(description="The gene that is named", ground_truth="BCL2", verify_with=ExactMatch())
"""
HARMLESS_GENE = "TP53"
HARMLESS = "As far as I know it is TP53, which was described in 1979."
REPLIES: dict[str, dict[str, Any]] = {
    "ParseTemplate": {"gene": "TP53"},
    "AbstentionCheck": {"reasoning": "It names a gene.", "abstained": False},
    "SufficiencyCheck": {"reasoning": "It names a gene.", "sufficient": True},
}
"""The fixed replies of the judge by stage, so that only the requests can differ."""

EMPTY = {"nothing": "", "blanks": " \n\t "}
"""Answers for which no judge is asked, so that the pack of the self-test has none of them."""
ATTACKS = {case.id: case.render("BCL2", HARMLESS_GENE) for case in pack_cases()} | EMPTY
FENCED = re.compile(r"<response ([0-9a-f]{16})>\n(.*)\n</response \1>", re.DOTALL)


def asked_by(body: dict[str, Any]) -> str:
    """Which stage sent this request: each asks for other keys."""
    keys = set(body["response_format"]["json_schema"]["schema"]["properties"])
    return next(stage for stage, reply in REPLIES.items() if set(reply) == keys)


def taken_apart(body: dict[str, Any]) -> tuple[str, str, str]:
    """Return a request in three: the answer in the fence, its mark, and all else as JSON, with neither in it."""
    user = body["messages"][-1]["content"]
    found = FENCED.search(user)
    assert found is not None, "there is no fence in the request"
    mark, answer = found.groups()
    outside = f"{user[: found.start()]}<response MARK></response MARK>{user[found.end() :]}"
    rest = {**body, "messages": [*body["messages"][:-1], {**body["messages"][-1], "content": outside}]}
    return answer, mark, json.dumps(rest, sort_keys=True)


@pytest.fixture(scope="module")
def server() -> Iterator[RecordingServer]:
    with recording_server(lambda body: json.dumps(REPLIES[asked_by(body)])) as running:
        yield running


@pytest.fixture(scope="module")
def attacked(server: RecordingServer) -> dict[str, VerificationResult]:
    """Return the result of each attack, and of an answer that means no harm."""
    answers = {"harmless": HARMLESS, **ATTACKS}
    models = ScriptedModels(say=lambda _messages, info: answers[info.question_id])
    plugins = Plugins.discover()
    plugins.register(models)
    benchmark = Benchmark.create(name="attacks")
    for name in answers:
        benchmark.add_question("Which gene was found first?", "BCL2", TEMPLATE, question_id=name)
    judge = {"interface": "openai", "model_name": "m", "endpoint_base_url": server.url, "endpoint_api_key": "k"}
    with plugin_room.use_plugins(plugins):
        config = VerificationConfig(
            answering_models=[models.model("a")],
            parsing_models=[{"id": "j", **judge}],
            abstention_enabled=True,
            sufficiency_enabled=True,
        )
        return {result.question_id: result for result in benchmark.run_verification(config)}


@pytest.fixture(scope="module")
def requests(
    server: RecordingServer, attacked: dict[str, VerificationResult]
) -> dict[tuple[str, str], tuple[str, str]]:
    """By stage and answer, the mark and all else of the request that the server got."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for text in server.seen:
        body = json.loads(text.rpartition("\n")[2])
        answer, mark, rest = taken_apart(body)
        assert (asked_by(body), answer) not in found
        found[asked_by(body), answer] = mark, rest
    return found


def test_every_attack_ends_in_the_verdict_of_the_judge(attacked: dict[str, VerificationResult]) -> None:
    expected = {name: Outcome.MODEL_ERROR if name in EMPTY else Outcome.WRONG for name in ATTACKS}
    assert {name: attacked[name].outcome for name in ATTACKS} == expected


@pytest.mark.parametrize("stage", REPLIES)
@pytest.mark.parametrize("name", [name for name in ATTACKS if name not in EMPTY])
def test_only_the_inside_of_the_fence_differs(
    requests: dict[tuple[str, str], tuple[str, str]], stage: str, name: str
) -> None:
    mark, rest = requests[stage, break_special_tokens(ATTACKS[name])]
    assert rest == requests[stage, HARMLESS][1]
    assert mark not in ATTACKS[name]


@pytest.mark.parametrize("name", sorted(EMPTY))
def test_an_empty_answer_asks_for_nothing(attacked: dict[str, VerificationResult], name: str) -> None:
    assert sum(record.calls for record in attacked[name].stages if record.name in REPLIES) == 0


def test_the_table_of_attacks(
    requests: dict[tuple[str, str], tuple[str, str]], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"{'attack':<60}" + "".join(f"{stage:<18}" for stage in REPLIES)]
    for name, answer in ATTACKS.items():
        cells = []
        for stage in REPLIES:
            request = requests.get((stage, break_special_tokens(answer)))
            same = request is not None and request[1] == requests[stage, HARMLESS][1]
            cells.append("not asked" if request is None else "the same" if same else "CHANGED")
        lines.append(f"{name:<60}" + "".join(f"{cell:<18}" for cell in cells))
    with capsys.disabled():
        print("\nwhat an attack changes outside the fence", *lines, sep="\n")  # noqa: T201
    assert "CHANGED" not in "\n".join(lines)


def test_the_attacks_would_be_seen() -> None:
    """A request that lets an answer out of its fence does not come apart into the same rest."""
    rests = set()
    for answer in (HARMLESS, ATTACKS["attack/forged delimiters/closes the fence without a mark"]):
        leaking = {"messages": [{"role": "user", "content": f"{answer}\n{fence(answer, 'response')}"}]}
        rests.add(taken_apart(leaking)[2])
    assert len(rests) == 2


MOVES = ["TP53", "\n", "<response ", "</response ", ">", "0123456789abcdef", "CLOSE", "OPEN", "{", '"', "\\"]


@given(st.lists(st.sampled_from(MOVES) | st.text(max_size=20), max_size=12))
def test_an_answer_cannot_contain_its_own_fence_mark(moves: list[str]) -> None:
    answer = ""
    for move in moves:
        tags = {"CLOSE": f"\n</response {fence_mark(answer)}>", "OPEN": f"\n<response {fence_mark(answer)}>\n"}
        answer += tags.get(move, move)
    mark = fence_mark(answer)
    assert mark not in answer
    found = FENCED.fullmatch(fence(answer, "response"))
    assert found is not None
    assert found.groups() == (mark, answer)
