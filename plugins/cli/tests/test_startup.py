"""asyncio is imported when it is used first, and is then asyncio itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

PREPARED = "from karenina_cli.startup import prepare_start\nprepare_start()\nimport sys, asyncio\n"


def printed(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", PREPARED + program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_asyncio_alone_imports_none_of_it() -> None:
    assert printed("print('asyncio.events' in sys.modules, 'ssl' in sys.modules)") == "False False"


@pytest.mark.parametrize(
    "use",
    [
        "asyncio.run(asyncio.sleep(0))",
        "from asyncio import timeout",
        "from asyncio.subprocess import PIPE",
        "import asyncio.events",
    ],
)
def test_a_use_of_asyncio_imports_it(use: str) -> None:
    program = f"{use}\nfrom asyncio import timeout\nprint(sys.modules['asyncio'].timeout is timeout is asyncio.timeout)"

    assert printed(program) == "True"


def test_threads_that_use_asyncio_first_all_get_it() -> None:
    program = (
        "import threading\nfound = []\nuse = lambda: found.append(asyncio.run(asyncio.sleep(0, 7)))\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "for one in threads:\n    one.start()\nfor one in threads:\n    one.join()\nprint(found)"
    )

    assert printed(program) == str([7] * 8)


def test_asyncio_that_is_imported_already_stays() -> None:
    program = "import asyncio\nfrom karenina_cli.startup import prepare_start\nprepare_start()\nimport sys\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{program}print(sys.modules['asyncio'] is asyncio, 'events' in vars(asyncio))"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.strip() == "True True"
