"""The settings for `claude_agent_sdk`, and the sources of its base URL and key."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal
from urllib.parse import SplitResult

from pydantic import Field

from karenina_core.catalog import install_command
from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.attachments import MediaLimit
from karenina_core.models.settings_models import AllowedInFiles
from karenina_toolkit import adapter_settings
from karenina_toolkit.attachments.support import image_and_pdf_limits
from karenina_toolkit.http import endpoints

if TYPE_CHECKING:
    from karenina_core.models.model import ModelConfig

OFFICIAL_BASE_URL: Final = "https://api.anthropic.com"
KEY_VARIABLES: Final = ("ANTHROPIC_API_KEY",)
DEFAULT_TIMEOUT = 300.0

CLITool = Literal["Read", "Glob", "Grep", "Write", "Edit", "Bash"]


class ClaudeAgentExtra(endpoints.ServerExtra):
    """`ModelConfig.extra` for `claude_agent_sdk`. Header values are secrets."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"
    tools: tuple[CLITool, ...] = Field(
        default=("Read", "Glob", "Grep", "Write", "Edit"),
        description="CLI tools for an agent in its workspace. All tools except Bash are restricted to the workspace; "
        "Bash runs any command. With --sandbox bwrap, the CLI and its commands are confined. Otherwise Bash has the "
        "rights of this process, including network access, so allow it only in a container.",
    )
    thinking: Literal["adaptive", "disabled"] | None = Field(
        default=None,
        description="Whether the model thinks before it answers; by default, the CLI decides.",
        json_schema_extra={"allowed_in_files": "any"},
    )
    pass_env: tuple[str, ...] = Field(
        default=(),
        description="Names of environment variables that are passed to the CLI and to an agent's commands.",
    )
    cli_path: Path | None = Field(default=None, description="Path to a Claude CLI to use instead of the SDK's CLI.")
    max_concurrency: int = Field(
        default=4,
        ge=1,
        description="Maximum number of concurrent runs of the CLI; each run is a process of about 250 MB.",
        json_schema_extra={"allowed_in_files": "any"},
    )


def extra_of(model: ModelConfig) -> ClaudeAgentExtra:
    """Return a model's validated `extra`. Raises `AdapterConfigError` without its values if it is invalid."""
    return adapter_settings.extra_of(model, ClaudeAgentExtra)


def base_url_of(model: ModelConfig) -> str:
    """Return the server's base URL without `/v1`: the model's own, or that in `ANTHROPIC_BASE_URL`, or Anthropic's."""
    return _base(model.endpoint_base_url) if model.endpoint_base_url else _environment_base_url()


def key_of(model: ModelConfig) -> str | None:
    """Return the model's own API key or else, if it may be sent to the model's server, the one in `ANTHROPIC_API_KEY`,
    if any.

    A key from the environment is sent only to Anthropic, to the server in `ANTHROPIC_BASE_URL`, and to localhost.
    Otherwise, someone else's benchmark could send it anywhere.
    """
    own = (OFFICIAL_BASE_URL, _environment_base_url())
    return endpoints.find_api_key(model, base_url_of(model), own, KEY_VARIABLES)


def cli_of(extra: ClaudeAgentExtra) -> Path | None:
    """Return the configured path of the Claude CLI, which may not exist, or the CLI in the SDK's wheel, or None."""
    if extra.cli_path is not None:
        return extra.cli_path
    spec = find_spec("claude_agent_sdk")
    if spec is None or not spec.submodule_search_locations:
        return None
    bundled = Path(spec.submodule_search_locations[0], "_bundled", "claude.exe" if os.name == "nt" else "claude")
    return bundled if bundled.is_file() else None


def program(model: ModelConfig) -> Sequence[str]:
    """Return the command that an agent starts in a sandbox. It is the real path of the CLI, if there is one."""
    cli = cli_of(extra_of(model))
    return [str(cli.absolute()) if cli is not None else "claude"]


def concurrency(model: ModelConfig) -> int:
    """Return the maximum number of concurrent CLI runs."""
    return extra_of(model).max_concurrency


def unavailable() -> str | None:
    """Return a message if a required package is not installed, otherwise None. Nothing is imported."""
    missing = [name for name in ("claude_agent_sdk", "mcp", "aiohttp") if find_spec(name) is None]
    return (
        f"{missing[0].replace('_', '-')} is not installed: {install_command('karenina-claude-agent-sdk')}"
        if missing
        else None
    )


def media(model: ModelConfig) -> Mapping[str, MediaLimit]:
    """Return the media types of attachments that the CLI passes on to the Messages API, each with its limits.

    It accepts images of up to 5 MB in base64, which are 3.9 MB in a file
    (https://platform.claude.com/docs/en/build-with-claude/vision, November 2026).

    They are sent as blocks of the message, as the SDK documents for images
    (https://code.claude.com/docs/en/agent-sdk/streaming-vs-single-mode), rather than as files in the workspace: a file
    would count as a change that the agent made there, and the agent could leave it unread.
    """
    return image_and_pdf_limits(model, extra_of(model))


def check(model: ModelConfig) -> None:
    """Raise `AdapterConfigError` for an invalid URL, temperature or setting, or a missing CLI, model name or Anthropic
    key.
    """
    extra = extra_of(model)
    url = endpoints.check_base_url(model, base_url_of(model), like="http://localhost:8000")
    if not model.model_name:
        raise AdapterConfigError(
            f"model {model.id!r}: model_name is missing; set model_name, for example to claude-sonnet-5"
        )
    if model.temperature is not None and (model.temperature > 1 or extra.thinking == "adaptive"):
        raise AdapterConfigError(
            f"model {model.id!r}, temperature: the Messages API accepts values from 0 to 1, and no temperature with "
            "adaptive thinking; correct or remove the temperature"
        )
    cli = cli_of(extra)
    if cli is None or not os.access(cli, os.X_OK):
        raise AdapterConfigError(
            f"model {model.id!r}: no executable Claude CLI was found{f' at {cli}' if cli else ''}; install the SDK "
            "from its wheel, which contains a CLI for Linux, macOS and Windows, or set extra.cli_path"
        )
    needed = _is_official(url) and not extra.has_header("authorization", "x-api-key")
    why = (
        f"{url.hostname} needs an API key; set ANTHROPIC_API_KEY or endpoint_api_key, or set "
        "endpoint_base_url to a server of your own (the CLI's own login is not used)"
    )
    endpoints.check_api_key(model, key_of(model), KEY_VARIABLES, needed=why if needed else None)


def _environment_base_url() -> str:
    """Return the base URL in `ANTHROPIC_BASE_URL` without `/v1`, or else Anthropic's own."""
    return _base(os.environ.get("ANTHROPIC_BASE_URL") or OFFICIAL_BASE_URL)


def _base(url: str) -> str:
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _is_official(url: SplitResult) -> bool:
    """Return whether `url` is Anthropic's own service, which needs a key."""
    return url.hostname == "api.anthropic.com"
