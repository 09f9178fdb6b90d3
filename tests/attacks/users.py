"""Users who share files: each with a home, a configuration and a state of their own, and the installed command."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import preloaded
from gene_questions import TWO_GENES

from karenina_engine.journal.schema import with_digest


def genes(first_truth: str = "BCL2") -> str:
    """Return two questions about genes, the first of them with this truth."""
    return TWO_GENES.replace("BCL2", first_truth)


@dataclass(frozen=True)
class User:
    """A user with a home; `folder` is where they work."""

    home: Path
    folder: Path

    @classmethod
    def at(cls, place: Path) -> User:
        """Create a user with a home and a working folder in `place`."""
        (place / "home").mkdir(parents=True)
        (place / "work").mkdir()
        return cls(place / "home", place / "work")

    @property
    def runs(self) -> Path:
        """The folder with the commands of their runs."""
        return self.home / ".local" / "state" / "karenina" / "runs"

    def karenina(
        self, *arguments: str | Path, script: bool = False, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Give the command in the folder of work; `script` starts a new interpreter for it."""
        usual = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("KARENINA_", "XDG_")) and not name.endswith("_API_KEY")
        }
        usual |= {"HOME": str(self.home), "COLUMNS": "400", "NO_COLOR": "1"}
        return preloaded.run(
            arguments, folder=self.folder, environment={**usual, **environment}, timeout=120, script=script
        )

    def write(self, name: str, text: str) -> Path:
        """Return a file in the folder of work."""
        file = self.folder / name
        file.write_text(text, "utf-8")
        return file


@contextmanager
def edit_command(journal: Path) -> Iterator[dict[str, Any]]:
    """Provide the command in a journal, to be changed as whoever sends the journal may change it, digests and all."""
    database = sqlite3.connect(journal, isolation_level=None)
    row = database.execute("SELECT * FROM runs ORDER BY id DESC LIMIT 1").fetchone()
    command: dict[str, Any] = json.loads(row[5])
    yield command
    changed = with_digest("runs", (*row[:5], json.dumps(command)))
    database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?)", changed)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


def delete_results(journal: Path) -> None:
    """Take the results out of a journal, so that every item is worked out anew from its replies."""
    database = sqlite3.connect(journal, isolation_level=None)
    database.execute("DELETE FROM results")
    database.close()


def reply(body: Mapping[str, object]) -> str:
    """Return a model that says BCL2 to everything, and as judge extracts it."""
    return json.dumps({"gene": "BCL2"}) if "response_format" in body else "I think that it is BCL2."
