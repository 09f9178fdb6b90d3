"""The declarations that adapters make."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel

    from karenina_core.models.attachments import MediaLimit
    from karenina_core.models.model import ModelConfig
    from karenina_core.models.ports import AgentPort, AgentReply, CallInfo, LLMPort, ParserPort


class AgentTier(StrEnum):
    """The kind of agent: a loop run by the adapter, or a runtime that is an agent itself."""

    TOOL_LOOP = "tool_loop"
    DEEP_AGENT = "deep_agent"


class AdapterConfigError(ValueError):
    """Raised if a model's configuration does not work with its adapter. The message includes a fix."""


@dataclass(frozen=True, kw_only=True)
class AdapterSpec:
    """An adapter: its interface name, its capabilities, and the factories for its ports.

    A factory (`llm`, `parser`, `agent`) creates a port for a model. The run calls it once for each model, uses the port
    for all calls, and then closes it. Import SDKs inside the factories, so that listing adapters stays fast. If a
    factory is None, the adapter does not have that port.

    - `check(model)` raises `AdapterConfigError` for problems that would make every item fail, such as a missing key or
      file. It is called before a run and must not send requests.
    - `mismatches(model, asked, others)` is called before a run. `asked` are the questions in the run, and `others` are
      the questions that the run skips. It yields messages about questions in `asked` that have no recording, and about
      recordings for questions that are in neither `asked` nor `others`.
    - `recording(model, info)` returns the recorded answer to a question as the agent port does. It is called before a
      run, and raises `PortError` if there is no usable recording.
    - `unavailable()` returns None if the adapter can be used. Otherwise, it returns the reason and the command that
      installs the missing packages. It must not import anything heavy.
    - `needs_agent(model)` returns a function that takes a `CallInfo`. The function returns whether an answer has to
      come through the agent port although the model has no tools, for example because it is a recorded conversation. A
      run calls `needs_agent` once for each model.
    - `recorded`: whether the answers are recordings. No tools are started for recordings, and their traces are trusted.
    - `free`: whether calls cost nothing because the model runs locally. Recordings are always free.
    - `served_by(model)` returns the paid provider to look up in price lists, as the server's base URL or the provider's
      name. By default, this is taken from the model's configuration.
    - `starts_tools`: whether the adapter starts the model's MCP servers itself, so that the run does not.
    - `program(model)` returns the command that an agent starts in `AgentOptions.sandbox`. Without it, a run warns that
      a sandbox does not confine agents with tools of their own.
    - `by_item`: whether replies depend on the `CallInfo` as well as the messages. If so, items never share replies.
      This is always true for recordings.
    - `extra`: the pydantic model that validates `ModelConfig.extra`, or None if the adapter has no settings.
    - `allowed_in_files`: whether a benchmark, possibly someone else's, may choose this adapter without the user's
      trust. Set this to True only if the adapter starts no programs and only sends requests to servers that the user's
      environment specifies. `restricts(model)` returns other model fields that need trust, such as a `model_name` that
      is a path. The fields of `extra` are marked separately (`karenina_core.models.settings_models`).
    - `uses`: which of `model_provider`, `endpoint_base_url`, `endpoint_api_key`, `temperature`, `max_tokens` and
      `manual_traces` the adapter reads. A run warns if any of the others are set. None disables the warning.
    - `media(model)` returns the limits of the attachments that the adapter can send, by media type (`image/png`).
      Without it, the adapter sends text only. Whether the model understands them is another question.
    - `concurrency(model)` returns the maximum number of concurrent calls, if known (for example the slots of a local
      server or the processes of an agent). If it is missing or returns None, the run adapts the number to the server.
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
    program: Callable[[ModelConfig], Sequence[str]] | None = None
    by_item: bool = False
    extra: type[BaseModel] | None = None
    uses: Collection[str] | None = None
    check: Callable[[ModelConfig], None] | None = None
    mismatches: Callable[[ModelConfig, Iterable[CallInfo], Iterable[CallInfo]], Iterable[str]] | None = None
    recording: Callable[[ModelConfig, CallInfo], AgentReply] | None = None
    unavailable: Callable[[], str | None] | None = None
    needs_agent: Callable[[ModelConfig], Callable[[CallInfo], bool]] | None = None
    media: Callable[[ModelConfig], Mapping[str, MediaLimit]] | None = None
    concurrency: Callable[[ModelConfig], int | None] | None = None
    allowed_in_files: bool | None = None
    restricts: Callable[[ModelConfig], Collection[str]] | None = None

    @property
    def ports(self) -> tuple[str, ...]:
        """The names of the adapter's ports, out of `llm`, `parser` and `agent`."""
        return tuple(name for name in ("llm", "parser", "agent") if getattr(self, name) is not None)
