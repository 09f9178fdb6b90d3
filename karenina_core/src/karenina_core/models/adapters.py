"""The declarations made by adapters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, CallInfo, LLMPort, Message, ParserPort


class AgentTier(StrEnum):
    """The kind of agent: a loop in the adapter, or a runtime that is an agent itself."""

    TOOL_LOOP = "tool_loop"
    DEEP_AGENT = "deep_agent"


class AdapterConfigError(ValueError):
    """Raised if a model's configuration does not work with its adapter. The message says how to fix it."""


@dataclass(frozen=True, kw_only=True)
class AdapterSpec:
    """An adapter: its interface name, its capabilities, and the factories for its ports.

    A factory (`llm`, `parser`, `agent`) creates a port for a model. The run calls it once for each model, uses the port
    for all calls, and then closes it. Import SDKs inside the factories, so that listing adapters stays fast. If a
    factory is None, the adapter does not have that port.

    - `check(model)` raises `AdapterConfigError` for problems that would fail every item, such as a missing key or file.
      It is called before a run and makes no requests.
    - `mismatches(model, asked, others)` is called before a run. It yields messages about questions in the run (`asked`)
      that have no recording, and about recordings whose question is neither in the run nor among the questions that the
      run leaves out (`others`).
    - `recording(model, info)` returns the recorded answer to a question: text, or the messages of a conversation. It is
      called before a run, and raises `PortError` if there is no usable recording.
    - `unavailable()` returns why the adapter cannot be used, with the command to install what is missing, or None. It
      imports nothing heavy.
    - `needs_agent(model)` returns a function that takes a `CallInfo` and returns whether this answer must come through
      the agent port although the model has no tools, as with a recorded conversation. A run calls it once for each
      model.
    - `recorded`: whether the answers are recordings. No tools are started for recordings, and their traces are trusted.
    - `free`: whether calls cost nothing because the model runs locally. Recordings are always free.
    - `served_by(model)` returns the paid provider for look-ups in price lists: the base URL of the server, or the
      provider's name. By default, this is taken from the model's configuration.
    - `starts_tools`: whether the adapter itself starts the model's MCP servers, so that the run does not.
    - `by_item`: whether replies depend on the `CallInfo` as well as the messages, so that items never share replies.
      Always true for recordings.
    - `extra`: the pydantic model that validates `ModelConfig.extra`, or None if the adapter has no settings.
    - `allowed_in_files`: whether a benchmark, possibly someone else's, may choose this adapter without the user's
      trust. Set this to True only if the adapter starts no programs and sends requests only where the user's
      environment points. `restricts(model)` returns further model fields that need trust, such as a `model_name` that
      is a path. The fields of `extra` have their own marks (`karenina_core.models.settings_models`).
    - `uses`: which of `model_provider`, `endpoint_base_url`, `endpoint_api_key`, `temperature`, `max_tokens` and
      `manual_traces` the adapter reads. A run warns about others that are set; None disables the warning.
    - `concurrency(model)` returns the maximum number of concurrent calls, if known (the slots of a local server, the
      processes of an agent). If it is missing or returns None, the run adapts the number to the server.
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
    recording: Callable[[ModelConfig, CallInfo], str | Sequence[Message]] | None = None
    unavailable: Callable[[], str | None] | None = None
    needs_agent: Callable[[ModelConfig], Callable[[CallInfo], bool]] | None = None
    concurrency: Callable[[ModelConfig], int | None] | None = None
    allowed_in_files: bool | None = None
    restricts: Callable[[ModelConfig], Collection[str]] | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the adapter's ports: `llm`, `parser`, `agent`."""
        return tuple(name for name in ("llm", "parser", "agent") if getattr(self, name) is not None)
