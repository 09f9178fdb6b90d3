"""Joining a Ray cluster within a time limit.

`ray.init` waits for about two minutes if nothing answers at the address, and has no argument for another limit.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

_CONNECT: Final = 5.0
_JOIN: Final = 10.0
"""Seconds. A cluster that is running takes less than one."""


async def join_cluster(ray: Any, address: str, options: Mapping[str, Any]) -> None:
    """Connect the module `ray` to a cluster. Raises `OSError` or `TimeoutError` if nothing answers at `address`."""
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

    # A daemon, unlike the threads of `asyncio.to_thread`: the process can end while Ray still waits.
    threading.Thread(target=connect, name="karenina-ray-join", daemon=True).start()
    try:
        await asyncio.wait_for(joined, _JOIN)
    except TimeoutError:
        raise TimeoutError(f"no Ray cluster answered within {_JOIN:g} s") from None
    finally:
        if not joined.done() or joined.cancelled():
            given_up.set()


async def _check_reachable(address: str) -> None:
    """Raise `OSError` or `TimeoutError` if nothing listens at `address`."""
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        return
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), _CONNECT)
    except TimeoutError:
        raise TimeoutError(f"no connection within {_CONNECT:g} s") from None
    writer.close()
