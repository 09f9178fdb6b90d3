"""What can be set for the `claude_agent_sdk` interface, and where the server and the key come from."""

from __future__ import annotations

import os
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator

from karenina_core.adapters import AdapterConfigError

if TYPE_CHECKING:
    from karenina_core.models import ModelConfig

OFFICIAL_BASE_URL = "https://api.anthropic.com"
DEFAULT_TIMEOUT = 300.0

CLITool = Literal["Read", "Glob", "Grep", "Write", "Edit", "Bash"]


class ClaudeAgentExtra(BaseModel):
    """`ModelConfig.extra` of the `claude_agent_sdk` interface. Values of `headers` are treated as secrets."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    tools: tuple[CLITool, ...] = Field(
        default=("Read", "Glob", "Grep", "Write", "Edit"),
        description="The tools of the CLI that an agent has in its workspace. All but Bash stay inside the workspace; "
        "Bash runs any command with the rights of this process, network included: allow it in a container only.",
    )
    thinking: Literal["adaptive", "disabled"] | None = Field(
        default=None, description="Whether the model thinks before it speaks; the CLI decides where absent."
    )
    pass_env: tuple[str, ...] = Field(
        default=(),
        description="Names of environment variables that the CLI, and commands that an agent runs, see as well.",
    )
    headers: dict[str, SecretStr] = Field(default_factory=dict, description="HTTP headers added to each request.")
    cli_path: Path | None = Field(default=None, description="Another Claude CLI than the one that the SDK brings.")
    max_concurrency: int = Field(
        default=4, ge=1, description="Most runs of the CLI at once; each is a process of some 250 MB."
    )

    @field_validator("headers")
    @classmethod
    def _one_line(cls, headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
        for name, value in headers.items():
            if not _can_be_sent(name + value.get_secret_value()):
                raise ValueError(f"the header {name!r} holds a line break or other characters no header has")
        return headers


def extra_of(model: ModelConfig) -> ClaudeAgentExtra:
    """The validated `extra` of `model`. Raises `AdapterConfigError`, which shows no value."""
    try:
        return ClaudeAgentExtra.model_validate(model.extra)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False, include_context=False)[0]
        place = ".".join(("extra", *map(str, first["loc"])))
        raise AdapterConfigError(f"model {model.id!r}, {place}: {first['msg']}") from None


def base_url_of(model: ModelConfig) -> str:
    """The server's base URL without `/v1`: the model's, else `ANTHROPIC_BASE_URL`'s, else Anthropic's own."""
    return _base(model.endpoint_base_url) if model.endpoint_base_url else _environment_base_url()


def key_of(model: ModelConfig) -> str | None:
    """The API key: the model's, else `ANTHROPIC_API_KEY`; None where there is none.

    The key of the environment goes only where the user's environment points to, to Anthropic's own service and to
    this machine: a configuration that came with a stranger's benchmark cannot have it sent elsewhere.
    """
    if model.endpoint_api_key is not None:
        return model.endpoint_api_key.get_secret_value() or None
    here, own = urlsplit(base_url_of(model)), urlsplit(_environment_base_url())
    trusted = (here.scheme, here.netloc) == (own.scheme, own.netloc) or is_loopback(here.hostname or "")
    if not trusted and not (_is_official(here) and here.scheme == "https"):
        return None
    return os.environ.get("ANTHROPIC_API_KEY") or None


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def cli_of(extra: ClaudeAgentExtra) -> Path | None:
    """The Claude CLI: the one that is set, else the one in the SDK's wheel; None where there is none."""
    if extra.cli_path is not None:
        return extra.cli_path
    found = find_spec("claude_agent_sdk")
    if found is None or not found.submodule_search_locations:
        return None
    bundled = Path(found.submodule_search_locations[0], "_bundled", "claude.exe" if os.name == "nt" else "claude")
    return bundled if bundled.is_file() else None


def concurrency(model: ModelConfig) -> int:
    """How many runs of the CLI there may be at once."""
    return extra_of(model).max_concurrency


def unavailable() -> str | None:
    """Why the adapter cannot work here: the SDK is not installed. Imports nothing."""
    missing = [name for name in ("claude_agent_sdk", "mcp", "aiohttp") if find_spec(name) is None]
    return f"{missing[0]} is not installed: pip install karenina-claude_agent_sdk" if missing else None


def check(model: ModelConfig) -> None:
    """Refuse what would fail every item: a bad URL, unknown settings, no CLI, Anthropic's own host without a key."""
    extra = extra_of(model)
    url = _checked_url(model)
    if not model.model_name:
        raise AdapterConfigError(f"model {model.id!r}, model_name: name the model, such as claude-sonnet-5")
    if model.temperature is not None and (model.temperature > 1 or extra.thinking == "adaptive"):
        raise AdapterConfigError(
            f"model {model.id!r}, temperature: the Messages API takes 0 to 1, and none for a model that thinks"
        )
    cli = cli_of(extra)
    if cli is None or not os.access(cli, os.X_OK):
        raise AdapterConfigError(
            f"model {model.id!r}: there is no Claude CLI that can be run{f' at {cli}' if cli else ''}; the SDK brings "
            "one for Linux, macOS and Windows: install it from its wheel, or set extra.cli_path"
        )
    key = key_of(model)
    if key is not None and not _can_be_sent(key):
        raise AdapterConfigError(f"model {model.id!r}: the API key holds a line break or other characters no key has")
    own_key = {"authorization", "x-api-key"} & {name.lower() for name in extra.headers}
    if _is_official(url) and key is None and not own_key:
        raise AdapterConfigError(
            f"model {model.id!r}: {url.hostname} needs an API key; set ANTHROPIC_API_KEY or endpoint_api_key, or set "
            "endpoint_base_url to a server of your own (the CLI's own login is not used)"
        )


def _checked_url(model: ModelConfig) -> SplitResult:
    where = f"model {model.id!r}, endpoint_base_url"
    try:
        url = urlsplit(base_url_of(model))
        _ = url.port
    except ValueError as error:
        raise AdapterConfigError(f"{where}: not a URL ({error}); it looks like http://localhost:8000") from None
    if url.scheme not in ("http", "https") or not url.hostname:
        raise AdapterConfigError(f"{where}: it must begin with http:// or https:// and name a host")
    if url.username is not None or url.password is not None:
        raise AdapterConfigError(f"{where}: it holds a user name or password; put the key into endpoint_api_key")
    if url.query or url.fragment:
        raise AdapterConfigError(f"{where}: it has a query, which cannot be sent; give the plain base URL")
    if url.path.endswith("/messages"):
        raise AdapterConfigError(f"{where}: give the base URL, not that of one method (without /v1/messages)")
    return url


def _environment_base_url() -> str:
    return _base(os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL_BASE_URL)


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _is_official(url: SplitResult) -> bool:
    return url.hostname == "api.anthropic.com"


def _can_be_sent(text: str) -> bool:
    return text.isascii() and text.isprintable()
