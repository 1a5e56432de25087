//! Logs and traces: one subscriber for both, W3C trace context in and out, OTLP export off unless configured.

use std::{
    borrow::Cow,
    env, fmt, fs, io,
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use antares_config::{Config, Log, Trace};
use antares_tls::{TlsClient, TlsError};
use http::HeaderMap;
use opentelemetry::{
    Context, InstrumentationScope, KeyValue, global,
    propagation::{Extractor, Injector, TextMapPropagator},
    trace::{Span as _, SpanContext, SpanKind, TraceContextExt, TraceId, Tracer, TracerProvider},
};
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    resource::{EnvResourceDetector, TelemetryResourceDetector},
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider},
};
use tonic::{
    metadata::{MetadataKey, MetadataMap},
    transport::{Channel, Endpoint},
};
use tracing::{Dispatch, Event, Span, dispatcher};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{FilterExt as _, filter_fn},
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

use crate::{
    limits::{LOG_LINES_PER_SECOND, SPAN_EXPORT_TIME_MAX, SPANS_WAITING_MAX},
    log_rate::LogRate,
    log_writer::{self, LogWriter},
    metrics::Metrics,
    reload,
    spans::{self, Bounded, Counted},
};

/// Name of the instrumentation in exported spans.
const SCOPE: &str = "antares";

/// The semantic conventions that attributes follow.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// The kernel's host name; in a pod that is the pod's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Targets whose spans are exported; spans of the exporter's own calls must not feed the exporter.
const TRACED_PREFIX: &str = "antares";

