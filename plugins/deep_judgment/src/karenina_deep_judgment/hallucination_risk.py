"""The hallucination risk of excerpts: a search for each excerpt, and the judge's assessment of the results."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from karenina_core.models.ports import PortError
from karenina_core.text import replace_surrogates
from karenina_deep_judgment.prompts import RISK, risk_request
from karenina_deep_judgment.search_tools import find_search_tool
from karenina_toolkit.stage_support import gather_all
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext
    from karenina_deep_judgment.settings import SearchFunction

RISKS: Final = ("none", "low", "medium", "high")
LONGEST: Final = 8000
"""Maximum number of characters of search results that the judge sees for one excerpt."""

Excerpts = Mapping[str, Sequence[dict[str, Any]]]


async def assess_risks(context: VerificationContext, chosen: str | SearchFunction, excerpts: Excerpts) -> int:
    """Search for each excerpt, and add the results and the risk to it. Return the number of model calls.

    An excerpt whose search fails gets the reason as `search_error`, and no risk. If the judge's reply gives no risk, it
    is "medium".
    """
    every = [one for found in excerpts.values() for one in found]
    results = await _search_all(context, chosen, [one["text"] for one in every])
    numbered: dict[str, dict[str, Any]] = {}
    for one in every:
        text, error = results[one["text"]]
        if error is not None:
            one["search_error"] = error
            continue
        one["search_results"] = text
        numbered[f"excerpt_{len(numbered) + 1}"] = one
    if not numbered:
        return 0
    shown = {number: (one["text"], one["search_results"][:LONGEST]) for number, one in numbered.items()}
    found = await ask(context, RISK, risk_request(context.question.question, shown), _schema(numbered), dict)
    for number, one in numbered.items():
        said = found.value.get(number) or {}
        one["hallucination_risk"] = said.get("risk") or "medium"
        one["hallucination_justification"] = said.get("justification") or "the judge gave no reason"
    return found.tries


def overall_risk(excerpts: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the highest risk among several excerpts, or None if none was assessed."""
    risks = [one["hallucination_risk"] for one in excerpts if "hallucination_risk" in one]
    return max(risks, key=RISKS.index, default=None)


async def _search_all(
    context: VerificationContext, chosen: str | SearchFunction, queries: Sequence[str]
) -> dict[str, tuple[str, str | None]]:
    """Return the search results for each query, and None or the error."""

    def search(query: str) -> Awaitable[str]:
        if isinstance(chosen, str):
            return find_search_tool(context, chosen).search(query)
        return context.consult(chosen.name, query, lambda: chosen.function(query))

    async def one(query: str) -> tuple[str, str | None]:
        try:
            return await search(query), None
        except PortError as error:
            context.log.warning("the search for an excerpt failed: %s", error)
            return "", replace_surrogates(str(error))

    unique = list(dict.fromkeys(queries))
    return dict(zip(unique, await gather_all(one(query) for query in unique), strict=True))


def _schema(numbered: Mapping[str, object]) -> dict[str, Any]:
    part = object_schema(
        {
            "justification": {"type": "string", "maxLength": 1000},
            "risk": {"type": "string", "enum": list(RISKS)},
        }
    )
    return object_schema(dict.fromkeys(numbered, part))
