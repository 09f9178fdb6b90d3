"""Third-party plugins with only their requirements installed: the core, or the core and the toolkit."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from conftest import Wheels, build_distribution
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEMBERS = {"karenina-core": ROOT / "karenina_core", "karenina-toolkit": ROOT / "plugins" / "toolkit"}

PLAN = """
from karenina_core import ArtifactKeys, Question, Slot, Stage, VerificationConfig, hookimpl
from karenina_core.plan import make_plan
from karenina_core.plugins import active_plugins
from karenina_core.stages.stage import registered_stages

class Answer(Stage):
    name = "Answer"
    produces = frozenset({ArtifactKeys.RAW_LLM_RESPONSE})

    def execute(self, context):
        pass

class plugin:
    @staticmethod
    @hookimpl
    def karenina_generate_answer():
        return [Answer]

plugins = active_plugins()
plugins.register(plugin)
config = VerificationConfig(evaluation_mode="rubric_only", slots={"generate_answer": "Answer"})
plan = make_plan(registered_stages(plugins), config, Question(question="How are you?"))
found = [planned.name for planned in plan.stages]
"""
PORTS = """
from karenina_core import ModelConfig
from karenina_toolkit.plugin_lookup import find_adapter
from karenina_core.plugins import active_plugins

model = ModelConfig(
    id="m", interface="{interface}", model_name="m", endpoint_base_url="http://127.0.0.1:9", endpoint_api_key="k"
)
spec = find_adapter(active_plugins(), "{interface}").spec
found = [type(factory(model)).__name__ for factory in (spec.llm, spec.parser, spec.agent) if factory is not None]
"""
FOUND = """
import json, sys
print(json.dumps([found, sorted({name.partition(".")[0] for name in sys.modules if name.startswith("karenina")})]))
"""


class Alone:
    """A folder with a wheel and what its metadata requires, used by an interpreter without `site-packages`."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self._folder = folder
        self._packages = folder / "packages"
        self._packages.mkdir()
        self._installed: set[str] = set()
        self._install(wheel)

    def run(self, program: str) -> Any:
        """Return what the program leaves in `found`, and the packages of Karenina that it imported."""
        start = f"import sys; sys.path.insert(0, {str(self._packages)!r})\n"
        command = [sys.executable, "-I", "-S", "-c", start + program + FOUND]
        done = subprocess.run(command, cwd=self._folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def _install(self, wheel: Path) -> None:
        options = ["-q", "--no-deps", "--no-index", "--target", self._packages]
        subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True, timeout=120)
        for found in list(distributions(path=[str(self._packages)])):
            self._require(found.requires or [])

    def _require(self, lines: list[str]) -> None:
        for need in map(Requirement, lines):
            name = canonicalize_name(need.name)
            if name in self._installed or (need.marker is not None and not need.marker.evaluate({"extra": ""})):
                continue
            self._installed.add(name)
            if name in MEMBERS:
                self._install(build_distribution("wheel", MEMBERS[name], self._folder / "wheels"))
            else:
                self._link(name)

    def _link(self, name: str) -> None:
        """Link the files of a library that this environment has, then what it requires itself."""
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            link = self._packages / top
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(top))))
        self._require(found.requires or [])


def test_a_stage_is_planned_with_the_core_alone(tmp_path: Path, wheels: Wheels) -> None:
    found, packages = Alone(tmp_path, wheels.example("word-count")).run(PLAN)

    assert found == ["Answer", "WordCount", "FinalizeResult"]
    assert packages == ["karenina_core"]


@pytest.mark.parametrize(
    ("name", "interface", "ports", "packages"),
    [
        ("parrot", "parrot.echo", ["Parrot", "Parrot"], ["karenina_core"]),
        ("teletype", "teletype.line", ["Teletype"] * 3, ["karenina_core", "karenina_toolkit"]),
        ("own-server", "own_server.chat", ["OwnServer"] * 3, ["karenina_core", "karenina_toolkit"]),
    ],
)
def test_an_adapter_makes_its_ports_with_what_it_requires(
    tmp_path: Path, wheels: Wheels, name: str, interface: str, ports: list[str], packages: list[str]
) -> None:
    assert Alone(tmp_path, wheels.example(name)).run(PORTS.format(interface=interface)) == [ports, packages]
