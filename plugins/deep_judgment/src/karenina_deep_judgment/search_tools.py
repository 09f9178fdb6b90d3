"""Search tools, and the hallucination risks that a judge derives from their results.

Plugins provide the search tools. This module finds, checks and calls them. It also contains the tool `tavily`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Final

from karenina_core.catalog import install_command
from karenina_core.errors import ConfigError
from karenina_core.models.ports import PortError
from karenina_core.stages.stage import ServiceNeed
from karenina_core.text import did_you_mean, replace_surrogates
from karenina_deep_judgment.hookspecs import karenina_search_tools
from karenina_deep_judgment.prompts import RISK, risk_request
from karenina_deep_judgment.settings import USUAL_TOOL, settings_of
from karenina_toolkit.agents.tool_sources import SearchTool
from karenina_toolkit.plugin_lookup import plugins_of
from karenina_toolkit.stage_support import gather_all
from karenina_toolkit.structured import ask, object_schema

if TYPE_CHECKING:
    from karenina_core import VerificationConfig, VerificationContext
    from karenina_core.plugins import Plugins
    from karenina_deep_judgment.settings import SearchFunction


logger = logging.getLogger("karenina")


def search_tools(plugins: Plugins) -> list[SearchTool]:
    """Return the search tools of all plugins, sorted by name."""
    return sorted(plugins.call(karenina_search_tools, SearchTool), key=lambda tool: tool.name)


def find_search_tool(context: VerificationContext, name: str) -> SearchTool:
    """Return the search tool with the given name. Its results are recorded and replayed like models' replies. Raises
    `LookupError` if there is no such tool.
    """
    for tool in search_tools(context.plugins):
        if tool.name == name:
            return _with_replay(context, tool)
    raise LookupError(f"no search tool named {name!r} is available in this run")


def check_search_tool(config: VerificationConfig, setting: str) -> None:
    """Raise `ConfigError` if no plugin offers the search tool in the given setting. A function passed in Python is
    always accepted.
    """
    chosen = _chosen_name(config, setting)
    tools = _offered_tools(config)
    if chosen is not None and chosen not in tools:
        have = ", ".join(sorted(tools)) or "none"
        raise ConfigError(
            [
                f"{setting}: unknown search tool {chosen!r}{did_you_mean(chosen, tools)}; installed tools: {have}. "
                "Install a plugin that offers this tool, or in Python pass a function that takes a query and returns "
                "text"
            ]
        )


def find_service_needs(config: VerificationConfig, setting: str) -> list[ServiceNeed]:
    """Return a list with one need if the search tool that `setting` names is not available, and otherwise an empty
    list, also if no plugin provides the tool. No request is made.
    """
    chosen = _chosen_name(config, setting)
    tool = _offered_tools(config).get(chosen) if chosen is not None else None
    why = tool.unavailable() if tool is not None else None
    return [ServiceNeed(f"{setting}: the search tool {chosen!r} cannot be used: {why}")] if why is not None else []


def warn_about_unused_search_settings(config: VerificationConfig) -> None:
    """Log a warning about each search setting that has no effect in this configuration."""
    if not config.has("deep_judgment_search_enabled"):
        return
    settings = settings_of(config)
    mode, traits = settings.deep_judgment_mode, settings.deep_judgment_rubric_mode
    if settings.deep_judgment_search_enabled and mode != "full":
        _warn(
            "deep_judgment_search_enabled",
            f"deep_judgment_mode is {mode}, and only the 'full' mode has excerpts to search for",
        )
    if settings.deep_judgment_search_tool != USUAL_TOOL and not settings.deep_judgment_search_enabled:
        _warn("deep_judgment_search_tool", "deep_judgment_search_enabled is false")
    if not settings.deep_judgment_rubric_search_enabled:
        return
    if traits == "disabled":
        _warn("deep_judgment_rubric_search_enabled", "deep_judgment_rubric_mode is disabled")
    elif traits == "use_checkpoint":
        _warn(
            "deep_judgment_rubric_search_enabled",
            "each trait has its own search setting if deep_judgment_rubric_mode is use_checkpoint",
        )
    elif traits == "enable_all" and not settings.deep_judgment_rubric_global_excerpts:
        _warn(
            "deep_judgment_rubric_search_enabled",
            "there are no excerpts without deep_judgment_rubric_global_excerpts",
        )


def _warn(name: str, why: str) -> None:
    logger.warning("%s has no effect because %s", name, why)


def _chosen_name(config: VerificationConfig, setting: str) -> str | None:
    """Return the name of the tool in a setting, or None if the setting contains a function."""
    chosen: str | SearchFunction = getattr(settings_of(config), setting)
    return chosen if isinstance(chosen, str) else None


def _offered_tools(config: VerificationConfig) -> Mapping[str, SearchTool]:
    return {tool.name: tool for tool in search_tools(plugins_of(config))}


def _with_replay(context: VerificationContext, tool: SearchTool) -> SearchTool:
    """Return a tool with the same name whose results are recorded and replayed like models' replies."""

    class Kept:
        name: ClassVar[str] = tool.name

        def unavailable(self) -> str | None:
            return tool.unavailable()

        async def search(self, query: str) -> str:
            return await context.consult(tool.name, query, lambda: tool.search(query))

    return Kept()


