//! The layer around every gRPC call: a span with the caller's trace context, the deadline, a place among the
//! calls in progress, a budget for its bytes, duration by method and status, and a wall against panics.

use std::{
    collections::HashMap,
    future::Future,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use antares_config::{CallerRole, Listen};
use futures_util::FutureExt;
use http::{Request, Response};
use prometheus::IntGauge;
use prost::Message;
use tokio::time::timeout_at;
use tonic::{Status, body::Body};
use tower::{Layer, Service};
use tracing::{Instrument, Span};

use crate::{
    account::{Account, Accounts, InProgress, QUOTA},
    admin_socket::ByAdminSocket,
    admission::{Admission, Places, Refused},
    answer::metered,
    audit::{Auditor, CallNotes, Entry},
    body::{BytesSlot, MeteredBody, RequestBytes, Terms},
    call::{Call, CallDeadline, WatchedBody, check_timeout, not_grpc},
    call_span::span_of,
    connections::Link,
    gate::{ActsForAll, AdminProven, Caller, ClientNames, Gate, RoleProven, Stopped},
    metrics::{Metrics, RPC_SECONDS},
    openmetrics::TracedHistograms,
    operator::LoopbackOperators,
    peer::Peer,
    roles::{Need, need},
    server::{Callers, ServeError},
    status::{Fault, caller_s_mistake, code_in, reason_in},
    usage::{Tab, Usage},
};

/// Label of calls to methods that do not exist.
const OTHER: &str = "_OTHER";

/// Services that must answer when nothing else does, autoscalers among their callers: they have places of
/// their own, and no traces.
const EXEMPT: [&str; 3] = ["grpc.health.v1.Health/", "grpc.reflection.", "externalscaler.ExternalScaler/"];

/// How long a caller waits that found the audit log broken.
const RETRY_AUDIT: Duration = Duration::from_secs(5);

/// How long a caller waits to hear that a quota is used up.
const QUOTA_PAUSE: Duration = Duration::from_millis(20);

/// What all calls of a server share.
#[derive(Clone, Debug)]
pub(crate) struct RpcLayer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Whether each takes a stream.
    methods: HashMap<Arc<str>, bool>,
    other: Arc<str>,
    admission: Admission,
    accounts: Accounts,
    audit: Option<Arc<Auditor>>,
    gate: Gate,
    loopback_operators: bool,
    message_bytes_max: usize,
    message_time_max: Duration,
    call_time_max: Duration,
    seconds: TracedHistograms,
    in_progress: IntGauge,
}

impl Shared {
    /// Puts beside a call what those behind may ask for.
    fn tell(
        &self,
        request: &mut Request<Body>,
        deadline: CallDeadline,
        peer: Peer,
        of: (Account, CallNotes),
    ) {
        let extensions = request.extensions_mut();
        extensions.insert(of.0);
        extensions.insert(of.1);
        extensions.insert(deadline);
        extensions.insert(peer);
        if self.gate.is_on() {
            extensions.insert(RoleProven);
        }
        if self.loopback_operators {
            extensions.insert(LoopbackOperators);
        }
        let bytes = RequestBytes::new(self.admission.bytes.clone(), peer);
        if let Some(slot) = extensions.get::<BytesSlot>() {
            slot.fill(bytes.clone());
        }
        extensions.insert(bytes);
    }

    /// Who makes a call of `method`, and whether it may be made.
    fn pass(&self, method: &str, request: &mut Request<Body>) -> Result<Option<Caller>, Stopped> {
        let names = request.extensions().get::<ClientNames>().cloned();
        if request.extensions().get::<ByAdminSocket>().is_some() {
            request.extensions_mut().insert(AdminProven);
            request.extensions_mut().insert(RoleProven);
            if matches!(need(method), Need::Role(CallerRole::Admin) | Need::Known) {
                return Ok(Some(Caller::by_socket()));
            }
        }
        let passed = self.gate.pass(method, names.as_ref(), request.headers_mut());
        match &passed {
            Ok(Some(caller)) => {
                if caller.any_tenant {
                    request.extensions_mut().insert(ActsForAll);
                }
                if caller.is_admin() {
                    request.extensions_mut().insert(AdminProven);
                }
            }
            Ok(None) => {}
            // What a stranger says that it is, is no tenant: its refusals are on nobody's bill.
            Err(stopped) => stopped.name_tenant(request.headers_mut()),
        }
        passed
    }

