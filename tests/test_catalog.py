"""The catalog of names and owners in the core matches the declarations of the members."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from karenina_core.catalog import read_catalog

CHECKOUT = Path(__file__).parents[1]


def test_the_file_of_owners_is_up_to_date() -> None:
    """Update it with `python scripts/catalog.py`, which writes the file."""
    made = subprocess.run(
        [sys.executable, CHECKOUT / "scripts/catalog.py", "--print"], capture_output=True, text=True, check=True
    )

    assert json.loads(made.stdout) == read_catalog()
