"""The settings of sandboxes and checks, and the sandbox and policy that follow from them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from karenina_core.config.setting_owners import not_loaded
from karenina_core.errors import ConfigError
from karenina_core.models.settings_models import AllowedInFiles
from karenina_core.text import did_you_mean, list_names
from karenina_sandbox.hookspecs import karenina_sandboxes
from karenina_sandbox.sandbox import Limits, Policy, SandboxProvider

if TYPE_CHECKING:
    from karenina_core import VerificationConfig
    from karenina_core.plugins import Plugins


ENVIRONMENT: Final[Mapping[str, str]] = {"PYTEST_ADDOPTS": "-p no:karenina"}
"""Variables of commands. pytest leaves out our own plugin, whose source need not be readable in a sandbox."""


class SandboxSettings(BaseModel, defer_build=True):
    """The settings of sandboxes and checks."""

    allowed_in_files: ClassVar[AllowedInFiles] = "never"

    sandbox: str | None = Field(
        default=None,
        description="How the commands of checks and agents are isolated: bwrap, podman or docker; none runs them as "
        "you, with your files and network, and is only allowed on the command line.",
        json_schema_extra={"option": "--sandbox", "command_line_only": ["none"]},
    )
    sandbox_image: str | None = Field(
        default=None,
        description="Container image for podman and docker, such as python:3.12.",
        json_schema_extra={"option": "--sandbox-image"},
    )
    sandbox_python: Path | None = Field(
        default=None,
        description="Interpreter that is `python` in a sandbox, such as that of a virtual environment; by default, the "
        "one that runs Karenina.",
    )
    sandbox_mounts: tuple[Path, ...] = Field(
        default=(), description="Files and folders outside the workspace that commands in a sandbox may read."
    )
    sandbox_concurrency: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of commands that run at the same time; by default, the number of cores.",
        json_schema_extra={"allowed_in_files": "any"},
    )
    workspace_keep: Literal["none", "patch", "all"] = Field(
        default="patch",
        description="What results keep of an agent's work in a workspace: nothing, the patch, or the patch and each "
        "changed file.",
        json_schema_extra={"allowed_in_files": "any"},
    )


def make_policy(settings: SandboxSettings, *, seconds: float | None = None) -> Policy:
    """Return the policy that follows from the settings. A command may take `seconds`, or by default the usual limit."""
    limits = Limits() if seconds is None else Limits(seconds=seconds)
    return Policy(
        limits,
        tuple(path.absolute() for path in settings.sandbox_mounts),
        settings.sandbox_python or Path(sys.executable),
        image=settings.sandbox_image,
        environment=ENVIRONMENT,
    )


def find_provider(plugins: Plugins, name: str) -> SandboxProvider:
    """Return the provider with the given name. Raises `ConfigError` if there is none."""
    providers = {offer.value.name: offer.value for offer in plugins.offers(karenina_sandboxes, SandboxProvider)}
    if name not in providers:
        near = did_you_mean(name, providers, f"; there are: {list_names(providers)}")
        raise ConfigError([f"there is no sandbox {name!r}{near}{not_loaded(plugins)}"])
    return providers[name]


def sandbox_problem(config: VerificationConfig, plugins: Plugins) -> str | None:
    """Return why commands cannot run in the configured sandbox, with a cure, or None if they can. Raises `ConfigError`
    if the sandbox does not exist or lacks its image, or if a benchmark chose to have none.
    """
    settings = config.section(SandboxSettings)
    if settings.sandbox is None:
        return "no sandbox is chosen; add --sandbox bwrap (`karenina doctor` states which sandboxes work here)"
    if settings.sandbox == "none" and "sandbox" in config.benchmark_names:
        raise ConfigError(
            [
                "the benchmark sets sandbox = none, which only you may choose: add --sandbox none to run its commands "
                "as you, with your files and network, or --sandbox bwrap"
            ]
        )
    provider = find_provider(plugins, settings.sandbox)
    if provider.needs_image and settings.sandbox_image is None:
        raise ConfigError(
            [f"{provider.name} requires an image; set one, for example with `--sandbox-image python:3.12`"]
        )
    why = provider.unavailable()
    return None if why is None else f"the sandbox {settings.sandbox!r} cannot be used: {why}"
