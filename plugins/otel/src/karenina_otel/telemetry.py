"""The connection to OpenTelemetry, through the SDK set up by the program or through one for this run only.

The `OTEL_*` variables configure the SDK for this run. A backend that cannot be reached does not delay a run: the SDK
sends from its own threads, only its first warning is shown as a warning, and a run ends at most a few seconds later.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

from opentelemetry import _logs, trace
from opentelemetry._logs import Logger
from opentelemetry.trace import ProxyTracerProvider, Tracer

from karenina_core.catalog import __version__, install_command
from karenina_core.errors import ConfigError
from karenina_otel.conventions import SCHEMA_URL

SCOPE: Final = "karenina-otel"
FLUSH_SECONDS: Final = 5.0
"""The maximum number of seconds to wait for the last spans to be sent."""
_FLUSH_SECONDS_AFTER_WARNING: Final = 0.5
_KINDS: Final = {
    "OTEL_TRACES_EXPORTER": "opentelemetry_traces_exporter",
    "OTEL_LOGS_EXPORTER": "opentelemetry_logs_exporter",
}
_PROTOCOLS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}

logger = logging.getLogger("karenina")


@dataclass(frozen=True)
class Telemetry:
    """A tracer, an event logger, and the function `close`, which sends the remaining data."""

    tracer: Tracer
    events: Logger
    close: Callable[[], object]


def is_disabled() -> bool:
    """Return whether the environment variable `OTEL_SDK_DISABLED` is "true". Case is ignored."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def check_exporters() -> None:
    """Raise `ConfigError` if an exporter configured in the environment is not installed. Does nothing if the program
    has set up the SDK itself.
    """
    if not _has_program_setup():
        for variable in _KINDS:
            _exporters(variable)


def open_telemetry() -> Telemetry:
    """Return the program's telemetry if it has set up the SDK, otherwise new telemetry for this run. Raises
    `ConfigError` if an exporter is not installed. If an exporter cannot be created, the exception propagates.
    """
    if _has_program_setup():
        tracers, logs = trace.get_tracer_provider(), _logs.get_logger_provider()
        flushes = [
            flush for provider in (tracers, logs) if (flush := getattr(provider, "force_flush", None)) is not None
        ]
        return _make_telemetry(tracers, logs, lambda: _finish(flushes, threading.Event()))
    return make_own_telemetry()


def _has_program_setup() -> bool:
    """Return whether the program has set up the SDK, by setting a tracer provider."""
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


def _make_telemetry(tracers: Any, logs: Any, close: Callable[[], object]) -> Telemetry:
    return Telemetry(
        tracers.get_tracer(SCOPE, __version__, SCHEMA_URL), logs.get_logger(SCOPE, __version__, SCHEMA_URL), close
    )


def make_own_telemetry() -> Telemetry:
    """Return telemetry for this run only, configured by the `OTEL_*` variables. Raises `ConfigError` if an exporter is
    not installed. If an exporter cannot be created, the exception propagates.

    Until it is closed, OpenTelemetry's warnings go to the run's log.
    """
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "karenina"})
    relay = _WarningRelay()
    relay.begin()
    try:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
        for point in _exporters("OTEL_TRACES_EXPORTER"):
            tracers.add_span_processor(BatchSpanProcessor(point.load()()))
        for point in _exporters("OTEL_LOGS_EXPORTER"):
            logs.add_log_record_processor(BatchLogRecordProcessor(point.load()()))
    except BaseException:
        relay.end()
        raise

    def close() -> None:
        """Send what is left, and stop relaying warnings, which happens later if sending takes too long."""
        left = _finish([tracers.shutdown, logs.shutdown], relay.seen)
        if not left:
            relay.end()
            return

        def give_up() -> None:  # the remaining threads end later; until then, their warnings are suppressed
            for thread in left:
                thread.join()
            relay.end()

        threading.Thread(target=give_up, name="karenina-otel", daemon=True).start()

    return _make_telemetry(tracers, logs, close)


