"""The primitives: the ways of comparing one field with its truth, and their register."""

from .base import Primitive
from .dates import DateMatch, DateRange, DateTolerance
from .equality import BooleanMatch, LiteralMatch
from .graded import NumericGraded, NumericRangeGraded, NumericThresholdGraded
from .numeric import NumericExact, NumericMaximum, NumericMinimum, NumericRange, NumericTolerance
from .registry import (
    DuplicatePrimitive,
    UnknownPrimitive,
    known_primitives,
    primitive_from_json,
    register_primitive,
)
from .semantic import SemanticMatch
from .sets import OrderedMatch, SetContainment
from .text import ContainsAll, ContainsAny, ExactMatch, RegexMatch
from .trace import TraceContains, TraceLength, TracePrimitive, TraceRegex

__all__ = [
    "BooleanMatch",
    "ContainsAll",
    "ContainsAny",
    "DateMatch",
    "DateRange",
    "DateTolerance",
    "DuplicatePrimitive",
    "ExactMatch",
    "LiteralMatch",
    "NumericExact",
    "NumericGraded",
    "NumericMaximum",
    "NumericMinimum",
    "NumericRange",
    "NumericRangeGraded",
    "NumericThresholdGraded",
    "NumericTolerance",
    "OrderedMatch",
    "Primitive",
    "RegexMatch",
    "SemanticMatch",
    "SetContainment",
    "TraceContains",
    "TraceLength",
    "TracePrimitive",
    "TraceRegex",
    "UnknownPrimitive",
    "known_primitives",
    "primitive_from_json",
    "register_primitive",
]
