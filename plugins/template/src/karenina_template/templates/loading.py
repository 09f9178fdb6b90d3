"""Load a template from its source text: declarations are rebuilt, trusted code is executed."""

from __future__ import annotations

import ast
import datetime
import decimal
import enum
import typing

import pydantic

from karenina_core.data.trust import NO_TRUST, Trust, digest_of
from karenina_template.templates import source_cache
from karenina_template.templates.answer_key import AnswerKey
from karenina_template.templates.base import BaseAnswer
from karenina_template.templates.compose import AllOf, AnyOf, AtLeastN, FieldCheck
from karenina_template.templates.declaration import Declaration
from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.expressions import known_names
from karenina_template.templates.field import FieldRule, VerifiedField
from karenina_template.templates.literal_split import LiteralSplit, split_literals
from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import known_primitives
from karenina_template.templates.shape import shape_of_declaration
from karenina_template.templates.source_check import parse_source, read_declaration
from karenina_template.templates.template import Template, template_id
from karenina_template.templates.trusted_execution import run_trusted_source


def load_template(source: str, *, trust: Trust = NO_TRUST, name: str = "template") -> Template:
    """Return the template that `source` defines.

    A source that only declares (a docstring, imports of known names, classes of annotated fields) is rebuilt from its
    syntax tree and never executed. Any other source is code, which is executed only if `trust` covers it. `name` is
    the template's name in error messages.

    Raises `UntrustedTemplate` for code that is not trusted, before anything of it runs, and `TemplateError`, with the
    line if it is known, for every other reason why the source is not a valid template.
    """
    split = split_literals(source)
    found = source_cache.find_template(split, source) if split is not None else None
    return found if found is not None else read_template(source, split, trust=trust, name=name)


def read_template(
    source: str, split: LiteralSplit | None = None, *, trust: Trust = NO_TRUST, name: str = "template"
) -> Template:
    """Do as `load_template` does, without using the source cache. Given the source's `split`, add it to the cache."""
    try:
        tree = parse_source(source)
        try:
            declaration = read_declaration(tree, digest_of(source))
        except UntrustedTemplate:
            if not trust.covers(source):
                raise
            return _run_trusted(tree, source)
        template = _rebuild(declaration, source)
        if split is not None:
            source_cache.add_template(split, source, tree, declaration, template)
    except TemplateError as error:
        raise error.at(template=name) from error.__cause__
    except RecursionError as error:
        raise TemplateError("the source is nested too deeply", template=name) from error
    return template


def _rebuild(declaration: Declaration, source: str) -> Template:
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
            rules[field.name] = field.rule.with_coerced_truth(shape.coercer, field.name)
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


def _run_trusted(tree: ast.Module, source: str) -> Template:
    cls, shape = run_trusted_source(tree, digest_of(source), _make_namespace())
    return Template.of_class(cls, shape, source)


_MODULES = (typing, datetime, enum, decimal, pydantic)


def _make_namespace() -> dict[str, object]:
    return {
        **{name: getattr(module, name) for module in _MODULES for name in known_names(module.__name__)},
        "BaseAnswer": BaseAnswer,
        "VerifiedField": VerifiedField,
        "AllOf": AllOf,
        "AnyOf": AnyOf,
        "AtLeastN": AtLeastN,
        "FieldCheck": FieldCheck,
        "SynonymMap": SynonymMap,
        **known_primitives(),
    }
