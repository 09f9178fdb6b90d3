"""Starting or joining a Ray cluster without a dashboard, usage statistics or output on the screen.

This module adds a timeout for joining, because `ray.init` has none and waits for two minutes if nothing responds.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from karenina_core.errors import ConfigError

_CONNECT: Final = 5.0
_JOIN: Final = 10.0
"""The timeout for joining, in seconds. Running clusters respond in less than one second."""


async def join_cluster(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    """Connect the module `ray` to a cluster. `options` are passed to `ray.init`, whose exceptions propagate. Raises
    `OSError` or `TimeoutError` if nothing responds at `address`. If the connection is only made later, it is closed
    again.
    """
    if ":" in address:
        await _check_reachable(address)
    loop = asyncio.get_running_loop()
    joined: asyncio.Future[None] = loop.create_future()
    given_up = threading.Event()

    def report(error: BaseException | None) -> None:
        """Set the outcome of joining, unless the caller has given up."""
        if joined.done():
            return
        if error is None:
            joined.set_result(None)
        else:
            joined.set_exception(error)

    def connect() -> None:
        """Connect to the cluster in this thread, and report the result to the event loop. If the caller has given up
        meanwhile, disconnect again instead.
        """
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
    """Raise `OSError` or `TimeoutError` if nothing listens at `address`. Without a port, nothing is checked."""
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
"""The environment variable that makes Ray send its token (RAY_AUTH_TOKEN or ~/.ray/auth_token)."""
_STORE: Final = 128 * 2**20
"""The size of Ray's object store in bytes. It can be small, because messages are small and short-lived."""

logger = logging.getLogger("karenina")


@asynccontextmanager
async def open_cluster(address: str | None, workers: int | None) -> AsyncGenerator[Any]:
    """Yield the module `ray`, connected to the cluster at `address`. If `address` is None, start a new cluster with
    `workers` CPUs (by default, all), which is stopped at the end of the `with` block. If Ray is connected already, that
    connection is used instead. Raises `ConfigError` if Ray cannot be started or the cluster cannot be reached.

    An earlier connection is left open. The environment variables in `_QUIET` are set, unless they already have a value.
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
            await asyncio.to_thread(_start_ray, ray, options)
        else:
            await join_cluster(ray, address, options)
    except Exception as error:
        where = f"cannot reach the Ray cluster {address} (ray_address)" if address else "cannot start Ray"
        token = (
            "" if address is None or os.environ.get(_AUTH) else f"; if the cluster requires a token, set {_AUTH}=token"
        )
        raise ConfigError([f"ray executor: {where}: {type(error).__name__}: {error}{token}"]) from error
    _restore_sigterm_handler()
    try:
        with _SilencedRay(ray, verbose):
            yield ray
    finally:
        await asyncio.shield(asyncio.to_thread(ray.shutdown))


def _start_ray(ray: Any, options: dict[str, Any]) -> None:
    """Start a cluster in a thread. SIGHUP is blocked in its processes, as Ray blocks SIGINT: when the terminal closes,
    the kernel sends it to them too, but they have to finish their calls.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        ray.init(address="local", **options)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _restore_sigterm_handler() -> None:
    """Install the program's handler of SIGTERM again, because Ray's prints a stack trace before calling it."""
    handler = signal.getsignal(signal.SIGTERM)
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, handler)


def _import_ray() -> Any:
    import ray

    return ray


class _SilencedRay:
    """Logs Ray's messages about dead workers for the duration of the `with` block, instead of printing them.

    Ray prints these messages regardless of `log_to_driver`, and has no option to disable them.
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
