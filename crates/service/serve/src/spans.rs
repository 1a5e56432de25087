//! Spans on their way to the collector, with a count of lost ones.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use opentelemetry::Context;
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{Span, SpanData, SpanExporter, SpanProcessor},
};

use crate::{
    limits::SPANS_WAITING_MAX,
    metrics::{Metrics, set_total},
};

/// Queued spans.
static WAITING: AtomicU64 = AtomicU64::new(0);

/// Spans by result.
static RESULTS: [(&str, AtomicU64); 3] =
    [("dropped", AtomicU64::new(0)), ("failed", AtomicU64::new(0)), ("sent", AtomicU64::new(0))];

fn count(result: usize, spans: u64) {
    RESULTS[result].1.fetch_add(spans, Ordering::Relaxed);
}

/// Exports the counts.
pub(crate) fn watch(metrics: &Metrics) {
    let help = "Spans by result: dropped if the queue was full, failed if the export failed.";
    let spans = metrics.counters("antares_trace_spans_total", help, &["result"]);
    metrics.before_scrape(move || {
        for (result, number) in &RESULTS {
            set_total(&spans.with_label_values(&[*result]), number.load(Ordering::Relaxed));
        }
    });
}

/// Drops spans when the queue is full.
#[derive(Debug)]
pub(crate) struct Bounded<P>(pub(crate) P);

impl<P: SpanProcessor> SpanProcessor for Bounded<P> {
    fn on_start(&self, span: &mut Span, context: &Context) {
        self.0.on_start(span, context);
    }

    fn on_end(&self, span: SpanData) {
        if WAITING.fetch_add(1, Ordering::AcqRel) < SPANS_WAITING_MAX as u64 {
            return self.0.on_end(span);
        }
        WAITING.fetch_sub(1, Ordering::AcqRel);
        count(0, 1);
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}

/// Counts the spans that an exporter sends.
#[derive(Debug)]
pub(crate) struct Counted<E>(pub(crate) E);

impl<E: SpanExporter> SpanExporter for Counted<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        WAITING.fetch_sub(spans, Ordering::AcqRel);
        let result = self.0.export(batch).await;
        count(if result.is_ok() { 2 } else { 1 }, spans);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.0.set_resource(resource);
    }
}
