"""How long sandboxes take: the start of a command, and a folder of 10,000 files as an overlay or copy.

    python benchmarks/sandbox.py [--image IMAGE]

Prints medians and, for bubblewrap, the targets: a command starts within 20 ms, and a folder of 10,000 files is opened,
changed and captured within 300 ms as an overlay. Run it on an idle machine. With `--image`, podman or docker are
measured, too.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from karenina_sandbox.providers.bwrap import BwrapProvider
from karenina_sandbox.providers.containers import ContainerProvider
from karenina_sandbox.sandbox import Policy, SandboxProvider

FILES = 10_000


async def measure(repeats: int, work: Callable[[], Awaitable[object]]) -> float:
    """Return the median of the milliseconds that `work` takes."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        await work()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def measure_start(provider: SandboxProvider, folder: Path, policy: Policy, repeats: int) -> float:
    """Return the milliseconds of a command that does nothing, in a sandbox that is open."""
    async with provider.open(folder, policy) as sandbox:
        await sandbox.run(["true"])
        return await measure(repeats, lambda: sandbox.run(["true"]))


async def measure_folder(provider: SandboxProvider, folder: Path, repeats: int) -> float:
    """Return the milliseconds of opening a folder, changing three files with a command, and capturing the changes."""

    async def change() -> None:
        async with provider.open(folder, Policy()) as sandbox:
            await sandbox.run(["sh", "-c", "echo x > 1/1; rm 2/2; echo y > new"])
            patch = await sandbox.patch()
            assert [entry.path for entry in patch.entries] == ["1/1", "2/2", "new"]

    return await measure(repeats, change)


def write_folders(small: Path, large: Path) -> None:
    """Write an empty folder, and one with `FILES` files."""
    small.mkdir()
    for number in range(FILES):
        file = large / str(number % 100) / str(number)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{number}\n")
    for place in range(1, 3):
        (large / str(place) / str(place)).write_text("first\n")


async def main(image: str | None) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as name:
        small, large = Path(name, "small"), Path(name, "large")
        write_folders(small, large)
        bwrap = BwrapProvider()
        print(f"bwrap, start of a command: {await measure_start(bwrap, small, Policy(), 30):.1f} ms (at most 20)")
        print(f"bwrap, {FILES:,} files as overlay: {await measure_folder(bwrap, large, 5):.0f} ms (at most 300)")
        copying = BwrapProvider(layers="copy")
        print(f"bwrap, {FILES:,} files as copy: {await measure_folder(copying, large, 3):.0f} ms")
        for engine in ("podman", "docker") if image else ():
            provider = ContainerProvider("podman" if engine == "podman" else "docker")
            why = provider.unavailable()
            if why is not None:
                print(f"{engine}: {why}")
                continue
            print(f"{engine}, a command: {await measure_start(provider, small, Policy(image=image), 5):.0f} ms")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", help="A container image that is on this machine")
    asyncio.run(main(parser.parse_args().image))
