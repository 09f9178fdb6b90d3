"""Loads a question's template on first use and stores it with the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_core.data.trust import NO_TRUST, Trust
from karenina_template.templates.bound_template import Template
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.primitives import Primitive, known_primitives
from karenina_template.templates.source.cache import find_shape
from karenina_template.templates.source.literals import split_literals
from karenina_template.templates.source.loading import load_template, template_of_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_core.data.question import Question


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A template and the trust used to load it. `trust` is None if the template needs no trust."""

    template: Template
    trust: Trust | None


def template_of(question: Question, trust: Trust = NO_TRUST) -> Template | None:
    """Return the question's answer template, or None if it has none.

    The template is stored with the question, and loaded again only if a different `trust` is passed. `trust` decides
    which sources may be executed (by default, none). Classes, and sources that contain only declarations, need no
    trust. Raises `TemplateError` for an invalid template, and `UntrustedTemplate` for code that is not trusted.
    """
    loaded = question.attachment
    if isinstance(loaded, _Loaded) and (loaded.trust is None or loaded.trust == trust):
        return loaded.template
    answer_class = question.answer_class
    if answer_class is not None:
        template = template_of_class(answer_class)
    elif question.answer_template is not None:
        template = load_template(question.answer_template, trust=trust, name=question.id)
    else:
        return None
    question.attach(_Loaded(template, trust))
    return template


def may_need_judge(question: Question) -> bool:
    """Return whether the question's template may have a field that a judge fills, without loading the template.

    The result can be True for a template without such a field, and for a question without a template source, but is
    never False for a template with such a field.
    """
    if isinstance(question.attachment, _Loaded) or question.answer_template is None:
        return True
    split = split_literals(question.answer_template)
    shape = find_shape(split) if split is not None else None
    return shape is None or bool(shape.judge_fields)


def keep_template(question: Question, template: Template) -> None:
    """Store `template`, which the caller must have loaded without trust, so that `template_of` returns it for any
    trust.
    """
    question.attach(_Loaded(template, None))


def template_source_of(question: Question) -> str | None:
    """Return the source of the question's template or template class, or None if it has no template.

    Raises `TemplateError` for a class whose source is unavailable.
    """
    if question.answer_class is None:
        return question.answer_template
    template = template_of(question)
    return None if template is None else template.source


def standalone_source_of(question: Question, trust: Trust) -> str | None:
    """Return a source from which another process can load the question's template, or None if it has no template.

    The source of a template class is loaded with `trust` to test it; a question's own source is returned untested.
    Raises `TemplateError` for a class whose source is unavailable or cannot be loaded on its own.
    """
    source = template_source_of(question)
    if question.answer_class is not None and source is not None:
        load_template(source, trust=trust, name=question.id)
    return source


def field_options_of(question: Question, trust: Trust = NO_TRUST) -> Mapping[str, Mapping[str, object]]:
    """Return the plugin options in the question's template, keyed by field. Fields without options are left out.

    Return an empty mapping if there is no template or it cannot be loaded.
    """
    try:
        template = template_of(question, trust)
    except TemplateError:
        return {}
    rules = template.key.rules if template is not None else {}
    return {name: rule.options for name, rule in rules.items() if rule.options}


def primitive_kinds() -> Mapping[str, type[Primitive]]:
    """Return the primitive classes that templates may use, keyed by name."""
    return known_primitives()


def primitives_in(source: str) -> list[Primitive]:
    """Return the primitives declared in a template source, or an empty list
    if the source contains code or is invalid.
    """
    try:
        template = load_template(source)
    except TemplateError:
        return []
    return [rule.primitive for rule in template.key.rules.values()]
