"""Excerpt extraction: the judge quotes the response, and quotations that the response does not contain are retried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from karenina_deep_judgment.excerpt_finder import SearchableText
from karenina_deep_judgment.prompts import EXCERPTS, excerpts_request
from karenina_deep_judgment.settings import ExcerptLimits
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationContext

CONFIDENCE: Final = ("low", "medium", "high")
_LONGEST_QUOTE: Final = 1000
_SHOWN: Final = 300


@dataclass(slots=True)
class ExtractedExcerpts:
    """The excerpts for each item.

    `found` has an entry for every item, which may be empty. The `text` of an excerpt is the passage from `start` to
    `end` in the text that the judge saw, and `quoted` is the quotation that the judge wrote. The other keys are
    `confidence`, `similarity_score` and `match`. `rejected` contains the quotations that were not found, with the keys
    `text` and `problem`. `calls` is the number of model calls. `retries` is the number of requests that were repeated
    because quotations had been rejected.
    """

    found: dict[str, list[dict[str, Any]]]
    rejected: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    calls: int = 0
    retries: int = 0

    @property
    def missing(self) -> list[str]:
        """The names of the items that have no excerpts."""
        return [name for name, excerpts in self.found.items() if not excerpts]


async def extract_excerpts(
    context: VerificationContext, text: str, items: Mapping[str, str], limits: ExcerptLimits
) -> ExtractedExcerpts:
    """Ask the judge for excerpts from `text` about each item in `items`, which maps names to descriptions. Quotations
    that are not in the text are rejected. If all of an item's are, the judge is asked again, up to `limits.retries`
    times, and the item may end without excerpts. An empty list is a valid reply. Raises `StructuredError` or
    `PortError` if the judge fails.
    """
    quoted = ExtractedExcerpts({name: [] for name in items})
    searched = SearchableText(text, exact_facts=limits.exact_facts)
    asked = dict(items)
    wrong: list[str] = []
    while asked:
        request = excerpts_request(context.question.question, text, asked, limits.most, wrong)
        reply = await ask(context, EXCERPTS, request, _schema(asked, limits.most), dict)
        quoted.calls += reply.tries
        quoted.retries += bool(wrong)
        wrong, again = [], {}
        for name, about in asked.items():
            problems = await context.in_thread(
                _sort_quotes, quoted, name, reply.value.get(name) or [], searched, limits
            )
            if problems and not quoted.found[name]:
                again[name] = about
                wrong += problems
        asked = again if quoted.retries < limits.retries else {}
    return quoted


def _sort_quotes(
    quoted: ExtractedExcerpts,
    name: str,
    quotations: Sequence[Mapping[str, Any]],
    searched: SearchableText,
    limits: ExcerptLimits,
) -> list[str]:
    """Add the quotations for an item to `quoted`, as found or rejected, and return the problems with the rejected ones.
    Repeated quotations, and those that exceed the limit, are ignored.
    """
    accepted, problems = quoted.found[name], []
    for quotation in quotations:
        words = str((quotation or {}).get("text") or "")
        match = searched.find(words, limits.threshold)
        if match is None:
            problem = _explain_rejection(words, searched, limits.threshold)
            quoted.rejected.setdefault(name, []).append({"text": words, "problem": problem})
            problems.append(f'{name}: "{words[:_SHOWN]}": {problem}')
        elif len(accepted) < limits.most and all(
            (match.start, match.end) != (old["start"], old["end"]) for old in accepted
        ):
            accepted.append(
                {
                    "text": searched.text[match.start : match.end],
                    "quoted": words,
                    "confidence": quotation.get("confidence") or "low",
                    "similarity_score": round(match.similarity, 4),
                    "start": match.start,
                    "end": match.end,
                    "match": match.kind,
                }
            )
    return problems


def _explain_rejection(words: str, searched: SearchableText, threshold: float) -> str:
    """Explain to the judge why the quotation `words` was not found in the response `searched`. The explanation quotes
    the most similar passage, cut to 300 characters, if its similarity is at least 0.5.
    """
    miss = searched.why_missing(words, threshold)
    if miss.kind == "empty":
        return "it contains no words, or only a letter"
    nearest = f'; nearest is "{miss.closest[:_SHOWN]}"' if miss.closest is not None and miss.similarity >= 0.5 else ""
    if miss.kind == "altered":
        return f"a number or a negation in it is not the one of the response{nearest}"
    if miss.kind == "reordered":
        return f"its words stand in the response in another order{nearest}"
    return f"it does not stand in the response{nearest}"


def _schema(items: Mapping[str, str], most: int) -> dict[str, Any]:
    """Return the JSON Schema for the excerpts of all items, keyed by their names. It allows far more excerpts than
    `most`, so that few replies are invalid.
    """
    excerpt = object_schema(
        {
            "text": {"type": "string", "maxLength": _LONGEST_QUOTE},
            "confidence": {"type": "string", "enum": list(CONFIDENCE)},
        }
    )
    # Far more than requested: a few too many must not invalidate a reply, but there must be a limit.
    part = {"type": "array", "maxItems": max(20, 4 * most), "items": excerpt}
    return object_schema(dict.fromkeys(items, part))
