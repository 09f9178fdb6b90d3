"""A collector on loopback that receives and decodes OpenTelemetry data over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass
class Collector:
    """Keeps spans and events in the order in which they came, and the bytes of all requests."""

    url: str = ""
    spans: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def one(self, name: str) -> Any:
        """Return the only span of that name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def path(self, span: Any) -> list[str]:
        """Return the names of the spans that it lies in, and its own."""
        by_id = {one.span_id: one for one in self.spans}
        return [*(self.path(by_id[span.parent_span_id]) if span.parent_span_id else []), span.name]

    async def take(self, request: web.Request) -> web.Response:
        """Return one request of an exporter."""
        body = await request.read()
        if body[:2] == b"\x1f\x8b":
            body = gzip.decompress(body)
        self.bodies.append(body)
        if request.path == "/v1/traces":
            for sent in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(attributes(sent.resource))
                self.spans += [span for scope in sent.scope_spans for span in scope.spans]
            return web.Response(body=ExportTraceServiceResponse().SerializeToString())
        for sent in ExportLogsServiceRequest.FromString(body).resource_logs:
            self.events += [record for scope in sent.scope_logs for record in scope.log_records]
        return web.Response(body=ExportLogsServiceResponse().SerializeToString())


def attributes(one: Any) -> dict[str, Any]:
    """Return the attributes of a span, an event or a resource."""
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in one.attributes}


@contextmanager
def collect_telemetry() -> Iterator[Collector]:
    """Provide a collector in a thread of its own, as long as the block lasts."""
    collector = Collector()
    started, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        app = web.Application(client_max_size=2**26)
        app.router.add_post("/v1/{signal}", collector.take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        collector.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        loops.append(asyncio.get_running_loop())
        started.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    if not started.wait(60):
        raise RuntimeError("the collector did not start")
    try:
        yield collector
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(60)
