"""Describing field rules in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_template.question_template import template_of
from karenina_template.templates.errors import TemplateError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from karenina_core.data.question import Question
    from karenina_template.templates.bound_template import Template
    from karenina_template.templates.primitives import Primitive


def describe_rules(questions: Iterable[Question]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the id of each question's template and its rules in words, by field. Nothing is executed: templates with
    code are left out, and so are invalid ones.
    """
    for question in questions:
        try:
            template = template_of(question)
        except TemplateError:
            continue
        if template is not None:
            yield template.template_id, template_rules(template)


def template_rules(template: Template) -> dict[str, str]:
    """Return the rule of each field of a template."""
    return {name: _rule_text(rule.primitive) for name, rule in template.key.rules.items()}


def _rule_text(primitive: Primitive) -> str:
    """Describe a primitive with its parameters, as in `NumericTolerance (tolerance 0.05)`. Defaults are left out."""
    parts = ", ".join(_parameters(primitive))
    return f"{primitive.full_name()} ({parts})" if parts else primitive.full_name()


def _parameters(primitive: Primitive) -> Iterator[str]:
    """Yield the name and value of each parameter that is not the default."""
    for name, value in primitive.model_dump(mode="json", exclude_defaults=True).items():
        yield f"{name} {', '.join(map(_parameter_text, value)) if isinstance(value, list) else _parameter_text(value)}"


def _parameter_text(value: object) -> str:
    """Return a parameter as text. For a synonym map, this is just the number of entries."""
    if isinstance(value, dict) and isinstance(value.get("mapping"), dict):
        return quantity(len(value["mapping"]), "other spelling")
    return str(value)
