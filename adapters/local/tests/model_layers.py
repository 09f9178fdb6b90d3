"""Makes a model file with few of the layers of another: quick, with the same tokens, and with replies without sense."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value of each type of GGUF."""
TEXT, LIST = 8, 9
ALIGNMENT = 32


def keep_layers(source: Path, target: Path, layers: int) -> None:
    """Write a copy of a GGUF file with its first `layers` layers."""
    with source.open("rb") as file:
        magic, version, tensors, fields = file.read(4), *(_number(file, form) for form in "IQQ")
        start = file.tell()
        counts = [at for name, at in _fields(file, fields) if name.endswith(".block_count")]
        described = _back_to(file, start)
        found = sorted((_tensor(file) for _ in range(tensors)), key=lambda one: one[2])
        data = -(-file.tell() // ALIGNMENT) * ALIGNMENT
        ends = [after[2] for _, after in pairwise(found)] + [source.stat().st_size - data]
        kept = [(*one, end) for one, end in zip(found, ends, strict=True) if _layer(one[0]) < layers]
        for at in counts:
            described[at - start : at - start + 4] = struct.pack("<I", layers)
        with target.open("wb") as copy:
            copy.write(magic + struct.pack("<IQQ", version, len(kept), fields) + described)
            offset = 0
            for name, shape, begin, end in kept:
                copy.write(struct.pack("<Q", len(name)) + name + shape + struct.pack("<Q", offset))
                offset += end - begin
            copy.write(bytes(-copy.tell() % ALIGNMENT))
            for _, _, begin, end in kept:
                file.seek(data + begin)
                copy.write(file.read(end - begin))


def _number(file: BinaryIO, form: str) -> int:
    """Read a number in this form of `struct`."""
    return int(struct.unpack(f"<{form}", file.read(struct.calcsize(form)))[0])


def _fields(file: BinaryIO, count: int) -> Iterator[tuple[str, int]]:
    """Read fields; return the name of each, and where its value is."""
    for _ in range(count):
        name, kind = file.read(_number(file, "Q")).decode(), _number(file, "I")
        yield name, file.tell()
        _skip(file, kind)


def _skip(file: BinaryIO, kind: int) -> None:
    if kind == TEXT:
        file.seek(_number(file, "Q"), 1)
    elif kind == LIST:
        inner, count = _number(file, "I"), _number(file, "Q")
        if inner in SIZES:
            file.seek(count * SIZES[inner], 1)
        else:
            for _ in range(count):
                _skip(file, inner)
    else:
        file.seek(SIZES[kind], 1)


def _back_to(file: BinaryIO, start: int) -> bytearray:
    """Return the bytes since `start`."""
    end = file.tell()
    file.seek(start)
    return bytearray(file.read(end - start))


def _tensor(file: BinaryIO) -> tuple[bytes, bytes, int]:
    """Read the name of a tensor, its shape with its type, and where it is."""
    name, at = file.read(_number(file, "Q")), file.tell()
    file.seek(8 * _number(file, "I") + 4, 1)
    return name, bytes(_back_to(file, at)), _number(file, "Q")


def _layer(tensor: bytes) -> int:
    """Return the layer of a tensor; -1 for one of all layers."""
    return int(tensor.split(b".")[1]) if tensor.startswith(b"blk.") else -1
