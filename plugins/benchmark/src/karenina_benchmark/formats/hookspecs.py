"""The hook for file formats of benchmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from karenina_core.hooks import hookspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from karenina_benchmark.formats.format import Format


@hookspec
def karenina_formats() -> Sequence[Format]:
    """Offer file formats of benchmarks; the suffix of a file selects its format.

    `Benchmark.load`, `Benchmark.save` and every command that takes a benchmark use them like the built-in formats.
    """
