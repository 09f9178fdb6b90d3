"""The contract for every adapter, whatever servers it calls."""

# ruff: noqa: D102 - the names of the tests say what they check

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar

import pytest

from karenina_core.models.adapters import AdapterConfigError
from karenina_core.models.ports import Port
from karenina_testing.contracts.calls import assert_nothing_left, child_processes
from karenina_testing.contracts.plugin import find_unmarked_fields, problems_of_package
from karenina_testing.contracts.wire_format import KEY, WireFormat

_LOADED = """
import json, sys
from importlib.metadata import EntryPoint
import karenina_core, karenina_core.models.adapters, karenina_core.models.model
import karenina_core.models.ports, karenina_core.plugins.hookspecs
before = {name.partition(".")[0] for name in sys.modules}
for spec in EntryPoint("contract", sys.argv[1], "karenina.adapters").load().karenina_adapters():
    spec.unavailable and spec.unavailable()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules} - before)))
"""


class AdapterContract(WireFormat):
    """The contract for an adapter's declaration, and for its ports when no calls are made.

    Mix in a `WireFormat`, which only has to define what `model` needs. Set `checks_extra` to whether the adapter
    rejects unknown settings in `ModelConfig.extra`.
    """

    checks_extra: ClassVar[bool] = True

    def test_an_unused_port_may_be_closed_twice(self) -> None:
        async def run() -> None:
            before = child_processes()
            for port in self.ports("http://127.0.0.1:9"):
                await port.aclose()
                await port.aclose()
            await assert_nothing_left(before)

        asyncio.run(run())

    def test_making_a_port_opens_no_connection(self) -> None:
        async def run(url: str) -> None:
            for port in self.ports(url):
                await port.aclose()

        with self.server(self.failing(500)) as server:
            asyncio.run(run(server.url))
            assert server.connections == 0

    def test_the_repr_of_model_and_port_shows_no_secret(self) -> None:
        async def run() -> list[str]:
            shown = [repr(self.model("http://127.0.0.1:9"))]
            for port in self.ports("http://127.0.0.1:9"):
                shown.append(f"{port!r} {port}")
                await port.aclose()
            return shown

        assert [shown for shown in asyncio.run(run()) if KEY in shown] == []

    def ports(self, url: str) -> list[Port]:
        """Return one port of each kind that the adapter provides."""
        return [getattr(self.spec, name)(self.model(url)) for name in self.spec.ports]

    def test_the_entry_point_is_installed(self) -> None:
        installed = [point.value for point in entry_points(group="karenina.adapters")]
        assert self.entry_point in installed

    def test_the_installed_package_passes_its_check(self) -> None:
        assert problems_of_package(self.entry_point) == []

    def test_the_adapter_says_what_it_is(self) -> None:
        spec = self.spec
        assert spec.description.strip()
        assert spec.ports, "an adapter must have at least one port"

    def test_the_adapter_says_whether_a_benchmark_may_choose_it(self) -> None:
        assert self.spec.allowed_in_files is not None, (
            "set allowed_in_files=True if the adapter starts no programs and sends requests only to servers named in "
            "the user's own environment. Otherwise, set allowed_in_files=False, so that a benchmark that names the "
            "adapter needs the user's trust"
        )

    def test_each_setting_says_whether_a_benchmark_may_set_it(self) -> None:
        assert self.spec.extra is None or find_unmarked_fields(self.spec.extra) == []

    def test_loading_the_entry_point_imports_only_core_and_toolkit(self) -> None:
        done = subprocess.run(  # noqa: S603 - this interpreter, and the adapter's own entry point
            [sys.executable, "-c", _LOADED, self.entry_point], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        own = EntryPoint("contract", self.entry_point, "karenina.adapters").module.partition(".")[0]
        imported = set(json.loads(done.stdout.splitlines()[-1]))
        assert sorted(imported - sys.stdlib_module_names - {own, "karenina_core", "karenina_toolkit"}) == []

    def test_a_missing_dependency_names_its_pip_line(self) -> None:
        reason = self.spec.unavailable() if self.spec.unavailable is not None else None
        assert reason is None or "pip install" in reason

    def test_a_right_model_passes_the_check(self) -> None:
        if self.spec.check is not None:
            self.spec.check(self.model("http://127.0.0.1:9"))

    def test_an_unknown_setting_is_refused_before_the_run(self) -> None:
        if not self.checks_extra:
            pytest.skip("the adapter accepts any setting")
        assert self.spec.check is not None
        model = self.model("http://127.0.0.1:9")
        wrong = model.model_copy(update={"extra": {**model.extra, "no_such_setting": KEY}})
        with pytest.raises(AdapterConfigError, match="no_such_setting") as caught:
            self.spec.check(wrong)
        assert KEY not in f"{caught.value} {caught.value!r}"

    def test_at_least_one_call_may_be_under_way(self) -> None:
        if self.spec.concurrency is not None:
            declared = self.spec.concurrency(self.model("http://127.0.0.1:9"))
            assert declared is None or declared >= 1