    /// The places of a call, or why it gets none.
    fn admit(
        &self,
        passed: Result<Option<Caller>, Stopped>,
        peer: Peer,
        request: &Request<Body>,
        (exempt, account): (bool, &Account),
    ) -> Result<(Places, Option<InProgress>), Fault> {
        passed.map_err(|stopped| stopped.denied.fault())?;
        check_timeout(request.headers())?;
        if !exempt && self.audit.as_ref().is_some_and(|audit| !audit.is_well()) {
            let problem = "the audit log cannot be written, and calls are not answered without it";
            return Err(Fault::unavailable("AUDIT_UNAVAILABLE", problem, RETRY_AUDIT));
        }
        // Who must repair a server that is full gets in.
        let exempt = exempt || request.extensions().get::<ByAdminSocket>().is_some();
        let places = self.admission.admit(peer, request.headers(), exempt).map_err(Refused::fault)?;
        let of_tenant = if exempt { None } else { Some(account.begin_call()?) };
        Ok((places, of_tenant))
    }

    /// What the request of a call may be.
    fn terms(&self, request: &Request<Body>, is_stream: bool) -> Terms {
        Terms {
            message_bytes_max: self.message_bytes_max,
            message_time_max: self.message_time_max,
            is_stream,
            is_encoded: request.headers().get("grpc-encoding").is_some_and(|name| name != "identity"),
        }
    }

    /// The line of a call that needs a role, or that is refused for who makes it.
    fn entry(
        &self,
        method: &str,
        passed: &Result<Option<Caller>, Stopped>,
        account: &Account,
        (peer, notes): (Peer, &CallNotes),
    ) -> Option<Entry> {
        let auditor = self.audit.clone()?;
        let role = match need(method) {
            Need::Role(role) => role.name(),
            _ if passed.is_err() => "",
            _ => return None,
        };
        let (who, tenant) = match passed {
            Ok(caller) => (caller.as_ref().map(|caller| caller.who.clone()), account.tenant().into()),
            Err(stopped) => (stopped.who.clone(), stopped.tenant.clone()),
        };
        Some(Entry { auditor, who, tenant, role, peer, notes: notes.clone() })
    }
}

impl RpcLayer {
    /// For the methods in the encoded descriptor sets, within the limits of `listen`, for those who may call.
    ///
    /// # Errors
    /// A descriptor set does not decode, or files of keys or of the audit log are of no use.
    pub(crate) fn new(
        descriptors: &[&[u8]],
        listen: &Listen,
        callers: Callers<'_>,
        metrics: &Metrics,
    ) -> Result<Self, ServeError> {
        let mut methods = HashMap::new();
        for set in descriptors {
            methods.extend(methods_of(&prost_types::FileDescriptorSet::decode(*set)?));
        }
        let shared = Shared {
            methods,
            other: OTHER.into(),
            admission: Admission::new(listen, metrics),
            accounts: Accounts::new(callers.tenancy, Usage::open(callers.usage, metrics)?, metrics),
            audit: Auditor::start(callers.audit, metrics).map_err(ServeError::Audit)?,
            gate: Gate::new(callers.auth, metrics)?,
            loopback_operators: callers.admin.loopback,
            message_bytes_max: listen.message_bytes_max,
            message_time_max: listen.request_time_max,
            call_time_max: listen.call_time_max,
            seconds: metrics.traced_histograms(
                "rpc_server_call_duration_seconds",
                "Duration of gRPC calls, streams included, from the first byte to the last.",
                RPC_SECONDS,
                &["rpc_method", "rpc_response_status_code"],
            ),
            in_progress: metrics.gauge("antares_calls_in_progress", "gRPC calls in progress."),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Waits for the last lines of the audit log, but not for ever.
    pub(crate) async fn flush(&self) {
        if let Some(audit) = self.shared.audit.clone() {
            // What fails there is in the log.
            let _ = tokio::task::spawn_blocking(move || audit.flush()).await;
        }
    }

    /// What tenants used.
    pub(crate) fn usage(&self) -> Usage {
        self.shared.accounts.usage.clone()
    }

    /// Whether no call is in progress, health checks aside.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.admission.is_idle()
    }
}

fn methods_of(set: &prost_types::FileDescriptorSet) -> impl Iterator<Item = (Arc<str>, bool)> + '_ {
    set.file.iter().flat_map(|file| {
        file.service.iter().flat_map(move |service| {
            service.method.iter().map(move |method| {
                let name = format!("{}.{}/{}", file.package(), service.name(), method.name());
                (name.into(), method.client_streaming())
            })
        })
    })
}

impl<S> Layer<S> for RpcLayer {
    type Service = RpcService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        RpcService { inner, shared: self.shared.clone() }
    }
}

/// A service within [`RpcLayer`].
#[derive(Clone, Debug)]
pub(crate) struct RpcService<S> {
    inner: S,
    shared: Arc<Shared>,
}

