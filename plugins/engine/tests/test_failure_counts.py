"""Equal failures are counted together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from command_runs import make_result

from karenina_core.data.outcome import Outcome
from karenina_engine.results.aggregate import MAX_KINDS, OTHERS, Failure, FailureCounts
from karenina_engine.results.result_set import VerificationResultSet
from karenina_engine.results.summary_text import summary_rows

if TYPE_CHECKING:
    from karenina_core.data.result import VerificationResult


def ranked(*errors: str) -> list[Failure]:
    counts = FailureCounts()
    for error in errors:
        counts.add(error, "none")
    return counts.ranked()


def test_failures_that_name_their_question_are_equal() -> None:
    counts = FailureCounts()
    for id in ("genes-one", "genes-two"):
        counts.add(f"{id}, line 3: question {id} has no answer template", id)
    assert counts.ranked() == [Failure(2, "line 3: question ... has no answer template")]


def test_failures_that_differ_only_in_numbers_are_equal() -> None:
    found = ranked(
        "no reply; 2 attempts, with 0.3 s of waiting in all",
        "HTTP 404: not found",
        "no reply; 5 attempts, with 12.9 s of waiting in all",
        "9,001 tokens are more than 8192",
        "10,500 tokens are more than 8192",
        "no reply",
    )
    assert found == [
        Failure(3, "no reply"),
        Failure(2, "9,001 tokens are more than 8192"),
        Failure(1, "HTTP 404: not found"),
    ]


def test_failures_that_quote_their_item_are_equal() -> None:
    def failed(id: str, question: str, answer: str, extracted: str) -> VerificationResult:
        """Return a result whose error quotes its question, its id and its values."""
        error = f"no recording for {id!r} ({question[:30] + '…'!r}): {answer!r} has no number; {extracted!r} may be 0"
        return make_result(
            id,
            Outcome.MODEL_ERROR,
            metadata={"error": error, "question_text": question},
            template={"raw_llm_response": answer, "parsed_llm_response": {"size": [extracted]}},
        )

    results = VerificationResultSet(
        [
            failed("q1", "Which gene is\n mutated in cystic fibrosis?", 'It\'s "not" clear.', "no"),
            failed("q2", "What do Huntington's patients lack in their brains?", "I cannot say that.", "none"),
            failed("q3", "In which year did event 23003 occur, if it occurred?", "See above.", "zilch"),
        ]
    )
    assert results.failures() == [Failure(3, "no recording for '...' ('...'): '...' has no number; '...' may be 0")]


def test_quotations_that_are_not_of_the_item_are_kept() -> None:
    counts = FailureCounts()
    for field in ("gene", "disease"):
        counts.add(f"field {field!r} is missing; don't guess it's 'x'", "q1", ["Which gene causes which disease?"])
    assert len(counts.ranked()) == 2


def test_http_statuses_and_model_names_are_kept() -> None:
    assert (
        len(
            ranked("HTTP 404: sorry", "HTTP 502: sorry", "gpt-5-mini failed", "gpt-4o failed", "m1 failed", "m2 failed")
        )
        == 6
    )


def test_the_number_of_counted_failures_is_limited() -> None:
    found = ranked(*(f"m{number} failed" for number in range(MAX_KINDS + 10)), "y" * 10_000)
    assert len(found) == MAX_KINDS + 1
    assert found[0] == Failure(11, OTHERS)


def test_a_single_reason_more_is_printed_and_not_counted() -> None:
    def printed(kinds: int) -> list[str]:
        results = [
            make_result(
                f"q{kind}", Outcome.MODEL_ERROR, metadata={"error": f"the server of {'abcdefgh'[kind]} is down"}
            )
            for kind in range(kinds)
        ]
        return [
            text for name, text in summary_rows(VerificationResultSet(results)) if " x " in text and name != "Tokens"
        ]

    assert len(printed(6)) == 6
    assert "other reason" not in printed(6)[-1]
    assert printed(7)[-1] == "2 x 2 other reasons, in `failures()` and `karenina show`"
