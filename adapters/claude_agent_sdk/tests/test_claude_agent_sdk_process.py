"""The process of the CLI ends when it is closed, whatever it has written."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from karenina_claude_agent_sdk.cli_process import CLIProcess


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_cli_with_unread_output_can_be_closed(tmp_path: Path, stream: str) -> None:
    script = f"head -c 3000000 /dev/zero >&{stream}; exec sleep 600"

    async def use() -> float:
        process = CLIProcess(("sh", "-c", script), dict(os.environ), tmp_path, "mark-of-this-test")
        await process.connect()
        await asyncio.sleep(0.5)
        began = time.monotonic()
        await process.close()
        return time.monotonic() - began

    assert asyncio.run(use()) < 4
