"""Which dynamic traits count for an answer: those whose concept is present in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from karenina_core.data.rubrics import RubricTrait
from karenina_core.errors import StructuredError
from karenina_core.models.ports import PortError
from karenina_rubric.prompts import PRESENCE, PRESENT, REASONING, presence_request
from karenina_toolkit.structured import InvalidReply, ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext


@dataclass(frozen=True, slots=True)
class Presence:
    """The traits to score, why others are skipped, and the error where the judge could not say."""

    promoted: tuple[RubricTrait, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


async def find_present(traits: Sequence[RubricTrait], text: str, context: VerificationContext) -> Presence:
    """Ask the judge once which of the traits' concepts are present in `text`.

    Where it cannot be asked, or its reply cannot be read after one more try, no trait is promoted and none skipped.
    """
    request = presence_request(traits, context.question.question, text)

    def validate(data: Mapping[str, Any]) -> Mapping[str, Any]:
        for trait in traits:  # whatever else the judge wrote
            if not data[trait.name] or data[trait.name]["present"] is None:
                raise InvalidReply(f"{trait.name}.present must be true or false, not null")
        return data

    try:
        found = (await ask(context, PRESENCE, request, presence_schema(traits), validate)).value
    except (PortError, StructuredError) as error:
        context.log.warning("the judge could not say which dynamic traits count: %s", error)
        return Presence(error=f"the judge could not say whether its concept is present: {error}")
    return Presence(
        promoted=tuple(trait for trait in traits if found[trait.name]["present"]),
        skipped={
            trait.name: _why(found[trait.name]["reasoning"]) for trait in traits if not found[trait.name]["present"]
        },
    )


def presence_schema(traits: Sequence[RubricTrait]) -> dict[str, Any]:
    """What the judge fills: under each trait's name its reasoning, then whether the concept is present."""
    one = object_schema(
        {
            "reasoning": {"type": "string", "description": REASONING},
            "present": {"type": "boolean", "description": PRESENT},
        }
    )
    return object_schema({trait.name: one for trait in traits})


def _why(reasoning: str | None) -> str:
    return f"concept not present: {reasoning}" if reasoning else "concept not present"
