"""Describing field rules in words."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Final

from karenina_template.question_template import template_of
from karenina_template.templates.errors import TemplateError
from karenina_toolkit.printable import quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from karenina_core.data.question import Question
    from karenina_template.templates.bound_template import Template
    from karenina_template.templates.primitives import Primitive


_FASTEST: Final = 1
_MOST_TEXTS: Final = 256
_BLOCK: Final = 1 << 16
"""The maximum number of bytes of a block of lines."""


class RuleLines:
    """The rules of many templates, as lines of JSON with the id of a template and the rule of each of its fields.

    They are compressed in memory, to some 30 bytes for a template.
    """

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(_FASTEST)
        self._compressed = bytearray()
        self._texts: dict[tuple[tuple[str, int], ...], tuple[list[Primitive], str]] = {}  # by field and identity

    def add(self, question: Question) -> None:
        """Add the rules of a question's template. Nothing is executed: a template with code is left out."""
        try:
            template = template_of(question)
        except TemplateError:
            return
        if template is not None:
            line = f'["{template.template_id}", {self._rules(template)}]\n'
            self._compressed += self._compressor.compress(line.encode())

    def _rules(self, template: Template) -> str:
        """Return the rules of a template as JSON. Templates of one form share their primitives; the JSON of the same
        primitives is cached.
        """
        key = tuple([(name, id(rule.primitive)) for name, rule in template.key.rules.items()])
        known = self._texts.get(key)
        if known is None:
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            primitives = [rule.primitive for rule in template.key.rules.values()]
            known = self._texts[key] = primitives, json.dumps(template_rules(template))
        return known[1]

    def blocks(self) -> Iterator[bytes]:
        """Yield the lines added so far as bytes, in blocks that may end within a line."""
        reader, waiting = zlib.decompressobj(), bytes(self._compressed) + self._compressor.copy().flush()
        while block := reader.decompress(waiting, _BLOCK):
            waiting = reader.unconsumed_tail
            yield block


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
