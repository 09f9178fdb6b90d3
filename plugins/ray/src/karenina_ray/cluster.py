"""Ray, started or joined quietly: no dashboard, no report of its use to anybody, no lines of its own on the screen."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from karenina_core.errors import ConfigError
from karenina_ray.cluster_join import join

_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # as Ray will do by default; without it, it warns
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # workers have the interpreter of the run, and no other
}
_AUTH: Final = "RAY_AUTH_MODE"
"""The variable by which Ray shows its token (of RAY_AUTH_TOKEN or ~/.ray/auth_token) to a cluster."""
_STORE: Final = 128 * 2**20
"""Bytes of Ray's object store: messages are small and do not stay."""

logger = logging.getLogger("karenina")


@asynccontextmanager
async def cluster(address: str | None, workers: int | None) -> AsyncGenerator[Any]:
    """The module `ray`, connected as long as the block lasts. What was started here ends with it.

    A connection that the program has made itself is used, and left alone. Raises `ConfigError` where there is no
    connection to be had.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    ray = await asyncio.to_thread(_imported)
    if ray.is_initialized():
        if address not in (None, "auto"):
            logger.info("Ray is connected in this process already: that is used, and not ray_address")
        yield ray
        return
    verbose = logger.isEnabledFor(logging.DEBUG)
    options: dict[str, Any] = {"log_to_driver": verbose, "logging_level": "INFO" if verbose else "ERROR"}
    if address is None:
        options |= {
            "num_cpus": workers or os.cpu_count() or 1,
            "include_dashboard": False,
            "object_store_memory": _STORE,
        }
    try:
        if address is None:
            # In a thread: the loop goes on, and Ray leaves the handlers of signals to those who have set them.
            await asyncio.to_thread(lambda: ray.init(address="local", **options))
        else:
            await join(ray, address, options)
    except Exception as error:
        where = f"the Ray cluster {address} (ray_address) cannot be reached" if address else "Ray cannot be started"
        token = "" if address is None or os.environ.get(_AUTH) else f"; where it asks for a token, set {_AUTH}=token"
        raise ConfigError([f"executor ray: {where}: {type(error).__name__}: {error}{token}"]) from error
    try:
        with _no_lines(ray, verbose):
            yield ray
    finally:
        await asyncio.shield(asyncio.to_thread(ray.shutdown))


def _imported() -> Any:
    import ray

    return ray


class _no_lines:  # noqa: N801 - used as a context
    """Keep what Ray says of dead workers from the standard output, where results are: the run says it itself.

    Ray prints it there whatever `log_to_driver` says, and has no other way to turn it off.
    """

    def __init__(self, ray: Any, verbose: bool) -> None:
        self._room = getattr(getattr(ray, "_private", None), "worker", None)
        self._printed = None if verbose else getattr(self._room, "print_to_stdstream", None)

    def __enter__(self) -> None:
        if self._room is not None and self._printed is not None:
            self._room.print_to_stdstream = lambda data, *_more, **_named: logger.debug("Ray says: %s", data)

    def __exit__(self, *_raised: object) -> None:
        if self._room is not None and self._printed is not None:
            self._room.print_to_stdstream = self._printed
