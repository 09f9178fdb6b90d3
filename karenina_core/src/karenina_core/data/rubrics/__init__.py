"""Rubric traits: qualities of an answer that have no single correct value, as data. Stages score them."""

from karenina_core.data.rubrics.base import (
    RubricTrait,
    UnknownTrait,
    register_trait_kind,
    trait_from_json,
    trait_kinds,
    trait_to_json,
)
from karenina_core.data.rubrics.kinds import (
    AgenticRubricTrait,
    CallableRubricTrait,
    LLMRubricTrait,
    MetricRubricTrait,
    RegexRubricTrait,
)
from karenina_core.data.rubrics.rubric import DynamicRubric, Rubric, check_dynamic_names

__all__ = [
    "AgenticRubricTrait",
    "CallableRubricTrait",
    "DynamicRubric",
    "LLMRubricTrait",
    "MetricRubricTrait",
    "RegexRubricTrait",
    "Rubric",
    "RubricTrait",
    "UnknownTrait",
    "check_dynamic_names",
    "register_trait_kind",
    "trait_from_json",
    "trait_kinds",
    "trait_to_json",
]
