"""Artifacts: the typed values that stages hand to each other, and the standard ones by name."""

from __future__ import annotations

from typing import Any, Final, Generic, Literal, TypeVar

T = TypeVar("T")
Section = Literal["root", "template", "rubric", "deep_judgment", "deep_judgment_rubric"]


class ArtifactKey(Generic[T]):
    """The name and type of one artifact.

    Two keys are equal when their names are; the plan reports stages that give one name two types. `type` is checked
    when a value is set (None always passes: it is a value that says "nothing"). A key with a `section` is also a field
    of the result: setting the artifact fills `result.<section>.<field>`.

    A third party names its keys after its package: `ArtifactKey("my_package.words", int)`. `cure` says, in the error
    about a value of another type, how the right one is made.
    """

    __slots__ = ("cure", "field", "name", "section", "type")

    def __init__(
        self, name: str, type: type[T], section: Section | None = None, field: str | None = None, cure: str = ""
    ) -> None:
        if not name or name != name.strip():
            raise ValueError(f"an artifact's name is a word without surrounding space, not {name!r}")
        self.name: Final = name
        self.type: Final = type
        self.section: Final = section
        self.field: Final = field or name
        self.cure: Final = cure

    def accepts(self, value: object) -> bool:
        """Whether `value` is None or of the key's type (a bool is no int, an int is a float)."""
        if value is None or self.type is object:
            return True
        if isinstance(value, bool) and self.type is not bool:
            return False
        if self.type is float and isinstance(value, int):
            return True
        return isinstance(value, self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArtifactKey) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"ArtifactKey({self.name!r}, {self.type.__name__})"


AnyKey = ArtifactKey[Any]


class AllArtifacts(frozenset[AnyKey]):
    """`ANY`: stands for every artifact, whoever produces it (see `Stage.optional`)."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, ArtifactKey)

    def __repr__(self) -> str:
        return "ANY"


ANY: Final = AllArtifacts()
