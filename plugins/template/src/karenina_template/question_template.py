"""Loads a question's template on first use and keeps it with the question."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from karenina_core.data.trust import NO_TRUST, Trust
from karenina_template.templates.bound_template import Template
from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.primitives import Primitive, known_primitives
from karenina_template.templates.source.cache import find_shape
from karenina_template.templates.source.literals import split_literals
from karenina_template.templates.source.loading import load_template, template_of_class
from karenina_template.templates.source.reading import parse_source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from karenina_core.data.question import Question


_SOURCE: Final = re.compile(r"\bsource\s*=")


@dataclass(slots=True)
class _Loaded:
    """A loaded template and the trust that was used to load it. None means that no trust was needed."""

    template: Template
    trust: Trust | None


def template_of(question: Question, trust: Trust = NO_TRUST) -> Template | None:
    """Load the question's template, and return it, or None if it has none. Raises `TemplateError` if it is invalid, and
    `UntrustedTemplate` if its source contains code that `trust` does not cover; by default, that is any code. An answer
    class needs no trust.

    Classes and pure declarations need no trust. The template is kept with the question, and is only loaded again for a
    different `trust`, if it contains code.
    """
    loaded = question.derived
    if isinstance(loaded, _Loaded) and (loaded.trust is None or loaded.trust == trust):
        return loaded.template
    answer_class = question.answer_class
    if answer_class is not None:
        template = template_of_class(answer_class)
    elif question.answer_template is not None:
        template = load_template(question.answer_template, trust=trust, name=question.id)
    else:
        return None
    question.keep_derived(_Loaded(template, trust if template.has_code else None))
    return template


def loaded_template(question: Question) -> Template | None:
    """Return the question's template if it is loaded already and needed no trust, otherwise None."""
    loaded = question.derived
    return loaded.template if isinstance(loaded, _Loaded) and loaded.trust is None else None


def may_need_judge(question: Question) -> bool:
    """Return whether a judge may be needed to fill the question's template, without loading the template. The result
    may be True although no judge is needed, but False is always right.
    """
    if isinstance(question.derived, _Loaded) or question.answer_template is None:
        return True
    split = split_literals(question.answer_template)
    shape = find_shape(split) if split is not None else None
    return shape is None or bool(shape.judge_fields)


def known_values_of(question: Question) -> tuple[str, ...]:
    """Return the names of the known values that fill fields of the question's template, without duplicates, or an empty
    tuple if there is no valid template. Code is searched without executing it, so names that it computes are not found.
    """
    source = question.answer_template or ""
    if question.answer_class is None and ("source" not in source or _SOURCE.search(source) is None):
        return ()
    try:
        template = template_of(question)
    except UntrustedTemplate:
        return _sources_in_code(source)
    except TemplateError:
        return ()
    return tuple(dict.fromkeys(template.key.sources().values())) if template is not None else ()


def _sources_in_code(source: str) -> tuple[str, ...]:
    """Return the string literals passed as `source` to `VerifiedField`, without duplicates."""
    arguments = [
        argument.value.value
        for node in ast.walk(parse_source(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("VerifiedField")
        for argument in node.keywords
        if argument.arg == "source" and isinstance(argument.value, ast.Constant)
    ]
    return tuple(dict.fromkeys(name for name in arguments if isinstance(name, str)))


def keep_template(question: Question, template: Template) -> None:
    """Keep `template` with the question, so that `template_of` returns it for any trust. Use this only for templates
    that were loaded without trust.
    """
    question.keep_derived(_Loaded(template, None))


def template_source_of(question: Question) -> str | None:
    """Return the source of the question's template or template class, or None if it has no template. Raises
    `TemplateError` if the source of the class is unavailable.
    """
    if question.answer_class is None:
        return question.answer_template
    template = template_of(question)
    return None if template is None else template.source


def standalone_source_of(question: Question, trust: Trust) -> str | None:
    """Return a source from which another process can load the question's template, or None if it has no template.
    Raises `TemplateError` if the source is unavailable or cannot be loaded on its own.

    The source of a template class is loaded with `trust` to make sure that it works.
    """
    source = template_source_of(question)
    if question.answer_class is not None and source is not None:
        load_template(source, trust=trust, name=question.id)
    return source


def field_options_of(question: Question, trust: Trust = NO_TRUST) -> Mapping[str, Mapping[str, object]]:
    """Return the plugin options in the question's template, keyed by field. The result is empty if there is no template
    or it cannot be loaded.
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
    """Return the primitives declared in a template source, or an empty list if it contains code or is invalid."""
    try:
        template = load_template(source)
    except TemplateError:
        return []
    return [rule.primitive for rule in template.key.rules.values()]