/// Longest wait for the last spans at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Why logs or traces did not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is invalid.
    #[error("log.filter {0:?}")]
    Filter(String, #[source] tracing_subscriber::filter::ParseError),
    /// This process already has a subscriber.
    #[error("logs are started already")]
    Started(#[from] tracing_subscriber::util::TryInitError),
    /// The log thread cannot be created.
    #[error("cannot start the thread that writes the log")]
    Thread(#[source] io::Error),
    /// The endpoint is not a URL.
    #[error("trace.endpoint {0:?}")]
    Endpoint(String, #[source] tonic::transport::Error),
    /// TLS files are invalid.
    #[error("[trace]")]
    Tls(#[from] TlsError),
    /// The exporter cannot be created.
    #[error("trace.endpoint {0:?}")]
    Exporter(String, #[source] ExporterBuildError),
}

/// Running logs and traces. [`Telemetry::stop`] sends the rest.
#[derive(Debug)]
#[must_use = "spans are sent until it is stopped"]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
    /// For an encrypted receiver.
    client: Option<TlsClient>,
}

impl Telemetry {
    /// Starts logs to standard output, and traces if enabled. Call it within a tokio runtime, once per
    /// process.
    ///
    /// # Errors
    /// An invalid filter or endpoint, or a second call.
    pub fn start(config: &Config, service: &'static str) -> Result<Self, TelemetryError> {
        let channel = config.trace.as_ref().map(otlp_channel).transpose()?;
        let (channel, client) = channel.map_or((None, None), |(channel, client)| (Some(channel), client));
        let traced = config.trace.as_ref().zip(channel);
        let provider = traced.map(|(trace, channel)| provider(trace, channel, service)).transpose()?;
        let exported = provider.as_ref().map(|provider| {
            tracing_opentelemetry::layer()
                .with_tracer(provider.tracer_with_scope(scope()))
                .with_location(false)
                .with_threads(false)
                .with_target(false)
                .with_filter(filter_fn(|metadata| {
                    metadata.is_span() && metadata.target().starts_with(TRACED_PREFIX)
                }))
        });
        let (layer, handle) = log_layer(&config.log)?;
        tracing_subscriber::registry().with(exported).with(layer).try_init()?;
        // The process's only subscriber was just set.
        let _ = FILTER.set(Mutex::new((config.log.filter.clone(), handle)));
        if let Some(provider) = &provider {
            global::set_tracer_provider(provider.clone());
        }
        Ok(Self { provider, client })
    }

    /// Exports counts of sent and lost spans, and follows the TLS files. Call it within the runtime.
    pub(crate) fn watch(&self, metrics: &Metrics) {
        spans::watch(metrics);
        if let Some(client) = &self.client {
            reload::watch_client(client, metrics);
        }
    }

    /// Sends queued spans and writes queued lines, for at most two seconds each. Blocks.
    pub fn stop(self) {
        if let Some(provider) = self.provider
            && let Err(error) = provider.shutdown_with_timeout(FLUSH_TIMEOUT)
        {
            tracing::warn!(%error, "the last spans were not sent");
        }
        log_writer::flush();
    }
}

type BoxedLayer<S> = Box<dyn Layer<S> + Send + Sync>;

/// The current filter, and how to change it.
static FILTER: OnceLock<Mutex<(String, Change)>> = OnceLock::new();

type Change = Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send>;

/// Changes the log filter until the process ends; returns the previous one.
///
/// # Errors
/// `filter` is invalid, or logs were not started.
pub fn set_log_filter(filter: &str) -> Result<String, String> {
    let new = EnvFilter::try_new(filter).map_err(|error| error.to_string())?;
    let current = FILTER.get().ok_or("there are no logs")?;
    let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
    (current.1)(new).map_err(|error| error.to_string())?;
    Ok(std::mem::replace(&mut current.0, filter.to_owned()))
}

fn log_layer<S>(log: &Log) -> Result<(BoxedLayer<S>, Change), TelemetryError>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&log.filter)
        .map_err(|source| TelemetryError::Filter(log.filter.clone(), source))?;
    let (filter, handle) = tracing_subscriber::reload::Layer::new(filter);
    let filter = filter.and(LogRate::new(LOG_LINES_PER_SECOND));
    let writer = LogWriter::start(log.json).map_err(TelemetryError::Thread)?;
    let layer = tracing_subscriber::fmt::layer().with_ansi(LogWriter::is_terminal()).with_writer(writer);
    let layer = if log.json {
        layer
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(true)
            .map_event_format(WithTrace)
            .with_filter(filter)
            .boxed()
    } else {
        layer.with_filter(filter).boxed()
    };
    Ok((layer, Box::new(move |filter| handle.reload(filter))))
}

/// A channel to the receiver of traces and profiles, which connects on demand; and its TLS client if
/// encrypted. Call it within the runtime.
///
/// # Errors
/// The URL or a file is invalid.
pub fn otlp_channel(trace: &Trace) -> Result<(Channel, Option<TlsClient>), TelemetryError> {
    let endpoint = &trace.endpoint;
    let wrong = |source| TelemetryError::Endpoint(endpoint.clone(), source);
    if !endpoint.starts_with("https://") {
        return Ok((Endpoint::from_shared(endpoint.clone()).map_err(wrong)?.connect_lazy(), None));
    }
    let client = TlsClient::load(&trace.tls)?;
    let channel = client.channel(endpoint, None, |shape| shape).map_err(wrong)?;
    Ok((channel, Some(client)))
}

fn provider(
    trace: &Trace,
    channel: Channel,
    service: &'static str,
) -> Result<SdkTracerProvider, TelemetryError> {
    // Headers come from OTEL_EXPORTER_OTLP_HEADERS.
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_timeout(SPAN_EXPORT_TIME_MAX)
        .build()
        .map_err(|source| TelemetryError::Exporter(trace.endpoint.clone(), source))?;
    // The queue is bounded and calls never wait for it: a dead collector costs only spans.
    let batch = BatchConfigBuilder::default().with_max_queue_size(SPANS_WAITING_MAX).build();
    let processor = BatchSpanProcessor::builder(Counted(exporter)).with_batch_config(batch).build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(Bounded(processor))
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(trace.sample_ratio))))
        .with_resource(resource(service))
        .build())
}

/// The sender of spans: the service and its process. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take
/// precedence, because operators set them for their cluster.
fn resource(service: &'static str) -> Resource {
    let host = fs::read_to_string(HOST_NAME).unwrap_or_default();
    let facts = [
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", instance_id(rand::random())),
        ("host.name", host.trim().to_owned()),
    ];
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let said = env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    let said = said.map(|name| KeyValue::new("service.name", name));
    Resource::builder_empty()
        .with_schema_url([], SCHEMA)
        .with_service_name(service)
        .with_attributes(facts.map(|(name, value)| KeyValue::new(name, value)))
        .with_detectors(&[Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())])
        .with_attributes(said)
        .build()
}

/// A unique name: a UUID (version 4) of random `bits`.
fn instance_id(bits: u128) -> String {
    let bits = (bits & !((0xF << 76) | (0b11 << 62))) | (4 << 76) | (0b10 << 62);
    let digits = format!("{bits:032x}");
    [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]).join("-")
}

/// The instrumentation of exported spans.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(SCOPE)
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA)
        .build()
}

