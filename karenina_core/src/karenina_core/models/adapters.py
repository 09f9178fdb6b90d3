"""What an adapter declares, and the choice of one by interface name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, CallInfo, LLMPort, ParserPort

E = TypeVar("E", bound="BaseModel")


class AgentTier(StrEnum):
    """Who runs the tools: the adapter, turn by turn (`tool_loop`), or a runtime that is itself an agent."""

    TOOL_LOOP = "tool_loop"
    DEEP_AGENT = "deep_agent"


class AdapterConfigError(ValueError):
    """A model that its adapter cannot serve as configured. The message says what, where and what to do about it."""


@dataclass(frozen=True, kw_only=True)
class AdapterSpec:
    """One interface: what it is called, what it can do and how its ports are made.

    A factory (`llm`, `parser`, `agent`) makes the port of one model; the run calls it once for each model, uses the
    port for all calls and closes it. SDKs are imported inside the factories, so that listing adapters costs nothing.
    A port that is None is one that this adapter does not have.

    - `check(model)` looks, before a run starts and without any request, for what would fail every item (a missing
      key or file) and raises `AdapterConfigError`.
    - `mismatches(model, asked, others)` yields, before a run, which questions of `asked` have no recording and which
      recordings match none of them, nor of `others`, which the run leaves out.
    - `unavailable()` gives the reason, with the line that mends it, where something that the adapter needs is not
      installed; it imports nothing heavy.
    - `needs_agent(model, info)` says whether this answer must come through the agent port although the model names no
      tools (a recording of a conversation, say).
    - `recorded` says that the answers were given earlier: no tools are started for them, and their traces are trusted.
    - `free` says that a call costs nothing because no provider is paid for it: the model runs on this machine. Of
      recorded answers that is known.
    - `served_by(model)` is who serves the model and is paid: the base URL of the server, or a provider's name where
      that is all that is known; without it, what the model's configuration says. Price lists look it up.
    - `starts_tools` says that the adapter gets the tools of the model's MCP servers itself: the run starts none for it.
    - `by_item` says that replies depend on the `CallInfo` and not only on what is sent: those of one item are never
      taken for another. Of recordings it is known.
    - `extra` is the pydantic model that validates `ModelConfig.extra`; None means that there is nothing to set.
    - `from_files` says whether a benchmark, which may be somebody else's, may choose this adapter without the user's
      trust: True if it starts no program and sends requests only where the user's own environment points to. Without
      it, a file may not. `restricts(model)` names more fields of a model that a file may not set freely, such as a
      `model_name` that is a path. The fields of `extra` have marks of their own (`karenina_core.models.from_files`).
    - `uses` are those of `model_provider`, `endpoint_base_url`, `endpoint_api_key`, `temperature`, `max_tokens` and
      `manual_traces` that the adapter looks at: a run warns of others that are set. None warns of nothing.
    - `concurrency(model)` is how many calls may be under way at once, where that is known (the slots of a server of
      one's own, processes of an agent). Without it, or where it is None, the run finds out how many the server bears.
    """

    interface: str
    description: str
    tier: AgentTier = AgentTier.TOOL_LOOP
    llm: Callable[[ModelConfig], LLMPort] | None = None
    parser: Callable[[ModelConfig], ParserPort] | None = None
    agent: Callable[[ModelConfig], AgentPort] | None = None
    recorded: bool = False
    free: bool = False
    served_by: Callable[[ModelConfig], str | None] | None = None
    starts_tools: bool = False
    by_item: bool = False
    extra: type[BaseModel] | None = None
    uses: Collection[str] | None = None
    check: Callable[[ModelConfig], None] | None = None
    mismatches: Callable[[ModelConfig, Iterable[CallInfo], Iterable[CallInfo]], Iterable[str]] | None = None
    unavailable: Callable[[], str | None] | None = None
    needs_agent: Callable[[ModelConfig, CallInfo], bool] | None = None
    concurrency: Callable[[ModelConfig], int | None] | None = None
    from_files: bool | None = None
    restricts: Callable[[ModelConfig], Collection[str]] | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the ports that it has: `llm`, `parser`, `agent`."""
        return tuple(name for name in ("llm", "parser", "agent") if getattr(self, name) is not None)


@dataclass(frozen=True, slots=True)
class RegisteredAdapter:
    """An adapter with the distribution that offers it."""

    spec: AdapterSpec
    distribution: str
    version: str


def extra_of(model: ModelConfig, kind: type[E]) -> E:
    """The `extra` of `model`, as the settings of its adapter. Raises `AdapterConfigError`, which shows no value."""
    from pydantic import ValidationError

    from karenina_core.text import join_problems

    try:
        return kind.model_validate(model.extra)
    except ValidationError as error:
        found = error.errors(include_input=False, include_url=False, include_context=False)
        said = join_problems([f"{'.'.join(('extra', *map(str, one['loc'])))}: {one['msg']}" for one in found])
        strange = any(one["type"] == "extra_forbidden" for one in found)
        known = f". It knows {', '.join(kind.model_fields)}" if strange else ""
        raise AdapterConfigError(f"model {model.id!r}, {said}{known}") from None
