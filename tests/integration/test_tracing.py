"""Spans of runs and batches: in the SDK's memory, at a real collector's address, and nowhere when off."""

import sys
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from tests.receiver import receiving
from tests.support import Lab
from vitrina import tracing
from vitrina.domain.errors import ConfigError

FILMS = {"source_query": "SELECT id AS film_id, title FROM content.film_work", "key": ["film_id"], "batch_size": 20}


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing.use(provider)
    yield exporter
    tracing.use(None)


def named(spans: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in spans.get_finished_spans() if span.name == name]


def test_a_run_is_a_span_with_its_batches_below_it(lab: Lab, spans: InMemorySpanExporter) -> None:
    lab.run(lab.add(**FILMS))
    (run,) = named(spans, "vitrina.run")
    assert dict(run.attributes or {}) == {
        "vitrina.pipeline": "mart",
        "vitrina.target": "analytics.mart",
        "vitrina.run": 1,
        "vitrina.attempt": 1,
    }
    steps = named(spans, "vitrina.batch")
    assert {step.parent.span_id for step in steps if step.parent} == {run.context.span_id}
    loaded = [dict(step.attributes or {}) for step in steps if (step.attributes or {})["vitrina.event"] == "loaded"]
    assert [step["vitrina.written"] for step in loaded][:3] == [20, 20, 20]


def test_a_run_that_fails_is_a_span_that_says_why(lab: Lab, spans: InMemorySpanExporter) -> None:
    lab.run(lab.add(source_query="SELECT 1 AS id FROM content.missing"))
    (run,) = named(spans, "vitrina.run")
    assert run.status.status_code is StatusCode.ERROR
    assert "content.missing" in str(run.status.description)


def test_spans_go_to_the_collector_that_the_environment_names(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as collector:
        collector.status = 200
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        lab.run(lab.add(**FILMS))
        sent = [ExportTraceServiceRequest.FromString(request.body) for request in collector.requests]
    assert {request.path for request in collector.requests} == {"/v1/traces"}
    groups = [group for message in sent for group in message.resource_spans]
    names = {span.name for group in groups for scope in group.scope_spans for span in scope.spans}
    resource = {pair.key: pair.value.string_value for pair in groups[0].resource.attributes}
    assert (names, resource["service.name"]) == ({"vitrina.run", "vitrina.batch"}, "vitrina")


def test_without_a_collector_nothing_of_opentelemetry_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    for switch in tracing.SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    monkeypatch.setattr(tracing, "_provider", lambda: pytest.fail("it is off"))
    with tracing.tracing(), tracing.span("x") as span:
        assert span is None


def test_a_collector_without_the_extra_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(ConfigError, match=r"vitrina\[otel\]"), tracing.tracing():
        pass
