"""The metadata of results that tests write by hand."""

from __future__ import annotations

from karenina_core.data.sections import ModelIdentity, VerificationResultMetadata


def metadata(question: str = "q", judge: str = "j", replicate: int | None = 1) -> VerificationResultMetadata:
    """Return the metadata of a result for this question, judge and replicate."""
    return VerificationResultMetadata(
        question_id=question,
        template_id="t",
        result_id="r",
        question_text="Which?",
        answering_id="a",
        parsing_id=judge,
        answering=ModelIdentity(interface="x", model_name="y"),
        parsing=ModelIdentity(interface="x", model_name="z"),
        replicate=replicate,
    )
