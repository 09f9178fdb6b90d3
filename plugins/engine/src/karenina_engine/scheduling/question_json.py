"""Questions as JSON, for executors that work in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from karenina_template.question_template import standalone_source_of

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.trust import Trust


def question_to_json(question: Question, trust: Trust) -> dict[str, Any]:
    """Return JSON values from which another process makes the question; a template's class goes by its source.

    Raises `ValueError` for a class whose source is not available, or does not make the template by itself, and for a
    function of a trait that runs only in this process.
    """
    for rubric in (question.rubric, question.dynamic_rubric):
        for trait in rubric.callable_traits if rubric is not None else ():
            if trait.given is not None and trait.source is not None and not trust.covers(trait.source):
                raise ValueError(
                    f"the function of trait {trait.name!r} is not trusted in other processes: put it into a module "
                    'that they can import, or pass trust="all"'
                )
    values = question.model_dump(mode="json")
    if question.answer_class is not None:
        values["answer_template"] = standalone_source_of(question, trust)
    return values
