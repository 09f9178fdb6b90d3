"""The lock under which templates are parsed and pydantic classes are built.

CPython 3.11 counts the depth of a syntax tree in one counter for all threads, so parsing in two threads at once
sometimes fails with "AST constructor recursion depth mismatch". Building a pydantic class may also parse annotations.
"""

from __future__ import annotations

from threading import RLock
from typing import Final

CLASS_BUILD_LOCK: Final = RLock()
