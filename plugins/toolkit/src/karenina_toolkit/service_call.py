"""Calls of services that stages use and that are not models, such as a search."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING

from anyio import to_thread

from karenina_core.models.ports import ErrorCategory, PortError

if TYPE_CHECKING:
    from karenina_core.stages.state import Ask


async def call_service(ask: Ask, limit: float) -> str:
    """Return the result of `ask` within `limit` seconds. Raises `PortError` with the text of any other error.

    A plain function runs in a thread, which is abandoned if it hangs, so that the time limit holds.
    """
    time_out = asyncio.timeout(limit)
    try:
        async with time_out:
            waiting = await to_thread.run_sync(ask, abandon_on_cancel=True)
            return str(await waiting if inspect.isawaitable(waiting) else waiting)
    except PortError:
        raise
    except Exception as error:
        if isinstance(error, TimeoutError) and time_out.expired():
            message = f"TimeoutError: it did not answer within {limit:g} s (request_timeout)"
            raise PortError(message, category=ErrorCategory.TIMEOUT) from None
        raise PortError(f"{type(error).__name__}: {error}", category=ErrorCategory.PERMANENT) from error
