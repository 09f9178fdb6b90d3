"""The filter of system calls for bubblewrap: what namespaces leave open.

A namespace for networks does not contain the sockets of virtual machines (AF_VSOCK), which reach the hypervisor. In a
further user namespace, a program would have capabilities, and with them parts of the kernel that it has no other way
to reach.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # the codes of instructions
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # places in `struct seccomp_data`
_ALLOW: Final = 0x7FFF0000
_ERROR: Final = 0x00050000
_FAMILIES: Final = (1, 2, 10, 16)
"""The sockets that a program may create: AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK."""
_NEW_USER: Final = 0x10000000
_CLONE3, _IO_URING_SETUP = 435, 425  # the same for all architectures
_X32: Final = 0x40000000
"""The bit of a second set of numbers on x86-64."""
_SOCKETCALL_SOCKET: Final = 1

_Instruction = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Architecture:
    """An architecture as the kernel names it, and its numbers of system calls."""

    code: int
    socket: int
    clone: int
    unshare: int
    socketcall: int | None = None
    has_x32: bool = False


_ARCHITECTURES: Final = {
    "x86_64": (
        _Architecture(0xC000003E, socket=41, clone=56, unshare=272, has_x32=True),
        _Architecture(0x40000003, socket=359, clone=120, unshare=310, socketcall=102),
    ),
    "aarch64": (
        _Architecture(0xC00000B7, socket=198, clone=220, unshare=97),
        _Architecture(0x40000028, socket=281, clone=120, unshare=337, socketcall=102),
    ),
}
"""The architectures of the programs that a machine can run, by the name of the machine."""


@contextmanager
def opened_filter() -> Iterator[int | None]:
    """Yield a descriptor from which the seccomp filter for this machine can be read, or None if there is none."""
    program = filter_program(platform.machine())
    if program is None:
        yield None
        return
    descriptor = os.memfd_create("filter")
    try:
        os.write(descriptor, program)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def filter_program(machine: str) -> bytes | None:
    """Return the seccomp filter for a machine such as `x86_64`, as a BPF program, or None if there is none."""
    architectures = _ARCHITECTURES.get(machine)
    if architectures is None:
        return None
    program: list[_Instruction] = [(_LOAD, 0, 0, _ARCHITECTURE)]
    for one in architectures:
        program += _if_equal(one.code, _rules(one))
    program.append(_refuse(errno.EPERM))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _rules(one: _Architecture) -> list[_Instruction]:
    """Return the instructions that refuse new user namespaces, `clone3`, io_uring, x32 and sockets of unusual families
    on an architecture, and allow all other system calls.
    """
    allow, argument = (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _FIRST_ARGUMENT)
    no_family = _refuse(errno.EAFNOSUPPORT)
    rules: list[_Instruction] = [(_LOAD, 0, 0, _NUMBER)]
    if one.has_x32:
        rules += [(_AT_LEAST, 0, 1, _X32), _refuse(errno.ENOSYS)]
    allowed = [instruction for family in _FAMILIES for instruction in _if_equal(family, [allow])]
    rules += _if_equal(one.socket, [argument, *allowed, no_family])
    for number in (one.clone, one.unshare):
        rules += _if_equal(number, [argument, (_ANY_BIT, 0, 1, _NEW_USER), _refuse(errno.EPERM), allow])
    # The arguments of these are in memory, which a filter cannot read. C libraries use others if they are missing.
    for number in (_CLONE3, _IO_URING_SETUP):
        rules += _if_equal(number, [_refuse(errno.ENOSYS)])
    if one.socketcall is not None:
        rules += _if_equal(one.socketcall, [argument, *_if_equal(_SOCKETCALL_SOCKET, [no_family]), allow])
    return [*rules, allow]


def _if_equal(value: int, then: list[_Instruction]) -> list[_Instruction]:
    return [(_EQUAL, 0, len(then), value), *then]


def _refuse(number: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERROR | number)
