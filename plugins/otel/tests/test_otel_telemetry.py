"""The connection to OpenTelemetry: environment variables, missing exporters, and unreachable or hanging backends."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from otel_runs import traced

from karenina_core import VerificationConfig
from karenina_core import plugins as plugin_room
from karenina_core.config import all_settings
from karenina_core.errors import ConfigError
from karenina_core.plugins import Plugins
from karenina_engine.run.plugin_offers import find_observers
from karenina_otel import plugin, telemetry
from karenina_otel.telemetry import make_own_telemetry
from karenina_testing.server import refusing_url

pytestmark = pytest.mark.alone


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_LOGS_EXPORTER", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plugins() -> Iterator[Plugins]:
    room = Plugins()
    room.register(plugin, distribution="karenina-otel")
    with plugin_room.use_plugins(room):
        yield room


def test_a_run_without_otel_has_no_observers(plugins: Plugins) -> None:
    assert not find_observers(plugins, VerificationConfig()).observes_calls
    assert find_observers(plugins, VerificationConfig(otel=True)).observes_calls


def test_opentelemetry_can_be_disabled(plugins: Plugins, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not find_observers(plugins, VerificationConfig(otel=True)).observes_calls


def test_no_setting_changes_results(plugins: Plugins) -> None:
    mine = [setting for setting in all_settings().values() if setting.owner == "karenina-otel"]
    assert len(mine) == 4
    assert not any(setting.changes_results for setting in mine)


@pytest.mark.parametrize(
    ("variable", "value", "cure"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "OTEL_TRACES_EXPORTER to one of console, none, otlp_proto_http"),
        ("OTEL_LOGS_EXPORTER", "kafka", "OTEL_LOGS_EXPORTER to one of console, none, otlp_proto_http"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "OTEL_TRACES_EXPORTER"),
    ],
)
def test_a_run_without_its_exporter_is_refused(
    plugins: Plugins, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, cure: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigError, match=cure):
        find_observers(plugins, VerificationConfig(otel=True))


def test_a_run_without_otel_does_not_import_the_sdk() -> None:
    program = (
        "import sys, karenina_otel\nfrom karenina_engine.run.plugin_offers import find_observers\n"
        "from karenina_core import VerificationConfig, plugins\n"
        "room = plugins.Plugins()\n"
        "room.register(karenina_otel.plugin)\n"
        "with plugins.use_plugins(room):\n"
        "    find_observers(room, VerificationConfig(otel=False))\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"


def test_the_sdk_that_the_program_set_up_is_used() -> None:
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from karenina_otel.telemetry import check_exporters, open_telemetry

spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
check_exporters()
with trace.get_tracer("program").start_as_current_span("outer"):
    telemetry = open_telemetry()
    telemetry.tracer.start_span("first").end()
telemetry.close()
provider.get_tracer("program").start_span("after").end()
outer, after = spans.get_finished_spans()[1:]
print([span.name for span in spans.get_finished_spans()], spans.get_finished_spans()[0].parent == outer.context)
"""
    environment = {"OTEL_TRACES_EXPORTER": "none-such"}
    found = subprocess.check_output([sys.executable, "-c", program], text=True, env=environment)
    assert found.strip() == "['first', 'outer', 'after'] True"


def run() -> int:
    """Return the number of results of a run that sends to the backend of the environment."""
    return len(traced(telemetry=make_own_telemetry).results)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == "karenina" and one.levelno >= logging.WARNING]


def test_an_unreachable_collector_is_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 600.0)  # the run does not wait for an unreachable backend
    with refusing_url() as url:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        with caplog.at_level(logging.WARNING):
            assert run() == 1
        (once,) = warnings(caplog)
        assert url.removeprefix("http://127.0.0.1:") in once
        assert "the run continues" in once
        for thread in threading.enumerate():  # else it may warn in the next test
            if thread.name.startswith("Otel"):
                thread.join(60)


def test_a_collector_that_never_answers_does_not_delay_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(telemetry, "FLUSH_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with caplog.at_level(logging.WARNING):
            assert run() == 1
    assert warnings(caplog) == ["the last spans of the run may be missing because they could not be sent within 0.2 s"]


def test_the_default_service_name_is_karenina(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")

    def name() -> object:
        found = make_own_telemetry()
        span = found.tracer.start_span("one")
        found.close()
        return span.resource.attributes["service.name"]

    assert name() == "karenina"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "nightly")
    assert name() == "nightly"
    monkeypatch.delenv("OTEL_SERVICE_NAME")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=weekly")
    assert name() == "weekly"


def test_threads_end_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    monkeypatch.setenv("OTEL_LOGS_EXPORTER", "none")
    before = set(threading.enumerate())
    assert run() == 1
    assert set(threading.enumerate()) <= before
