"""The hook for benchmark file formats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_benchmark.formats.format import Format


@hookspec
def karenina_formats() -> Sequence[Format]:
    """Return file formats for benchmarks. The suffix of a file selects its format.

    `Benchmark.load`, `Benchmark.save` and all commands that take a benchmark use them like the built-in formats.
    """
