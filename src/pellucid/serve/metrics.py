"""Counters of requests, for Prometheus; none of them holds a text, an address or a key."""

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Metrics:
    """The counters of one server, in a registry of its own."""

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Histogram

        # Not the library's global registry, which refuses a second counter of the same name: a process may hold two
        # servers.
        self.registry = CollectorRegistry()
        self.requests = Counter("pellucid_requests", "requests answered", ("path", "status"), registry=self.registry)
        self.seconds = Histogram(
            "pellucid_request_seconds",
            "seconds from a request's arrival to its answer",
            ("path",),
            buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
            registry=self.registry,
        )
        self.texts = Counter("pellucid_texts", "texts translated", registry=self.registry)
        self.characters = Counter("pellucid_characters", "characters in them", registry=self.registry)
        self.together = Histogram(
            "pellucid_requests_together",
            "requests translated together",
            buckets=(1, 2, 4, 8, 16, 32, 64),
            registry=self.registry,
        )

    def add_gauge(self, name: str, meaning: str, value: Any) -> None:
        """Add a number that a function computes whenever the metrics are read."""
        from prometheus_client import Gauge

        Gauge(name, meaning, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's text format."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)


class CountRequests:
    """Counts requests by status and by the route's path, never by the path that was asked for."""

    def __init__(self, app: ASGIApp, metrics: Metrics):
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        from time import perf_counter

        start, status = perf_counter(), 0  # 0 stays where the connection broke before an answer began

        async def send_and_note_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_and_note_status)
        finally:
            # The template of the route, such as /trace/{identity}: a raw path would let clients create any number of
            # series.
            path = getattr(scope.get("route"), "path", "none")
            self.metrics.requests.labels(path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(perf_counter() - start)
