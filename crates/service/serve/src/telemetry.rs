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

/// The semantic conventions whose names attributes have.
const SCHEMA: &str = "https://opentelemetry.io/schemas/1.44.0";

/// Where the kernel says what the machine is called; in a pod that is the pod's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Targets whose spans are exported; spans of the exporter's own calls must not feed the exporter.
const TRACED_PREFIX: &str = "antares";

/// How long the last spans may take to leave at the end.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Why logs or traces could not start.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The filter is wrong.
    #[error("log.filter {filter:?}")]
    Filter {
        /// The filter as configured.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// This process has a subscriber already.
    #[error("logs are started already")]
    Started(#[from] tracing_subscriber::util::TryInitError),
    /// There is no thread that could write the log.
    #[error("cannot start the thread that writes the log")]
    Thread(#[source] io::Error),
    /// The endpoint is no URL.
    #[error("trace.endpoint {endpoint:?}")]
    Endpoint {
        /// The endpoint as configured.
        endpoint: String,
        /// What is wrong with it.
        source: tonic::transport::Error,
    },
    /// Files of TLS are of no use.
    #[error("[trace]")]
    Tls(#[from] TlsError),
    /// The exporter cannot be made.
    #[error("trace.endpoint {endpoint:?}")]
    Exporter {
        /// The endpoint as configured.
        endpoint: String,
        /// What is wrong with it.
        source: ExporterBuildError,
    },
}

/// Running logs and traces. [`Telemetry::stop`] sends what is left.
#[derive(Debug)]
#[must_use = "spans are sent until it is stopped"]
pub struct Telemetry {
    provider: Option<SdkTracerProvider>,
    /// Of an encrypted receiver.
    client: Option<TlsClient>,
}

impl Telemetry {
    /// Starts logs to standard output, and traces if they are on. Call it within a tokio runtime, once per
    /// process.
    ///
    /// # Errors
    /// A wrong filter or endpoint, or a second call.
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
        // The one subscriber of the process was just set.
        let _ = FILTER.set(Mutex::new((config.log.filter.clone(), handle)));
        if let Some(provider) = &provider {
            global::set_tracer_provider(provider.clone());
        }
        Ok(Self { provider, client })
    }

    /// Exports how many spans were sent and lost, and follows the files of TLS. Call it within the runtime.
    pub(crate) fn watch(&self, metrics: &Metrics) {
        spans::watch(metrics);
        if let Some(client) = &self.client {
            reload::watch_client(client, metrics);
        }
    }

    /// Sends the spans that wait, and writes the lines that do, for at most two seconds each. Blocks.
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

/// What is logged, and how to change that.
static FILTER: OnceLock<Mutex<(String, Change)>> = OnceLock::new();

type Change = Box<dyn Fn(EnvFilter) -> Result<(), tracing_subscriber::reload::Error> + Send>;

/// Changes what is logged until the process ends; gives the filter that was in force.
///
/// # Errors
/// `filter` is none, or logs were not started.
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
        .map_err(|source| TelemetryError::Filter { filter: log.filter.clone(), source })?;
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

/// A channel to the receiver of traces and profiles, which connects on demand; and its client if it is encrypted.
/// Call it within the runtime.
///
/// # Errors
/// The URL or a file is of no use.
pub fn otlp_channel(trace: &Trace) -> Result<(Channel, Option<TlsClient>), TelemetryError> {
    let endpoint = &trace.endpoint;
    let wrong = |source| TelemetryError::Endpoint { endpoint: endpoint.clone(), source };
    if !endpoint.starts_with("https://") {
        return Ok((Endpoint::from_shared(endpoint.clone()).map_err(wrong)?.connect_lazy(), None));
    }
    let client = TlsClient::load(&trace.tls)?;
    let channel = client.channel(endpoint, |shape| shape).map_err(wrong)?;
    Ok((channel, Some(client)))
}

fn provider(
    trace: &Trace,
    channel: Channel,
    service: &'static str,
) -> Result<SdkTracerProvider, TelemetryError> {
    // Headers are those of OTEL_EXPORTER_OTLP_HEADERS.
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(channel)
        .with_timeout(SPAN_EXPORT_TIME_MAX)
        .build()
        .map_err(|source| TelemetryError::Exporter { endpoint: trace.endpoint.clone(), source })?;
    // The queue is bounded and the calls never wait for it: a dead collector costs spans and nothing else.
    let batch = BatchConfigBuilder::default().with_max_queue_size(SPANS_WAITING_MAX).build();
    let processor = BatchSpanProcessor::builder(Counted(exporter)).with_batch_config(batch).build();
    Ok(SdkTracerProvider::builder()
        .with_span_processor(Bounded(processor))
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(trace.sample_ratio))))
        .with_resource(resource(service))
        .build())
}

/// Who sends spans: the service, and which of its processes. What the environment says in OTEL_SERVICE_NAME
/// and OTEL_RESOURCE_ATTRIBUTES counts more, as operators set it who know the cluster.
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

/// A name that no other process has: a UUID (version 4) of random `bits`.
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

/// Makes the caller's span, as `headers` name it, the parent of `span`, and notes the trace id for the logs.
pub(crate) fn adopt(span: &Span, headers: &HeaderMap) {
    let context = TraceContextPropagator::new().extract(&Headers(headers));
    let caller = context.span().span_context().clone();
    if caller.is_valid() {
        // It fails where traces are off; the id in the logs is still worth having.
        let _ = span.set_parent(context);
    }
    let own = span.context().span().span_context().trace_id();
    let trace_id = if own == TraceId::INVALID { caller.trace_id() } else { own };
    if trace_id != TraceId::INVALID {
        span.record("trace_id", trace_id.to_string());
    }
}

/// The trace of `span`, if it is one that is exported.
pub(crate) fn sampled_trace(span: &Span) -> Option<TraceId> {
    let context = span.context().span().span_context().clone();
    context.is_sampled().then(|| context.trace_id())
}

/// Puts the trace context of the current span into the metadata of a call that is about to be made.
pub fn inject(metadata: &mut MetadataMap) {
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut Metadata(metadata));
}

/// Exports a span that has ended already, as a child of the current one: for work that was done elsewhere and
/// told afterwards, as in a worker process. Does nothing where traces are off.
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

/// A fact about a span.
#[must_use]
pub fn fact(name: &'static str, value: u64) -> KeyValue {
    KeyValue::new(name, i64::try_from(value).unwrap_or(i64::MAX))
}

/// Lines of JSON with the trace and the span that they belong to, where traces are on.
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
            // As the library of HTTP/2 has them for each frame, and as our own steps are.
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
