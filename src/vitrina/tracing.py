"""OpenTelemetry spans for runs and batches: off unless OTEL_EXPORTER_OTLP_ENDPOINT is set, and then free of charge.

What else OpenTelemetry reads from the environment (OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER, headers, …) holds here too.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from vitrina import __version__
from vitrina.domain.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

SWITCHES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
Value = str | int | float | bool
_tracer: "Tracer | None" = None


def is_wanted() -> bool:
    """Whether the environment names a collector."""
    return any(os.environ.get(name) for name in SWITCHES)


@contextmanager
def tracing() -> Iterator[None]:
    """While a runner works: spans go to the collector that the environment names; the last ones at the end."""
    if not is_wanted():
        yield
        return
    provider = _provider()
    use(provider)
    try:
        yield
    finally:
        use(None)
        provider.shutdown()


def use(provider: "TracerProvider | None") -> None:
    """Where spans go from here on; None: nowhere."""
    global _tracer
    _tracer = provider.get_tracer("vitrina", __version__) if provider else None


def span(name: str, **attributes: Value) -> "AbstractContextManager[Span | None]":
    """A span around a block, below the one that this thread is in; an error that passes through is recorded."""
    if _tracer is None:
        return nullcontext()
    return _tracer.start_as_current_span(
        name, attributes={f"vitrina.{key}": value for key, value in attributes.items()}
    )


def note(traced: "Span | None", **attributes: Value) -> None:
    """What a span turned out to be about."""
    if traced is not None:
        traced.set_attributes({f"vitrina.{key}": value for key, value in attributes.items()})


def _provider() -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"a collector for OpenTelemetry is set, and {error.name} is not installed", "install vitrina[otel]"
        ) from error
    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "vitrina"}
    provider = TracerProvider(resource=Resource.create(named | {"service.version": __version__}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider
