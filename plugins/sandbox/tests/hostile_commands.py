"""Runs each attack of a table in a sandbox, as another user if asked to, and prints what came of it as JSON.

Usage: `python hostile_commands.py FOLDER LIMITED_BY LAYERS [USER]`. The folder contains the file `secret`, and the
environment contains the same secret. As another user, the process starts as root, because it may not be able to read
this installation later.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

from karenina_sandbox.providers.bwrap import BwrapProvider
from karenina_sandbox.providers.bwrap_program import find_program
from karenina_sandbox.sandbox import Limits, Policy

MEGABYTE = 2**20
LIMITS = Limits(seconds=200, memory=256 * MEGABYTE, processes=60, disk=16 * MEGABYTE)
CHILDREN = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        held = bytearray(os.urandom(1000)) * 100_000
        time.sleep(200)
time.sleep(200)
"""
BOMB = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
FILES = "import itertools\nfor n in itertools.count(): open(f'f{n}', 'w').close()"
BIG = "import os\nf = open('big', 'wb')\nwhile True: f.write(b'x' * 2**20)"
NETWORK = """
import socket
for kind, address in ((socket.AF_INET, ("127.0.0.1", {port})), (socket.AF_UNIX, "\\0karenina-{port}")):
    try:
        socket.socket(kind).connect(address)
        print("CONNECTED", address)
    except OSError:
        pass
"""
KERNEL = """
for name in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger", "/proc/self/uid_map"):
    try:
        open(name, "r+b").close()
        print("OPENED", name)
    except OSError:
        pass
"""
CALLS = """
import ctypes, socket
for family in range(1, 50):
    try:
        socket.socket(family, socket.SOCK_RAW if family in (16, 17) else socket.SOCK_STREAM).close()
        print("SOCKET", family)
    except OSError:
        pass
print("UNSHARE", ctypes.CDLL(None).unshare(0x10000000))
"""
COMMANDS = {
    "home": "ls -A {home}; cat {home}/.profile {home}/.bashrc",
    "other files": "cat {secret}; find / -xdev -name secret 2>/dev/null",
    "processes": "ls /proc | grep -c '^[0-9]'; cat /proc/*/cmdline | tr '\\0' ' '; kill -9 {pid}",
    "environment": "cat /proc/*/environ; env",
    "descriptors": "ls -l /proc/self/fd /proc/1/fd",
    "links": "ln -s {secret} link; ln -s {parent} folder; cat link folder/secret",
    "outside": "for d in / /usr /etc /dev /proc /home /lib; do touch $d/x && echo WROTE $d; done",
    "mounts": "mount -o remount,rw /proc && echo GOT; umount /usr && echo GOT; mknod d c 1 1 && echo GOT",
    "rights": "cp /bin/sh s; chmod 6755 s; ls -l s; grep CapEff /proc/self/status",
    "everyone": "kill -9 -1; kill -9 1; echo alive",
    "outlives": "setsid sleep 98{port} >/dev/null 2>&1 </dev/null & echo started",
    "output": "yes | head -c 50000000",
}
SCRIPTS = {
    "network": NETWORK,
    "kernel": KERNEL,
    "calls": CALLS,
    "children": CHILDREN,
    "fork bomb": BOMB,
    "many files": FILES,
    "large file": BIG,
    "sparse file": "open('sparse', 'wb').truncate(10 * 2**30)",
    "time": "while True: pass",
}


async def attack(folder: Path, provider: BwrapProvider, *, in_place: bool) -> dict[str, Any]:
    """Return what each attack printed and left."""
    source = folder / "workspace"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        port = server.getsockname()[1]
        unix.bind(f"\0karenina-{port}")
        unix.listen()
        facts = {"secret": folder / "secret", "parent": folder, "pid": os.getpid(), "port": port, "home": Path.home()}
        results: dict[str, Any] = {"outlives number": f"98{port}"}
        python = Path(sys.executable) if os.access(sys.executable, os.X_OK) else Path("/usr/bin/python3")
        policy = Policy(LIMITS, python=python)
        tables = [
            *((name, ["sh", "-c", text.format(**facts)]) for name, text in COMMANDS.items()),
            *((name, ["python", "-c", text.replace("{port}", str(port))]) for name, text in SCRIPTS.items()),
        ]
        for name, command in tables:
            async with provider.open(source, policy, in_place=in_place) as sandbox:
                result = await sandbox.run(command, seconds=1 if name == "time" else 150)
                patch = await sandbox.patch()
                results[name] = {
                    "exit": result.exit,
                    "stopped_by": result.stopped_by,
                    "output": (result.output + result.error_output).decode("utf-8", "replace"),
                    "patch": {
                        entry.path: [entry.kind, entry.mode] for entry in patch.entries if len(patch.entries) < 20
                    },
                    "read": [repr(await sandbox.read(path, 1000)) for path in ("link", "folder/secret")],
                }
            if in_place:
                for path in list(source.iterdir()):
                    results[name].setdefault("owners", []).append(path.lstat().st_uid)
                    if path.name != "kept":
                        path.unlink()
    return results


async def warm_up(provider: BwrapProvider, folder: Path) -> None:
    """Run a first command, for which all modules are loaded."""
    async with provider.open(folder / "workspace", Policy()) as sandbox:
        await sandbox.run(["true"])
        await sandbox.patch()


def drop_to(user: int, folder: Path) -> None:
    """Give up root's user id."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    find_program.cache_clear()


def main(place: Path, limited_by: str, layers: str, user: int | None) -> dict[str, Any]:
    """Return what came of each attack, or why there is no sandbox."""
    tested = BwrapProvider(
        limited_by="usage" if limited_by == "usage" else None,
        layers="overlay" if layers == "overlay" else "copy" if layers == "copy" else None,
    )
    if user is not None:
        asyncio.run(warm_up(BwrapProvider(), place))
        drop_to(user, place)
    why = tested.unavailable()
    return {"unavailable": why} if why else asyncio.run(attack(place, tested, in_place=layers == "in_place"))


if __name__ == "__main__":
    folder_name, limited, opened, *users = sys.argv[1:]
    sys.stdout.write(json.dumps(main(Path(folder_name), limited, opened, int(users[0]) if users else None)))