/// Makes the caller's span in `headers` the parent of `span`, and records the trace ID for the logs.
pub(crate) fn adopt(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract(&Headers(headers));
    let caller = context.span().span_context().clone();
    if caller.is_valid() {
        // It fails if traces are off; the ID in the logs is still useful.
        let _ = span.set_parent(context);
    }
    let own = span.context().span().span_context().trace_id();
    let trace_id = if own == TraceId::INVALID { caller.trace_id() } else { own };
    if trace_id != TraceId::INVALID {
        span.record("trace_id", trace_id.to_string());
    }
}

/// The trace of `span`, if it is exported.
pub(crate) fn sampled_trace(span: &Span) -> Option<TraceId> {
    let context = span.context().span().span_context().clone();
    context.is_sampled().then(|| context.trace_id())
}

/// Adds the current span's trace context to an outgoing call's metadata.
pub fn inject(metadata: &mut MetadataMap) {
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut Metadata(metadata));
}

/// Exports a past span as a child of the current one: for work elsewhere that was reported afterwards, as in
/// a worker process. Does nothing if traces are off.
pub fn past_span(name: &'static str, started: SystemTime, took: Duration, facts: Vec<KeyValue>) {
    let parent: Context = Span::current().context();
    if !parent.span().span_context().is_sampled() {
        return;
    }
    let tracer = global::tracer_with_scope(scope());
    let mut span = tracer
        .span_builder(Cow::Borrowed(name))
        .with_kind(SpanKind::Internal)
        .with_start_time(started)
        .with_attributes(facts)
        .start_with_context(&tracer, &parent);
    span.end_with_timestamp(started + took);
}

/// An attribute of a span.
pub fn fact(name: &'static str, value: u64) -> KeyValue {
    KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX))
}

/// JSON lines with their trace and span, if traces are on.
struct WithTrace<F>(F);

impl<S, N, F> FormatEvent<S, N> for WithTrace<F>
where
    S: tracing::Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        event_in: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let span = event_in.lookup_current().and_then(|span| {
            let of_span = |dispatch: &Dispatch| tracing_opentelemetry::get_otel_context(&span.id(), dispatch);
            dispatcher::get_default(of_span).map(|context| context.span().span_context().clone())
        });
        let mut line = String::new();
        self.0.format_event(event_in, Writer::new(&mut line), event)?;
        if let Some(span) = span.filter(SpanContext::is_valid)
            && let Some(rest) = line.strip_prefix('{')
        {
            let (trace, id) = (span.trace_id(), span.span_id());
            return write!(writer, r#"{{"trace_id":"{trace}","span_id":"{id}",{rest}"#);
        }
        writer.write_str(&line)
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }
}

struct Metadata<'a>(&'a mut MetadataMap);

impl Injector for Metadata<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(key), Ok(value)) = (MetadataKey::from_bytes(key.as_bytes()), value.parse()) {
            self.0.insert(key, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_is_not_made() {
        let log = Log { json: true, filter: "info".to_owned() };
        let (layer, _) = log_layer(&log).unwrap();
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            // As in the HTTP/2 library for each frame, and in our own steps.
            assert!(!tracing::span_enabled!(target: "h2::proto", tracing::Level::TRACE, "frame"));
            assert!(!tracing::event_enabled!(target: "h2::proto", tracing::Level::DEBUG));
            assert!(!tracing::span_enabled!(target: "antares_runner_svc", tracing::Level::DEBUG, "worker"));
            assert!(tracing::span_enabled!(target: "antares_runner_svc", tracing::Level::INFO, "verify"));
            assert!(tracing::event_enabled!(target: "h2::proto", tracing::Level::WARN));
        });
    }

    #[test]
    fn a_process_has_a_name_of_its_own() {
        assert_eq!(instance_id(0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(instance_id(u128::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let id = || resource("test").get(&"service.instance.id".into()).map(|id| id.to_string());
        let (one, another) = (id().unwrap(), id().unwrap());
        assert!(one != another && one.len() == 36, "{one} {another}");
    }

    #[test]
    fn a_resource_says_which_conventions_it_follows() {
        let resource = resource("test");
        assert_eq!(resource.schema_url(), Some(SCHEMA));
        let name = resource.get(&"service.name".into()).map(|name| name.to_string());
        assert!(env::var("OTEL_SERVICE_NAME").is_ok() || name.as_deref() == Some("test"), "{name:?}");
        assert!(resource.get(&"host.name".into()).is_some());
    }
}
