"""Where spans and events go: the SDK that the program has set up, else one for this run, from the variables `OTEL_*`.

A backend that is away costs a run nothing: the SDK sends from threads of its own, what it complains of is told once,
and the last of it is waited for some seconds at the most.
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

from karenina_core.errors import ConfigError
from karenina_core.version import __version__
from karenina_otel.conventions import SCHEMA_URL

SCOPE: Final = "karenina-otel"
PATIENCE: Final = 5.0
"""Seconds that the end of a run waits for its last spans to be taken."""
_PATIENCE_IN_TROUBLE: Final = 0.5
_KINDS: Final = {
    "OTEL_TRACES_EXPORTER": "opentelemetry_traces_exporter",
    "OTEL_LOGS_EXPORTER": "opentelemetry_logs_exporter",
}
_PROTOCOLS: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}

logger = logging.getLogger("karenina")


@dataclass(frozen=True)
class Outlet:
    """A tracer, a logger of events, and what ends a run: it sends all that is left, in bounded time."""

    tracer: Tracer
    events: Logger
    close: Callable[[], object]


def disabled() -> bool:
    """Whether the user has switched OpenTelemetry off altogether."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def check() -> None:
    """Look, before a run, whether the exporters that the environment names are installed. Raises `ConfigError`."""
    if not _set_up_by_program():
        for variable in _KINDS:
            _exporters(variable)


def open_outlet() -> Outlet:
    """Where this process's spans and events go. Raises what an exporter raises that cannot be made."""
    if _set_up_by_program():
        tracers, logs = trace.get_tracer_provider(), _logs.get_logger_provider()
        flushes = [found for one in (tracers, logs) if (found := getattr(one, "force_flush", None)) is not None]
        return _outlet(tracers, logs, lambda: _finish(flushes, threading.Event()))
    return own_outlet()


def _set_up_by_program() -> bool:
    return not isinstance(trace.get_tracer_provider(), ProxyTracerProvider)


def _outlet(tracers: Any, logs: Any, close: Callable[[], object]) -> Outlet:
    return Outlet(
        tracers.get_tracer(SCOPE, __version__, SCHEMA_URL), logs.get_logger(SCOPE, __version__, SCHEMA_URL), close
    )


def own_outlet() -> Outlet:
    """An outlet of this run alone, made from the variables `OTEL_*`."""
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    resource = Resource.create({} if named else {"service.name": "karenina"})
    trouble = _Trouble()
    trouble.begin()
    try:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        logs = LoggerProvider(resource=resource, shutdown_on_exit=False)
        for point in _exporters("OTEL_TRACES_EXPORTER"):
            tracers.add_span_processor(BatchSpanProcessor(point.load()()))
        for point in _exporters("OTEL_LOGS_EXPORTER"):
            logs.add_log_record_processor(BatchLogRecordProcessor(point.load()()))
    except BaseException:
        trouble.end()
        raise

    def close() -> None:
        left = _finish([tracers.shutdown, logs.shutdown], trouble.seen)
        if not left:
            trouble.end()
            return

        def give_up() -> None:  # what still tries ends in its own time, and unheard
            for thread in left:
                thread.join()
            trouble.end()

        threading.Thread(target=give_up, name="karenina-otel", daemon=True).start()

    return _outlet(tracers, logs, close)


def _exporters(variable: str) -> list[EntryPoint]:
    """The exporters that a variable names, as the SDK's own set-up reads it. Raises `ConfigError`."""
    found = []
    for name in os.environ.get(variable, "otlp").split(","):
        wanted = name.strip().lower() or "otlp"
        if wanted == "none":
            continue
        known = {point.name: point for point in entry_points(group=_KINDS[variable])}
        candidates = _otlp(variable) if wanted == "otlp" else [wanted]
        point = next((known[candidate] for candidate in candidates if candidate in known), None)
        if point is None:
            cure = (
                'pip install "karenina-otel[otlp]"'
                if candidates[0] in ("otlp_proto_http", "otlp")
                else f"install it, or set {variable} to one of {', '.join(sorted({*known, 'none'}))}"
            )
            raise ConfigError([f"otel is true, and the exporter {wanted!r} ({variable}) is not installed: {cure}"])
        found.append(point)
    return found


def _otlp(variable: str) -> list[str]:
    """The names of the exporter for the protocol that is asked for; of the usual one, HTTP, where none is."""
    kind = variable.removeprefix("OTEL_").removesuffix("_EXPORTER")
    asked = os.environ.get(f"OTEL_EXPORTER_OTLP_{kind}_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if not asked:
        return ["otlp_proto_http", "otlp_proto_grpc"]
    return [_PROTOCOLS.get(asked.strip().lower(), asked)]


def _finish(works: Sequence[Callable[[], object]], trouble: threading.Event) -> list[threading.Thread]:
    """Do the works side by side; those that did not end in time. Where there is trouble little time is left to them."""
    threads = [threading.Thread(target=work, name="karenina-otel", daemon=True) for work in works]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    while left := [thread for thread in threads if thread.is_alive()]:
        if time.monotonic() - began > (_PATIENCE_IN_TROUBLE if trouble.is_set() else PATIENCE):
            if not trouble.is_set():
                logger.warning("the last spans of the run may be missing: nobody took them in %g s", PATIENCE)
                trouble.set()  # what comes of it later is not told again
            return left
        left[0].join(0.02)
    return []


class _Trouble(logging.Handler):
    """Listens to what OpenTelemetry complains of while a run lasts, and tells the first of it in the run's own log."""

    _listening: Final[list[_Trouble]] = []
    _changing: Final = threading.Lock()

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen = threading.Event()

    def begin(self) -> None:
        with self._changing:
            self._listening.append(self)
            told_by = logging.getLogger("opentelemetry")
            told_by.addHandler(self)
            told_by.propagate = False

    def end(self) -> None:
        with self._changing:
            if self in self._listening:
                self._listening.remove(self)
            told_by = logging.getLogger("opentelemetry")
            told_by.removeHandler(self)
            told_by.propagate = told_by.propagate or not self._listening

    def emit(self, record: logging.LogRecord) -> None:
        first = not self.seen.is_set()
        self.seen.set()
        level = logging.WARNING if first else logging.DEBUG
        logger.log(level, "spans may be missing, and the run goes on: %s", _one_line(record.getMessage().split("\n")))


def _one_line(lines: Iterable[str]) -> str:
    return " ".join(line.strip() for line in lines)[:500]
