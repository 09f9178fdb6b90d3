"""The filter of system calls, run by a small interpreter: also for the machines that the tests do not run on."""

from __future__ import annotations

import errno
import struct

import pytest

from karenina_sandbox.providers.seccomp import filter_program

ALLOWED = 0
X86, I386, ARM64, ARM = 0xC000003E, 0x40000003, 0xC00000B7, 0x40000028
VSOCK, INET, NEW_USER, NEW_NET = 40, 2, 0x10000000, 0x40000000


def decide(machine: str, architecture: int, number: int, argument: int) -> int:
    """Return the error of a system call, or ALLOWED."""
    program = filter_program(machine)
    assert program is not None
    data = struct.pack("=IIQQ", number, architecture, 0, argument)
    loaded = at = 0
    while True:
        code, yes, no, value = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("=I", data, value)
        elif code == 0x06:
            return ALLOWED if value == 0x7FFF0000 else int(value) & 0xFFFF
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: loaded & value != 0}[code]
            at += yes if holds else no


@pytest.mark.parametrize(
    ("machine", "architecture", "socket", "clone", "unshare"),
    [
        ("x86_64", X86, 41, 56, 272),
        ("x86_64", I386, 359, 120, 310),
        ("aarch64", ARM64, 198, 220, 97),
        ("aarch64", ARM, 281, 120, 337),
    ],
)
def test_each_architecture_has_its_numbers(
    machine: str, architecture: int, socket: int, clone: int, unshare: int
) -> None:
    assert decide(machine, architecture, socket, INET) == ALLOWED
    assert decide(machine, architecture, socket, 1 << 32 | VSOCK) == errno.EAFNOSUPPORT
    for number in (clone, unshare):
        assert decide(machine, architecture, number, NEW_NET) == ALLOWED
        assert decide(machine, architecture, number, NEW_NET | NEW_USER) == errno.EPERM
    assert decide(machine, architecture, 435, 0) == decide(machine, architecture, 425, 0) == errno.ENOSYS
    assert decide(machine, architecture, 1, VSOCK) == ALLOWED


def test_other_ways_to_create_a_socket_are_closed() -> None:
    assert decide("x86_64", X86, 0x40000000 | 41, INET) == errno.ENOSYS
    assert decide("x86_64", I386, 102, 1) == errno.EAFNOSUPPORT
    assert decide("x86_64", I386, 102, 3) == ALLOWED
    assert decide("x86_64", ARM64, 198, INET) == errno.EPERM
    assert filter_program("riscv64") is None