def _exporters(variable: str) -> list[EntryPoint]:
    """Return the exporters named in an environment variable, which is parsed as in the SDK. The default is OTLP, and
    "none" means no exporter. Raises `ConfigError` if an exporter is not installed.
    """
    points = []
    for name in os.environ.get(variable, "otlp").split(","):
        exporter = name.strip().lower() or "otlp"
        if exporter == "none":
            continue
        installed = {point.name: point for point in entry_points(group=_KINDS[variable])}
        candidates = _otlp_names(variable) if exporter == "otlp" else [exporter]
        point = next((installed[candidate] for candidate in candidates if candidate in installed), None)
        if point is None:
            cure = (
                f"run `{install_command('karenina-otel[otlp]')}`"
                if candidates[0] in ("otlp_proto_http", "otlp")
                else f"install the exporter, or set {variable} to one of {', '.join(sorted({*installed, 'none'}))}"
            )
            raise ConfigError([f"otel is true, but the exporter {exporter!r} ({variable}) is not installed; {cure}"])
        points.append(point)
    return points


def _otlp_names(variable: str) -> list[str]:
    """Return the names of the exporters for the protocol that is configured for a signal, whose `variable` is, for
    example, `OTEL_TRACES_EXPORTER`. The default is HTTP, then gRPC.
    """
    kind = variable.removeprefix("OTEL_").removesuffix("_EXPORTER")
    protocol = os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if not protocol:
        return ["otlp_proto_http", "otlp_proto_grpc"]
    return [_PROTOCOLS.get(protocol.strip().lower(), protocol)]


def _finish(functions: Sequence[Callable[[], object]], warned: threading.Event) -> list[threading.Thread]:
    """Run functions in parallel, and return the threads left after `FLUSH_SECONDS`, or `_FLUSH_SECONDS_AFTER_WARNING`
    once `warned` is set. If time runs out before any warning, logs one and sets `warned`.
    """
    threads = [threading.Thread(target=function, name="karenina-otel", daemon=True) for function in functions]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    while left := [thread for thread in threads if thread.is_alive()]:
        if time.monotonic() - began > (_FLUSH_SECONDS_AFTER_WARNING if warned.is_set() else FLUSH_SECONDS):
            if not warned.is_set():
                logger.warning(
                    "the last spans of the run may be missing because they could not be sent within %g s",
                    FLUSH_SECONDS,
                )
                warned.set()  # later warnings are not logged again
            return left
        left[0].join(0.02)
    return []


class _WarningRelay(logging.Handler):
    """Relays OpenTelemetry's warnings to the run's log. All warnings after the first become debug messages."""

    _active: Final[list[_WarningRelay]] = []
    _lock: Final = threading.Lock()

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen = threading.Event()

    def begin(self) -> None:
        """Start relaying, and hide OpenTelemetry's messages from other handlers."""
        with self._lock:
            self._active.append(self)
            source = logging.getLogger("opentelemetry")
            source.addHandler(self)
            source.propagate = False

    def end(self) -> None:
        """Stop relaying. When no relay is left, other handlers get messages again."""
        with self._lock:
            if self in self._active:
                self._active.remove(self)
            source = logging.getLogger("opentelemetry")
            source.removeHandler(self)
            source.propagate = source.propagate or not self._active

    def emit(self, record: logging.LogRecord) -> None:
        """Log a message on one line. The first one is a warning, and all others are debug messages."""
        first = not self.seen.is_set()
        self.seen.set()
        level = logging.WARNING if first else logging.DEBUG
        logger.log(level, "spans may be missing, but the run continues: %s", _one_line(record.getMessage().split("\n")))


def _one_line(lines: Iterable[str]) -> str:
    """Return the lines joined with spaces and cut to 500 characters."""
    return " ".join(line.strip() for line in lines)[:500]
