"""The lock under which syntax trees and classes are made.

CPython 3.11 counts the depth of a syntax tree once for all threads, so that two that parse at the same time fail now
and then with "AST constructor recursion depth mismatch"; building a pydantic class may parse too.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

BUILDING: Final = RLock()
