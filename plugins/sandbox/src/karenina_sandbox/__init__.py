"""Sandboxes: isolated workspaces for agents, and checks that run a program on what an agent left.

The entry points of the stages name `stages`, which commands do not load, and the other one names `plugin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core import hookimpl
from karenina_toolkit.lazy_names import offer


class stages:  # noqa: N801 - the entry points' name
    """The stages of this distribution."""

    karenina_extra_stages = offer(
        "karenina_sandbox.prepare_sandbox:PrepareSandbox",
        "karenina_sandbox.prepare_sandbox:CaptureWorkspace",
        "karenina_sandbox.run_checks:RunChecks",
    )


if TYPE_CHECKING:
    from karenina_core import VerificationConfig
    from karenina_core.models.ports import ProgramSandbox
    from karenina_core.plugins import Plugins


class plugin:  # noqa: N801 - the entry point's name
    """The sandboxes of this distribution, and what commands do with them."""

    karenina_rehearsals = offer("karenina_sandbox.rehearsal:REHEARSAL")
    karenina_diagnoses = offer("karenina_sandbox.diagnosis:DIAGNOSIS")
    karenina_sandboxes = offer(
        "karenina_sandbox.providers.bwrap:SANDBOX",
        "karenina_sandbox.providers.containers:PODMAN",
        "karenina_sandbox.providers.containers:DOCKER",
        "karenina_sandbox.providers.none:SANDBOX",
    )

    @staticmethod
    @hookimpl
    def karenina_program_sandbox(config: VerificationConfig, plugins: Plugins) -> ProgramSandbox | None:
        """Return the sandbox for programs that agents start."""
        from karenina_sandbox.programs import program_sandbox

        return program_sandbox(config, plugins)
