"""`load_template`: from source text to a template."""

from __future__ import annotations

import ast
import datetime
import decimal
import enum
import typing

import pydantic

from karenina_core.data.trust import NO_TRUST, Trust, digest_of
from karenina_template.templates import stencil
from karenina_template.templates.answer_key import AnswerKey
from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.compose import AllOf, AnyOf, AtLeastN, FieldCheck
from karenina_template.templates.declaration import Declaration
from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.execution import executed
from karenina_template.templates.field import FieldRule, VerifiedField
from karenina_template.templates.literals import Cut, cut
from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import known_primitives
from karenina_template.templates.shape import shape_of_declaration
from karenina_template.templates.source import declaration_of, parsed
from karenina_template.templates.syntax import known_in
from karenina_template.templates.template import Template, template_id


def load_template(source: str, *, trust: Trust = NO_TRUST, name: str = "template") -> Template:
    """The template that `source` is.

    A source that only declares (a docstring, imports of known names, classes of annotated fields) is rebuilt from its
    syntax tree and never executed. Any other is code, and runs only where `trust` covers it. `name` stands in errors.

    Raises `UntrustedTemplate` for code without trust (nothing has run), and `TemplateError`, with the line where it is
    known, for everything else that keeps the source from being a template.
    """
    pieces = cut(source)
    known = stencil.filled(pieces, source) if pieces is not None else None
    return known if known is not None else read_template(source, pieces, trust=trust, name=name)


def read_template(
    source: str, pieces: Cut | None = None, *, trust: Trust = NO_TRUST, name: str = "template"
) -> Template:
    """`load_template` where nothing is known of other sources; with `pieces`, its own, others may profit from it."""
    try:
        tree = parsed(source)
        try:
            declaration = declaration_of(tree, digest_of(source))
        except UntrustedTemplate:
            if not trust.covers(source):
                raise
            return _trusted(tree, source)
        template = _declared(declaration, source)
        if pieces is not None:
            stencil.learn(pieces, source, tree, declaration, template)
    except TemplateError as error:
        raise error.at(template=name) from error.__cause__
    except RecursionError as error:
        raise TemplateError("the source is nested too deeply", template=name) from error
    return template


def _declared(declaration: Declaration, source: str) -> Template:
    answer = declaration.answer
    try:
        shape = shape_of_declaration(declaration)
    except TemplateError as error:
        raise error.at(answer.line) from error
    rules: dict[str, FieldRule] = {}
    for field in answer.fields.values():
        if field.rule is None:
            continue
        try:
            rules[field.name] = field.rule.fitted(shape.truths, field.name)
        except TemplateError as error:
            raise error.at(field.line) from error
    return Template(
        shape,
        AnswerKey(rules, answer.strategy),
        template_id(source),
        answer.docstring,
        source,
        declaration.descriptions(),
    )


def _trusted(tree: ast.Module, source: str) -> Template:
    cls, shape = executed(tree, digest_of(source), _names())
    return Template.of_class(cls, shape, source)


_MODULES = (typing, datetime, enum, decimal, pydantic)


def _names() -> dict[str, object]:
    return {
        **{name: getattr(module, name) for module in _MODULES for name in known_in(module.__name__)},
        "BaseAnswer": BaseAnswer,
        "VerifiedField": VerifiedField,
        "AllOf": AllOf,
        "AnyOf": AnyOf,
        "AtLeastN": AtLeastN,
        "FieldCheck": FieldCheck,
        "SynonymMap": SynonymMap,
        **known_primitives(),
    }
