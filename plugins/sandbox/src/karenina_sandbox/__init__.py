"""Sandboxes: isolated workspaces for agents, and checks that run a program on what an agent left.

The entry points name `plugin`.
"""

from __future__ import annotations

from karenina_toolkit.lazy_names import offer


class plugin:  # noqa: N801 - the entry point's name
    """The sandboxes and stages of this distribution."""

    karenina_extra_stages = offer(
        "karenina_sandbox.prepare_sandbox:PrepareSandbox",
        "karenina_sandbox.prepare_sandbox:CaptureWorkspace",
        "karenina_sandbox.run_checks:RunChecks",
    )
    karenina_rehearsals = offer("karenina_sandbox.rehearsal:REHEARSAL")
    karenina_diagnoses = offer("karenina_sandbox.diagnosis:DIAGNOSIS")
    karenina_sandboxes = offer(
        "karenina_sandbox.providers.bwrap:SANDBOX",
        "karenina_sandbox.providers.containers:PODMAN",
        "karenina_sandbox.providers.containers:DOCKER",
        "karenina_sandbox.providers.none:SANDBOX",
    )
