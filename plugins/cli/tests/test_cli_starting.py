"""The start of the command."""

from __future__ import annotations

import subprocess
import sys

INTERRUPTED = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # who runs the tests in the background may ignore it
sys.meta_path.insert(0, Finder())
sys.argv = ["karenina", "--help"]
from karenina_cli import main
main()
"""


def test_ctrl_c_during_start_exits_without_a_traceback() -> None:
    ended = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
