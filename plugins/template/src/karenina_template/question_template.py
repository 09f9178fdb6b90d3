"""Loading a question's template on first use, and keeping it with the question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from karenina_core.data.trust import NO_TRUST, Trust
from karenina_template.templates.bound_template import Template
from karenina_template.templates.errors import TemplateError
from karenina_template.templates.primitives import Primitive, known_primitives
from karenina_template.templates.source.cache import find_shape, split_literals
from karenina_template.templates.source.loading import load_template, template_of_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_core.data.question import Question


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A template, and the trust it was loaded with. None means that it needs no trust."""

    template: Template
    trust: Trust | None


def template_of(question: Question, trust: Trust = NO_TRUST) -> Template | None:
    """Return the template of a question, if it has one.

    It is kept with the question, and only loaded again with a different `trust`. `trust` says which sources may be
    executed; by default, none. Classes and mere declarations need no trust. Raises `TemplateError` if the template is
    invalid, and `UntrustedTemplate` if its code is not trusted.
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
    """Return whether a judge may have to fill fields of the question's template, without loading it.

    True may be wrong, but False never is.
    """
    if isinstance(question.attachment, _Loaded) or question.answer_template is None:
        return True
    split = split_literals(question.answer_template)
    shape = find_shape(split) if split is not None else None
    return shape is None or bool(shape.judge_fields)


def keep_template(question: Question, template: Template) -> None:
    """Keep a template that was loaded without trust, so that `template_of` returns it for any trust."""
    question.attach(_Loaded(template, None))


def template_source_of(question: Question) -> str | None:
    """Return the source of the question's template or template class, if it has one.

    Raises `TemplateError` if the source of a class is unavailable.
    """
    if question.answer_class is None:
        return question.answer_template
    template = template_of(question)
    return None if template is None else template.source


def standalone_source_of(question: Question, trust: Trust) -> str | None:
    """Return a source from which another process can load the question's template, if it has one.

    For a template class, this is tested by loading the source with `trust`. Raises `TemplateError` if the source of a
    class is unavailable or cannot be loaded on its own.
    """
    source = template_source_of(question)
    if question.answer_class is not None and source is not None:
        load_template(source, trust=trust, name=question.id)
    return source


def field_options_of(question: Question, trust: Trust = NO_TRUST) -> Mapping[str, Mapping[str, object]]:
    """Return the options for plugins in the question's template, by field.

    Empty if there is no template or it cannot be loaded.
    """
    try:
        template = template_of(question, trust)
    except TemplateError:
        return {}
    rules = template.key.rules if template is not None else {}
    return {name: rule.options for name, rule in rules.items() if rule.options}


def primitive_kinds() -> Mapping[str, type[Primitive]]:
    """Return the primitive classes that templates may use, by name."""
    return known_primitives()


def primitives_in(source: str) -> list[Primitive]:
    """Return the primitives declared in a template source. Empty if it contains code or is invalid."""
    try:
        template = load_template(source)
    except TemplateError:
        return []
    return [rule.primitive for rule in template.key.rules.values()]
