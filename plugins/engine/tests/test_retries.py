"""Tests of retries in results: each failed request is recorded, whether or not a reply came at last."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from command_runs import make_plugins

from karenina_benchmark import Benchmark
from karenina_core import plugins as plugin_room
from karenina_core.data.result import VerificationResult
from karenina_core.models.ports import CallNotes, ErrorCategory, PortError
from karenina_engine.calls.retry import RetryPolicy

QUICK = RetryPolicy(base=0.001)
RATE, SERVER, PERMANENT = ErrorCategory.RATE_LIMIT, ErrorCategory.SERVER, ErrorCategory.PERMANENT


def asked(failures: Sequence[ErrorCategory], policy: RetryPolicy = QUICK) -> VerificationResult:
    """Return the result of one question, whose model fails in these ways before it answers."""
    left = list(failures)

    def say(_question: str) -> str:
        if left:
            raise PortError("not now", category=left.pop(0))
        return "an answer"

    benchmark = Benchmark.create("Words")
    benchmark.add_question("What is a?", question_id="a")
    model = {"id": "m", "interface": "scripted", "model_name": "m"}
    with plugin_room.use_plugins(make_plugins(say)):
        config = {"answering_models": [model], "evaluation_mode": "rubric_only"}
        return benchmark.run_verification(config, policy=policy)[0]


@pytest.mark.parametrize(
    ("failures", "retries", "error"),
    [
        ([], {}, None),
        ([RATE, SERVER, RATE], {"rate_limit": 2, "server": 1}, None),
        ([RATE, PERMANENT], {"rate_limit": 1}, "not now"),
        ([SERVER] * 9, {"server": 4}, "not now"),
    ],
)
def test_a_stage_records_what_was_asked_again(
    failures: list[ErrorCategory], retries: dict[str, int], error: str | None
) -> None:
    record = asked(failures).stage("Say")

    assert record is not None
    assert record.retries == retries
    assert (record.waited > 0) is bool(retries)
    assert (record.error is None) if error is None else (error in (record.error or ""))


def test_a_rate_limit_to_the_last_try_has_a_cure() -> None:
    error = PortError("m responded with HTTP 429", category=ErrorCategory.RATE_LIMIT, status=429)
    notes = CallNotes()
    policy = RetryPolicy(max_retries={ErrorCategory.RATE_LIMIT: 1})
    policy.next_delay(error, notes)
    with pytest.raises(PortError, match=r"2 attempts.*max_concurrency.*retry_rate_limit and retry_patience"):
        policy.next_delay(error, notes)


@pytest.mark.parametrize(
    ("wait", "waited", "said"),
    [
        (864.0, 0.0, "a wait of 864 s, which is longer than retry_patience (3 s) allows"),
        (0.25, 2.9, "a wait of 0.25 s, which is longer than retry_patience (3 s) still allows"),
    ],
)
def test_a_wait_beyond_the_patience_is_named(wait: float, waited: float, said: str) -> None:
    error = PortError("m responded with HTTP 503", category=SERVER, status=503, retry_after=wait)
    with pytest.raises(PortError) as caught:
        RetryPolicy(base=0.0, patience=3.0).next_delay(error, CallNotes(waited=waited))
    assert str(caught.value).endswith(f"; the server requested {said}")


def test_the_attempts_of_a_run_are_a_field_of_the_error() -> None:
    error = PortError("m is down", category=SERVER)
    notes = CallNotes()
    policy = RetryPolicy(max_retries={SERVER: 1}, base=0.0)
    policy.next_delay(error, notes)
    with pytest.raises(PortError) as caught:
        policy.next_delay(error, notes)
    assert (error.args, error.attempts) == (("m is down",), "; 2 attempts, with 0.0 s of waiting in all")
    assert str(caught.value) == "m is down; 2 attempts, with 0.0 s of waiting in all"
