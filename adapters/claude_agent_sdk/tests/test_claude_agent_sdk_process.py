"""The process of the CLI ends when it is closed, whatever it has written."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from karenina_claude_agent_sdk.cli_process import CLIProcess


@pytest.mark.parametrize("stream", ["1", "2"])
def test_a_cli_with_unread_output_can_be_closed(tmp_path: Path, stream: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("karenina_claude_agent_sdk.cli_process._LONGEST_END", 3600.0)  # what it must not wait for
    script = f"head -c 3000000 /dev/zero >&{stream}; exec sleep 600"

    async def use() -> None:
        process = CLIProcess(("sh", "-c", script), dict(os.environ), tmp_path, "mark-of-this-test")
        await process.connect()
        await asyncio.sleep(0.5)
        async with asyncio.timeout(120):
            await process.close()

    asyncio.run(use())
