"""Look excerpts up with the search tool of the configuration, and have a judge say how likely each is invented."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from karenina_core.config import plugins_of
from karenina_core.errors import ConfigError
from karenina_core.models.ports import PortError
from karenina_core.stages.stage import ServiceNeed
from karenina_core.text import did_you_mean, replace_surrogates
from karenina_deep_judgment.hookspecs import karenina_search_tools
from karenina_deep_judgment.prompts import RISK, risk_request
from karenina_deep_judgment.settings import USUAL_TOOL, deep_judgment
from karenina_toolkit.gather_all import together
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationConfig, VerificationContext
    from karenina_core.plugins import Plugins
    from karenina_deep_judgment.settings import SearchFunction
    from karenina_toolkit.search_tool import SearchTool

RISKS: Final = ("none", "low", "medium", "high")
LONGEST: Final = 8000
"""Characters of what a search found that a judge is shown for one excerpt."""

logger = logging.getLogger("karenina")

Excerpts = Mapping[str, Sequence[dict[str, Any]]]


def check_search_tool(config: VerificationConfig, setting: str) -> None:
    """Raise `ConfigError`, with what to do, where nobody offers the tool that `setting` names."""
    chosen = _chosen(config, setting)
    tools = _offered(config)
    if chosen is not None and chosen not in tools:
        have = ", ".join(sorted(tools)) or "none"
        raise ConfigError(
            [
                f"{setting}: there is no search tool {chosen!r}{did_you_mean(chosen, tools)}; installed are: {have}. "
                "Install a plugin that offers it, or give a function from query to text in Python"
            ]
        )


def search_needs(config: VerificationConfig, setting: str) -> list[ServiceNeed]:
    """What keeps the tool that `setting` names from being used on this machine. Asks nobody."""
    chosen = _chosen(config, setting)
    tool = _offered(config).get(chosen) if chosen is not None else None
    why = tool.unavailable() if tool is not None else None
    return [ServiceNeed(f"{setting}: the search tool {chosen!r} cannot be used: {why}")] if why is not None else []


def warn_of_no_search(config: VerificationConfig) -> None:
    """Log each setting that asks for a search which this configuration has no place for."""
    if not config.has("deep_judgment_search_enabled"):
        return
    settings = deep_judgment(config)
    mode, traits = settings.deep_judgment_mode, settings.deep_judgment_rubric_mode
    if settings.deep_judgment_search_enabled and mode != "full":
        _warn("deep_judgment_search_enabled", f"deep_judgment_mode is {mode}, and only full has excerpts to look up")
    if settings.deep_judgment_search_tool != USUAL_TOOL and not settings.deep_judgment_search_enabled:
        _warn("deep_judgment_search_tool", "deep_judgment_search_enabled is false")
    if not settings.deep_judgment_rubric_search_enabled:
        return
    if traits == "disabled":
        _warn("deep_judgment_rubric_search_enabled", "deep_judgment_rubric_mode is disabled")
    elif traits == "use_checkpoint":
        _warn("deep_judgment_rubric_search_enabled", "with use_checkpoint each trait says for itself what is looked up")
    elif traits == "enable_all" and not settings.deep_judgment_rubric_global_excerpts:
        _warn("deep_judgment_rubric_search_enabled", "without deep_judgment_rubric_global_excerpts nothing is quoted")


def _warn(name: str, why: str) -> None:
    logger.warning("%s has no effect: %s", name, why)


async def assess(context: VerificationContext, chosen: str | SearchFunction, excerpts: Excerpts) -> int:
    """Search for each excerpt and put results and risk into it; returns the number of model calls.

    An excerpt whose search fails carries the reason as `search_error` and no risk: nothing is known about it.
    """
    every = [one for found in excerpts.values() for one in found]
    results = await _look_up(context, chosen, [one["text"] for one in every])
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
    """The greatest risk of several excerpts; None where none was assessed."""
    risks = [one["hallucination_risk"] for one in excerpts if "hallucination_risk" in one]
    return max(risks, key=RISKS.index, default=None)


def _chosen(config: VerificationConfig, setting: str) -> str | None:
    """The name in `setting`; None where it holds a function."""
    chosen: str | SearchFunction = getattr(deep_judgment(config), setting)
    return chosen if isinstance(chosen, str) else None


def _offered(config: VerificationConfig) -> Mapping[str, SearchTool]:
    return {tool.name: tool for tool in search_tools(plugins_of(config))}


async def _look_up(
    context: VerificationContext, chosen: str | SearchFunction, queries: Sequence[str]
) -> dict[str, tuple[str, str | None]]:
    """What was found for each query, or why nothing could be."""

    def search(query: str) -> Awaitable[str]:
        if isinstance(chosen, str):
            return _tool(context, chosen).search(query)
        return context.consult(chosen.name, query, lambda: chosen.function(query))

    async def one(query: str) -> tuple[str, str | None]:
        try:
            return await search(query), None
        except PortError as error:
            context.log.warning("the search for an excerpt failed: %s", error)
            return "", replace_surrogates(str(error))

    unique = list(dict.fromkeys(queries))
    return dict(zip(unique, await together(one(query) for query in unique), strict=True))


def _tool(context: VerificationContext, name: str) -> SearchTool:
    for tool in search_tools(context.plugins):
        if tool.name == name:
            return _kept(context, tool)
    raise LookupError(f"there is no search tool {name!r} in this run")


def _schema(numbered: Mapping[str, object]) -> dict[str, Any]:
    part = object_schema(
        {
            "justification": {"type": "string", "maxLength": 1000},
            "risk": {"type": "string", "enum": list(RISKS)},
        }
    )
    return object_schema(dict.fromkeys(numbered, part))


def search_tools(plugins: Plugins) -> list[SearchTool]:
    """Return the ways to look something up that plugins bring, sorted by name."""
    return sorted(plugins.call(karenina_search_tools), key=lambda one: one.name)


def _kept(context: VerificationContext, tool: SearchTool) -> SearchTool:
    """Return the tool with its results kept and replayed as the replies of models are."""

    class Kept:
        name: ClassVar[str] = tool.name

        def unavailable(self) -> str | None:
            return tool.unavailable()

        async def search(self, query: str) -> str:
            return await context.consult(tool.name, query, lambda: tool.search(query))

    return Kept()
