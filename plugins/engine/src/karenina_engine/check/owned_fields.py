"""The check of fields that plugins own in questions, traits and template fields."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ValidationError

from karenina_core.catalog import read_catalog
from karenina_core.config.setting_owners import not_loaded
from karenina_core.data.rubrics import LLMRubricTrait
from karenina_core.data.trust import NO_TRUST, Trust
from karenina_core.namespaces import describe_unknown, namespace_of, owned_fields, read_owned, third_parties
from karenina_core.stages.stage import registered_stages
from karenina_template.question_template import field_options_of

if TYPE_CHECKING:
    from karenina_core.data.question import Question
    from karenina_core.data.rubrics import Rubric
    from karenina_core.plugins import Plugins

Kind = Literal["question_fields", "trait_fields", "template_fields"]
Models = Mapping[str, type[BaseModel]]
Given = tuple[Kind, str, Mapping[str, object]]
"""The values of one question, trait or template field: kind, the trait's or field's name, and values by full name."""


class OwnedFields:
    """The fields that installed plugins own, by full name, each with the model that declares it."""

    def __init__(self, plugins: Plugins) -> None:
        stages = [one.stage for one in registered_stages(plugins)]
        self.models: Mapping[Kind, Models] = {
            "question_fields": owned_fields(stage.question_settings for stage in stages),
            "trait_fields": owned_fields(stage.trait_settings for stage in stages),
            "template_fields": owned_fields(stage.field_settings for stage in stages),
        }

    def problems(self, question: Question, trust: Trust = NO_TRUST) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each problem in a question's plugin-owned values, with the path of the value in the question.

        A name without an owner (also one whose plugin is not installed) and an invalid value are problems.
        """
        yield from self.problems_in(given_fields(question, trust))

    def problems_in(self, given: Iterable[Given]) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield each problem in `given`, as `problems` does."""
        for kind, place, values in given:
            models = self.models[kind]
            path = ("answer", place) if kind == "template_fields" else ()
            where = f"field {place!r}: " if kind == "template_fields" else f"trait {place!r}: " if place else ""
            for name in values:
                if name not in models and (kind != "trait_fields" or "." in name):
                    why = describe_unknown(name, models, read_catalog()[kind]) + not_loaded()
                    yield f"{where}{name}: {why}", (*path, name)
            for model in {models[name]: None for name in values if name in models}:
                try:
                    read_owned(model, values)
                except ValidationError as error:
                    for one in error.errors(include_url=False):
                        name = namespace_of(model) + ".".join(map(str, one["loc"]))
                        yield f"{where}{name}: {one['msg'].removeprefix('Value error, ')}", (*path, name)


def given_fields(question: Question, trust: Trust = NO_TRUST) -> Iterator[Given]:
    """Yield a question's plugin-owned values: its own, its traits', and its template fields'."""
    if question.extra:
        yield "question_fields", "", question.extra
    yield from trait_fields(question.rubric, question.dynamic_rubric)
    if _may_have_options(question):
        for name, options in field_options_of(question, trust).items():
            yield "template_fields", name, options


def trait_fields(*rubrics: Rubric | None) -> Iterator[Given]:
    """Yield the plugin-owned values of the traits in `rubrics`."""
    for rubric in rubrics:
        for trait in rubric.traits if rubric is not None else ():
            if isinstance(trait, LLMRubricTrait) and trait.extra:
                yield "trait_fields", trait.name, trait.extra


def _may_have_options(question: Question) -> bool:
    """Return, without loading the template, whether it may set options for plugins; most templates do not."""
    if question.answer_class is not None:
        return True
    source = question.answer_template or ""
    text = source if source.isascii() else unicodedata.normalize("NFKC", source)  # as Python reads names
    return any(name in text for name in (*third_parties(), *read_catalog()["template_fields"]))
