"""Configurations: TOML, YAML, JSON, and values of the command line and the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import strategies as st

from fuzzing.benchmarks import CONFIG
from fuzzing.commands import command
from fuzzing.engine import Kind
from fuzzing.mutation import OUTSIDE, documents, dump_json, dump_toml, dump_yaml, insert_path, parse_tree
from karenina import VerificationConfig
from karenina_benchmark.config.config_files import read_config
from karenina_core.errors import ConfigError

_MORE: Final[dict[str, Any]] = {
    **CONFIG,
    "deep_judgment_rubric_config": {"global": {"safe": {"max_excerpts": 3}}},
    "few_shot_config": {"enabled": True, "global_mode": "all"},
    "concurrency_start": 8,
    "model_concurrency": {"a": 2},
    "run_timeout": 20.5,
    "workspace_root": f"{OUTSIDE}/work",
    "plugins": {"block": ["x"]},
    "slots": {"parse_template": "ParseTemplate"},
    "executor": "asyncio",
    "rubric_trait_names": ["a"],
}
_NAMES: Final = ("replicate_count", "item_timeout", "budget", "answering_models", "prices", "retry_server", "run_name")
_SEEDS: Final = [CONFIG, {"replicate_count": 3, "abstention_enabled": True}]
_TOML: Final = b"""replicate_count = 0x3  # comment
item_timeout = 1_000.5
run_name = '''
several lines'''
[[answering_models]]
id = "a"
interface = "manual"
model_name = "x"
[prices.m]
input = 0.4
output = 1
"""


@contextmanager
def _read_config(folder: Path) -> Iterator[Callable[[tuple[str, bytes]], bool]]:
    outside = str(folder.parent / "outside")

    def check(one: tuple[str, bytes]) -> bool:
        ending, data = one
        data = insert_path(data, outside)
        if ending == "set":
            return _set(data)
        file = folder / f"config{ending}"
        file.write_bytes(data)
        try:
            config = read_config(file)
        except ConfigError as error:
            str(error).encode("utf-8")
            return False
        again = VerificationConfig(**config.given())
        if again.given() != config.given():
            raise AssertionError("a configuration that is made of its values is another")
        command("plan", "--config", str(file), "--json")
        return True

    yield check


def _set(data: bytes) -> bool:
    """Return one value, as `--set` and an environment variable give it."""
    name = _NAMES[len(data) % len(_NAMES)]
    text = data.decode("utf-8", "surrogateescape").replace("\x00", "")
    printed = command("plan", "--set", f"{name}={text}", "--json")
    variable = f"KARENINA_{name.upper()}"
    os.environ[variable] = text
    try:
        VerificationConfig()
    except ConfigError as error:
        str(error)
        return False
    finally:
        del os.environ[variable]
    return "{" in printed


def _print_config(one: tuple[str, bytes]) -> bytes:
    return one[0].encode() + b"\n" + one[1]


_FILES = [_MORE, *_SEEDS]
_VALUES = [CONFIG["answering_models"], CONFIG["prices"], 3, 2.5, "2.50", "nightly"]
KIND: Final = Kind(
    "config",
    st.one_of(
        st.tuples(st.just(".toml"), documents(_FILES, dump_toml, texts=[_TOML])),
        st.tuples(
            st.just(".yaml"), documents(_FILES, dump_yaml, texts=[b"1: 2\n", b"replicate_count: 2\nrun_name: x\n"])
        ),
        st.tuples(st.just(".json"), documents(_FILES, dump_json)),
        st.tuples(st.just("set"), documents(_VALUES, dump_json)),
    ),
    _read_config,
    valid=[
        (".toml", dump_toml(parse_tree(CONFIG)).encode()),
        (".toml", _TOML),
        (".json", dump_json(parse_tree(CONFIG)).encode()),
    ],
    regressions=[(".json", b'{"self": 1}')],
    shown=_print_config,
)