impl<S> Service<Request<Body>> for RpcService<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        if let Some(answer) = not_grpc(&request) {
            return Box::pin(async move { Ok(answer) });
        }
        let shared = &self.shared;
        let path = request.uri().path();
        let method = shared.methods.get_key_value(path.strip_prefix('/').unwrap_or(path));
        let (method, &is_stream) = method.unwrap_or((&shared.other, &false));
        let exempt = EXEMPT.iter().any(|prefix| method.starts_with(prefix));
        let link = request.extensions().get::<Arc<Link>>().cloned();
        let peer = link.as_ref().map_or(Peer::UNKNOWN, |link| link.peer());
        let passed = shared.pass(method, &mut request);
        let deadline = CallDeadline::from_headers(request.headers(), shared.call_time_max);
        shared.in_progress.inc();
        let account = shared.accounts.of(peer, request.headers());
        let notes = CallNotes::default();
        let audit = shared.entry(method, &passed, &account, (peer, &notes));
        let admitted = shared.admit(passed, peer, &request, (exempt, &account));
        let (places, of_tenant, refused) = match admitted {
            Ok((places, of_tenant)) => (Some(places), of_tenant, None),
            Err(fault) => (None, None, Some(fault)),
        };
        let bytes = places.as_ref().map(|places| places.bytes.clone());
        let call = Call {
            started: Instant::now(),
            deadline,
            tab: if exempt { Tab::default() } else { account.tab().clone() },
            seconds: shared.seconds.clone(),
            in_progress: shared.in_progress.clone(),
            places,
            of_tenant,
            audit,
            link: link.inspect(|link| link.begin_call()),
            span: if exempt { Span::none() } else { span_of(method, &request) },
            method: method.clone(),
            code: None,
            reason: None,
        };
        if let Some(fault) = refused {
            let response = Status::from(fault).into_http();
            return Box::pin(async move { Ok(answer(paused(response).await, call)) });
        }
        shared.tell(&mut request, deadline, peer, (account, notes));
        let terms = shared.terms(&request, is_stream);
        if let Some(bytes) = bytes {
            request = request.map(|body| Body::new(MeteredBody::new(body, terms, bytes)));
        }
        let budget = (!exempt).then(|| shared.admission.bytes.clone());
        let span = call.span.clone();
        let inner = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        Box::pin(
            async move {
                match timeout_at(deadline.0.into(), inner).await {
                    Ok(Ok(Ok(response))) => {
                        let mut response = paused(response).await;
                        if let Some(budget) = budget {
                            response = metered(response, budget, peer).await;
                        }
                        Ok(answer(response, call))
                    }
                    Ok(Ok(Err(error))) => Err(error),
                    // tonic watches the same deadline, but would say CANCELLED; this one began a moment
                    // earlier.
                    Err(_) => Ok(answer(Status::from(Fault::call_deadline()).into_http(), call)),
                    // The panic hook has told where. The connection and its other calls live on.
                    Ok(Err(_)) => {
                        let fault =
                            Fault::failed("INTERNAL", "internal error; the server's log has the particulars");
                        Ok(answer(Status::from(fault).into_http(), call))
                    }
                }
            }
            .instrument(span),
        )
    }
}

/// `response`, after a moment if it says that a quota is used up: who asks again at once and at once takes
/// the machine from others.
async fn paused(response: Response<Body>) -> Response<Body> {
    if code_in(response.headers()) == Some("RESOURCE_EXHAUSTED")
        && reason_in(response.headers()).is_some_and(|reason| reason == QUOTA)
    {
        tokio::time::sleep(QUOTA_PAUSE).await;
    }
    response
}

/// `response`, with the end of `call` where its status is: in its headers (an error) or in its trailers.
fn answer(mut response: Response<Body>, mut call: Call) -> Response<Body> {
    if let Some(status) = caller_s_mistake(response.headers()) {
        response = status.into_http();
    }
    match code_in(response.headers()) {
        Some(code) => {
            call.end(code, response.headers());
            drop(call);
            response
        }
        None => response.map(|body| Body::new(WatchedBody::new(body, call))),
    }
}

#[cfg(test)]
mod tests {
    use tower::service_fn;

    use super::*;
    use antares_config::{ConfigFile, Role};

    fn layer(calls_max: usize) -> (RpcLayer, Metrics) {
        let metrics = Metrics::new();
        let sets: [&[u8]; 1] = [tonic_health::pb::FILE_DESCRIPTOR_SET];
        let listen = ConfigFile::default().check(Role::Both, &[]).unwrap().listen;
        let listen = Listen { calls_max, call_time_max: Duration::from_millis(500), ..listen };
        let config = ConfigFile::default().check(Role::Both, &[]).unwrap();
        (RpcLayer::new(&sets, &listen, Callers::of(&config), &metrics).unwrap(), metrics)
    }

