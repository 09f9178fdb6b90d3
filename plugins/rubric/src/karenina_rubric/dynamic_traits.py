"""Dynamic traits, which are scored only if their concept is present in the answer."""

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
    """The traits to score, the reasons for skipping others, and the error if the judge failed."""

    promoted: tuple[RubricTrait, ...] = ()
    skipped: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


async def find_present(traits: Sequence[RubricTrait], text: str, context: VerificationContext) -> Presence:
    """Ask the judge once which of the traits' concepts are present in `text`.

    If the call fails, or the reply is invalid after one retry, no trait is promoted and none skipped.
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
        context.log.warning("the judge could not decide which dynamic traits are present: %s", error)
        return Presence(error=f"the judge could not decide whether its concept is present: {error}")
    return Presence(
        promoted=tuple(trait for trait in traits if found[trait.name]["present"]),
        skipped={
            trait.name: _why(found[trait.name]["reasoning"]) for trait in traits if not found[trait.name]["present"]
        },
    )


def presence_schema(traits: Sequence[RubricTrait]) -> dict[str, Any]:
    """Return the schema of the reply: under each trait's name the reasoning, then whether it is present."""
    one = object_schema(
        {
            "reasoning": {"type": "string", "description": REASONING},
            "present": {"type": "boolean", "description": PRESENT},
        }
    )
    return object_schema({trait.name: one for trait in traits})


def _why(reasoning: str | None) -> str:
    return f"concept not present: {reasoning}" if reasoning else "concept not present"