RESULTS: Final = 5


class TavilySearch:
    """A search tool that sends excerpts from answers to api.tavily.com.

    The API key is read from TAVILY_API_KEY.
    """

    name: ClassVar[str] = "tavily"

    def unavailable(self) -> str | None:
        """Return the reason why the tool cannot be used, such as a missing package or key, or None. No request is
        made.
        """
        if find_spec("tavily") is None:
            return f"the Tavily client is not installed: {install_command('karenina-deep-judgment[tavily]')}"
        if not os.environ.get("TAVILY_API_KEY"):
            return "the API key is missing; set the environment variable TAVILY_API_KEY"
        return None

    async def search(self, query: str) -> str:
        """Send a query to api.tavily.com, and return the titles, texts and URLs of the first five results, or a
        sentence saying that there are none. Queries are cut to 400 characters. The environment variable TAVILY_API_KEY
        must be set.
        """
        from tavily import AsyncTavilyClient  # type: ignore[import-not-found, unused-ignore]  # installed by the extra `tavily`

        reply: dict[str, Any] = await AsyncTavilyClient(os.environ["TAVILY_API_KEY"]).search(
            query[:400], max_results=RESULTS
        )
        results = reply.get("results") or []
        lines = [f"{result.get('title')}\n{result.get('content')}\n{result.get('url')}" for result in results]
        return "\n\n".join(lines) or "The search found nothing."


RISKS: Final = ("none", "low", "medium", "high")
LONGEST: Final = 8000
"""The maximum number of characters of search results that the judge sees for one excerpt."""

Excerpts = Mapping[str, Sequence[dict[str, Any]]]


async def assess_risks(context: VerificationContext, chosen: str | SearchFunction, excerpts: Excerpts) -> int:
    """Search for each excerpt with `chosen`, add the results and the risk to it, and return the number of model calls.
    If a search fails, the excerpt gets a `search_error` but no risk. If the judge omits a risk, it is "medium".
    `chosen` is the name of a search tool, or a function. Raises `StructuredError` or `PortError` if the judge fails.
    """
    every = [excerpt for listed in excerpts.values() for excerpt in listed]
    results = await _search_all(context, chosen, [excerpt["text"] for excerpt in every])
    numbered: dict[str, dict[str, Any]] = {}
    for excerpt in every:
        text, error = results[excerpt["text"]]
        if error is not None:
            excerpt["search_error"] = error
            continue
        excerpt["search_results"] = text
        numbered[f"excerpt_{len(numbered) + 1}"] = excerpt
    if not numbered:
        return 0
    shown = {number: (excerpt["text"], excerpt["search_results"][:LONGEST]) for number, excerpt in numbered.items()}
    assessed = await ask(context, RISK, risk_request(context.question.question, shown), _schema(numbered), dict)
    for number, excerpt in numbered.items():
        assessment = assessed.value.get(number) or {}
        excerpt["hallucination_risk"] = assessment.get("risk") or "medium"
        excerpt["hallucination_justification"] = assessment.get("justification") or "the judge gave no reason"
    return assessed.tries


def overall_risk(excerpts: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the highest risk among several excerpts, or None if no risk was assessed."""
    risks = [excerpt["hallucination_risk"] for excerpt in excerpts if "hallucination_risk" in excerpt]
    return max(risks, key=RISKS.index, default=None)


async def _search_all(
    context: VerificationContext, chosen: str | SearchFunction, queries: Sequence[str]
) -> dict[str, tuple[str, str | None]]:
    """Return by query a pair of its results and None, or of an empty string and the error if the search failed, which
    is also logged as a warning. Equal queries are only sent once.
    """

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
    """Return the JSON Schema of the judge's assessment: a justification and a risk for each key in `numbered`."""
    part = object_schema(
        {
            "justification": {"type": "string", "maxLength": 1000},
            "risk": {"type": "string", "enum": list(RISKS)},
        }
    )
    return object_schema(dict.fromkeys(numbered, part))
