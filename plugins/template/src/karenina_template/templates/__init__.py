"""Answer templates: classes that a judge fills and a program verifies."""

from karenina_template.templates import primitives
from karenina_template.templates.base import AnswerKey, BaseAnswer
from karenina_template.templates.bound_template import BoundTemplate, Template
from karenina_template.templates.compose import AllOf, AnyOf, AtLeastN, FieldCheck, Tree
from karenina_template.templates.errors import TemplateError, UntrustedTemplate
from karenina_template.templates.field import FieldRule, VerifiedField
from karenina_template.templates.normalize import SynonymMap
from karenina_template.templates.primitives import *  # noqa: F403 - the names in its `__all__`
from karenina_template.templates.regex_checks import RegexReport, verify_patterns
from karenina_template.templates.source.loading import load_template

__all__ = [
    "AllOf",
    "AnswerKey",
    "AnyOf",
    "AtLeastN",
    "BaseAnswer",
    "BoundTemplate",
    "FieldCheck",
    "FieldRule",
    "RegexReport",
    "SynonymMap",
    "Template",
    "TemplateError",
    "Tree",
    "UntrustedTemplate",
    "VerifiedField",
    "load_template",
    "verify_patterns",
]
__all__ += primitives.__all__