    fn request(path: &str) -> Request<Body> {
        let builder = Request::builder().method("POST").uri(path);
        builder.header("content-type", "application/grpc").body(Body::empty()).unwrap()
    }

    fn scrape(metrics: &Metrics) -> String {
        String::from_utf8(metrics.text().unwrap()).unwrap()
    }

    async fn ok(_: Request<Body>) -> Result<Response<Body>, Status> {
        Ok(Status::ok("").into_http())
    }

    async fn panics(_: Request<Body>) -> Result<Response<Body>, Status> {
        panic!("for the test")
    }

    #[tokio::test]
    async fn unknown_methods_share_one_label() {
        let (layer, metrics) = layer(1);
        for path in ["/evil/1", "/evil/2", "/grpc.health.v1.Health/Check"] {
            layer.layer(service_fn(ok)).call(request(path)).await.unwrap();
        }
        let text = scrape(&metrics);
        let count = |method| format!("_count{{rpc_method=\"{method}\",rpc_response_status_code=\"OK\"}}");
        assert!(text.contains(&format!("{} 2", count("_OTHER"))), "{text}");
        assert!(text.contains(&format!("{} 1", count("grpc.health.v1.Health/Check"))), "{text}");
    }

    #[tokio::test]
    async fn a_timeout_that_is_none_is_the_caller_s_mistake() {
        let (layer, _metrics) = layer(1);
        let ask = async |values: &[&str]| {
            let mut request = request("/a/b");
            for value in values {
                request.headers_mut().append("grpc-timeout", value.parse().unwrap());
            }
            layer.layer(service_fn(ok)).call(request).await.unwrap()
        };
        for wrong in ["", "m", "1", "1x", "-1S", "+1S", "123456789m", "1 m", "1.5S", "0x1S", "S1", "1SS"] {
            let answer = ask(&[wrong]).await;
            assert_eq!(code_in(answer.headers()), Some("INVALID_ARGUMENT"), "{wrong:?}");
            assert_eq!(reason_in(answer.headers()).as_deref(), Some("TIMEOUT_MALFORMED"));
        }
        assert_eq!(code_in(ask(&["1S", "2S"]).await.headers()), Some("INVALID_ARGUMENT"));
        for good in ["99999999H", "1n", "10S"] {
            let code = code_in(ask(&[good]).await.headers());
            assert!(matches!(code, Some("OK" | "DEADLINE_EXCEEDED")), "{good} {code:?}");
        }
    }

    #[tokio::test]
    async fn a_full_server_says_so_and_still_answers_health_checks() {
        let (layer, _metrics) = layer(1);
        let held = layer.layer(service_fn(ok)).call(request("/a/b"));
        let refused = layer.layer(service_fn(ok)).call(request("/a/b")).await.unwrap();
        assert_eq!(code_in(refused.headers()), Some("RESOURCE_EXHAUSTED"));
        let health = layer.layer(service_fn(ok)).call(request("/grpc.health.v1.Health/Check")).await.unwrap();
        assert_eq!(code_in(health.headers()), Some("OK"));
        assert!(!layer.is_idle());
        drop(held);
        assert!(layer.is_idle());
    }

    #[tokio::test]
    async fn a_panic_fails_its_own_call() {
        let (layer, metrics) = layer(1);
        let response = layer.layer(service_fn(panics)).call(request("/a/b")).await.unwrap();
        assert_eq!(code_in(response.headers()), Some("INTERNAL"));
        assert!(layer.is_idle());
        assert!(scrape(&metrics).contains("antares_calls_in_progress 0"));
    }

    async fn never(_: Request<Body>) -> Result<Response<Body>, Status> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_call_ends_at_its_deadline_and_without_one_at_the_server_s() {
        let (layer, _metrics) = layer(1);
        for (timeout, expected) in [("20m", 20), ("1H", 500)] {
            let mut request = request("/a/b");
            request.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
            let started = Instant::now();
            let response = layer.layer(service_fn(never)).call(request).await.unwrap();
            assert_eq!(code_in(response.headers()), Some("DEADLINE_EXCEEDED"));
            assert!(started.elapsed() >= Duration::from_millis(expected));
        }
    }

    #[tokio::test]
    async fn a_dropped_call_was_cancelled() {
        let (layer, metrics) = layer(1);
        drop(layer.layer(service_fn(ok)).call(request("/a/b")));
        assert!(scrape(&metrics).contains("rpc_response_status_code=\"CANCELLED\"} 1"));
    }
}
