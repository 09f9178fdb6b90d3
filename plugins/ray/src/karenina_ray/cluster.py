"""Functions to start or join a Ray cluster quietly: no dashboard, no usage statistics, no output on the screen.

`ray.init` waits for about two minutes if nothing responds at the address, and has no timeout argument, so a timeout for
joining is added here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from karenina_core.errors import ConfigError

_CONNECT: Final = 5.0
_JOIN: Final = 10.0
"""The timeout for joining, in seconds. A running cluster answers in less than one second."""


async def join_cluster(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    """Connect the module `ray` to a cluster. `options` are further arguments for `ray.init`.

    Raises `OSError` or `TimeoutError` if nothing responds at `address`, and any error raised by `ray.init`. A
    connection that is made after the timeout is closed again.
    """
    if ":" in address:
        await _check_reachable(address)
    loop = asyncio.get_running_loop()
    joined: asyncio.Future[None] = loop.create_future()
    given_up = threading.Event()

    def report(error: BaseException | None) -> None:
        if joined.done():
            return
        if error is None:
            joined.set_result(None)
        else:
            joined.set_exception(error)

    def connect() -> None:
        failure: BaseException | None = None
        try:
            ray.init(address=address, **options)
        except BaseException as error:
            failure = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
        if given_up.is_set():
            ray.shutdown()
            return
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(report, failure)

    # A daemon thread, unlike those of `asyncio.to_thread`, so that the process can exit while Ray is still waiting.
    threading.Thread(target=connect, name="karenina-ray-join", daemon=True).start()
    try:
        await asyncio.wait_for(joined, _JOIN)
    except TimeoutError:
        raise TimeoutError(f"no Ray cluster answered within {_JOIN:g} s") from None
    finally:
        if not joined.done() or joined.cancelled():
            given_up.set()


async def _check_reachable(address: str) -> None:
    """Raise `OSError` or `TimeoutError` if nothing listens at `address`. An address without a port is not checked."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), _CONNECT)
    except TimeoutError:
        raise TimeoutError(f"could not connect within {_CONNECT:g} s") from None
    writer.close()


_QUIET: Final = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray's future default; Ray warns if it is not set
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # workers use the run's interpreter
}
_AUTH: Final = "RAY_AUTH_MODE"
"""The environment variable that makes Ray send its token (RAY_AUTH_TOKEN or ~/.ray/auth_token) to a cluster."""
_STORE: Final = 128 * 2**20
"""The size of Ray's object store in bytes: messages are small, and Ray need not store them for long."""

logger = logging.getLogger("karenina")


@asynccontextmanager
async def open_cluster(address: str | None, workers: int | None) -> AsyncGenerator[Any]:
    """Yield the module `ray`, connected to an existing cluster or, if `address` is None, to a new one.

    A cluster that was started is stopped at the end of the block. If the program has already connected Ray, that
    connection is used, whatever the `address`, and left open. `workers` is the number of CPUs of a new cluster (all
    CPUs of this machine if None). Sets the variables in `_QUIET` in this process's environment, unless they are set.
    Raises `ConfigError` if Ray cannot be started or the cluster cannot be reached.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    ray = await asyncio.to_thread(_import_ray)
    if ray.is_initialized():
        if address not in (None, "auto"):
            logger.info(
                "Ray is already connected in this process, so the existing connection is used and ray_address is "
                "ignored"
            )
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
            # In a thread, so that the event loop is not blocked and Ray does not replace signal handlers.
            await asyncio.to_thread(lambda: ray.init(address="local", **options))
        else:
            await join_cluster(ray, address, options)
    except Exception as error:
        where = f"cannot reach the Ray cluster {address} (ray_address)" if address else "cannot start Ray"
        token = (
            "" if address is None or os.environ.get(_AUTH) else f"; if the cluster requires a token, set {_AUTH}=token"
        )
        raise ConfigError([f"ray executor: {where}: {type(error).__name__}: {error}{token}"]) from error
    try:
        with _SilencedRay(ray, verbose):
            yield ray
    finally:
        await asyncio.shield(asyncio.to_thread(ray.shutdown))


def _import_ray() -> Any:
    """Import Ray and return the module. The import blocks for some time."""
    import ray

    return ray


class _SilencedRay:
    """A context manager that logs Ray's messages about dead workers instead of printing them to standard output.

    Ray prints these messages regardless of `log_to_driver`, and has no option to turn them off.
    """

    def __init__(self, ray: Any, verbose: bool) -> None:
        self._worker_module = getattr(getattr(ray, "_private", None), "worker", None)
        self._original = None if verbose else getattr(self._worker_module, "print_to_stdstream", None)

    def __enter__(self) -> None:
        if self._worker_module is not None and self._original is not None:
            self._worker_module.print_to_stdstream = lambda data, *_more, **_named: logger.debug("Ray: %s", data)

    def __exit__(self, *_raised: object) -> None:
        if self._worker_module is not None and self._original is not None:
            self._worker_module.print_to_stdstream = self._original
