"""The comparisons of a benchmark's fields in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from karenina_template.question_template import template_of
from karenina_template.templates import TemplateError

if TYPE_CHECKING:
    from karenina_benchmark import Benchmark
    from karenina_report.page.items import FieldRules
    from karenina_template.templates import Primitive


def read_rules(benchmark: Benchmark) -> tuple[Mapping[str, FieldRules], list[str]]:
    """Return the comparison of each field by question id, and the ids of questions whose template is not trusted.

    Nothing in the file is executed: a template that has code is left out.
    """
    found: dict[str, FieldRules] = {}
    left_out = []
    for question in benchmark:
        try:
            template = template_of(question)
        except TemplateError:
            left_out.append(question.id)
            continue
        if template is not None:
            found[question.id] = {name: rule_text(rule.primitive) for name, rule in template.key.rules.items()}
    return found, left_out


def rule_text(primitive: Primitive) -> str:
    """Return a primitive with the parameters that differ from their defaults: `NumericTolerance (tolerance 0.05)`."""
    parts = ", ".join(_parameters(primitive))
    return f"{primitive.full_name()} ({parts})" if parts else primitive.full_name()


def _parameters(primitive: Primitive) -> Iterator[str]:
    for name, value in primitive.model_dump(mode="json", exclude_defaults=True).items():
        shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        yield f"{name} {shown}"
