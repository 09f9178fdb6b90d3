"""One Ray for all tests, with more CPUs than the machine may have: Ray counts them, and does not use them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

FAKE_PLUGIN = str(Path(__file__).parent / "fake_plugin")
sys.path.insert(0, FAKE_PLUGIN)  # as if it were installed: it is found by its entry points


@pytest.fixture(scope="session")
def ray() -> Iterator[Path]:
    """Connect Ray; return the folder of its session, with its logs."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    import ray

    context = ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        object_store_memory=128 * 2**20,
    )
    yield Path(context.address_info["session_dir"])
    ray.shutdown()
