"""Artifacts, which are the typed values that stages pass to each other, and the thirteen slots for stages.

See `stage_selection` for the rules about slots. This module imports little, so that listing plugins stays fast.
"""

from __future__ import annotations

from enum import Enum
from inspect import isclass
from typing import Any, Final, Generic, Literal, TypeVar

T = TypeVar("T")
Section = Literal["root", "template", "rubric", "deep_judgment", "deep_judgment_rubric"]


class ArtifactKey(Generic[T]):
    """The name and type of an artifact.

    Keys with the same name are equal and must have the same type. `type` is checked when a value is set. None is always
    accepted and means "no value". If a key has a `section`, the artifact is also stored in the result as
    `result.<section>.<field>`.

    Third-party keys start with the name of their package: `ArtifactKey("my_package.words", int)`. `cure` tells the user
    how to get a valid value, and is added to the error message for an invalid one. Raises `ValueError` if the name is
    empty or has surrounding spaces, and `TypeError` if the type is not a class.
    """

    __slots__ = ("cure", "field", "name", "section", "type")

    def __init__(
        self, name: str, type: type[T], section: Section | None = None, field: str | None = None, cure: str = ""
    ) -> None:
        if not name or name != name.strip():
            raise ValueError(f"the artifact name {name!r} is empty, or has leading or trailing spaces")
        if not isclass(type):
            raise TypeError(f"the type of the artifact {name!r} must be a class, such as int or list, not {type!r}")
        self.name: Final = name
        self.type: Final = type
        self.section: Final = section
        self.field: Final = field or name
        self.cure: Final = cure

    def accepts(self, value: object) -> bool:
        """Return whether `value` is None or has the key's type. An int is accepted where a float is expected, but a
        bool is not accepted as an int.
        """
        if value is None or self.type is object:
            return True
        if isinstance(value, bool) and self.type is not bool:
            return False
        return isinstance(value, (int, float) if self.type is float else self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArtifactKey) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"ArtifactKey({self.name!r}, {self.type.__name__})"


AnyKey = ArtifactKey[Any]


class AllArtifacts(frozenset[AnyKey]):
    """The type of `ANY`, which stands for every artifact (see `Stage.optional`)."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, ArtifactKey)

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = AllArtifacts()

EvaluationMode = Literal["template_only", "template_and_rubric", "rubric_only"]


class Slot(Enum):
    """The slots of the pipeline in their usual order.

    The values are ranks, which are only used to break ties in a plan.
    """

    VALIDATE_TEMPLATE = 1
    GENERATE_ANSWER = 2
    RECURSION_LIMIT_AUTO_FAIL = 3
    TRACE_VALIDATION_AUTO_FAIL = 4
    ABSTENTION_CHECK = 5
    SUFFICIENCY_CHECK = 6
    PARSE_TEMPLATE = 7
    VERIFY_TEMPLATE = 8
    EMBEDDING_CHECK = 9
    DEEP_JUDGMENT_AUTO_FAIL = 10
    RUBRIC_EVALUATION = 11
    DEEP_JUDGMENT_RUBRIC_AUTO_FAIL = 12
    FINALIZE_RESULT = 13

    @property
    def config_name(self) -> str:
        """The slot's name in the `[slots]` table of a configuration, such as `parse_template`."""
        return self.name.lower()

    @property
    def hook(self) -> str:
        """The name of the hook through which plugins offer stages for this slot."""
        return f"karenina_{self.config_name}"


STAGE_HOOKS: Final[dict[str, Slot | None]] = {**{slot.hook: slot for slot in Slot}, "karenina_extra_stages": None}


def find_slot(name: str) -> Slot | None:
    """Return the slot with the given configuration name, or None. Case is ignored."""
    return Slot.__members__.get(name.upper())
