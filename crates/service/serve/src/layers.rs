//! The layers of every call, from the outside in; each is a separate file:
//!
//! | layer | does |
//! |---|---|
//! | [`grpc_only`] | answers requests that are no gRPC calls in HTTP |
//! | [`context`] | creates the [`CallContext`]: method, peer, deadline |
//! | [`authenticate`] | waits for a token's key that the issuer has just begun to use |
//! | [`authenticate`] | identifies the caller, its permissions and the call's account |
//! | [`outcome`] | observes the call's end, and runs the actions of inner layers then |
//! | [`trace`] | a span within the caller's trace, a log line at the end |
//! | [`metrics`] | calls in progress, durations by method and status |
//! | [`audit`] | a line for calls that need a role, are refused, or use resources |
//! | [`authorize`] | refuses strangers, invalid timeouts, and calls that cannot be audited as required |
//! | [`concurrency_limit`] | takes slots of the server, peer and tenant; delays errors about quotas |
//! | [`deadline`] | ends the call at its deadline |
//! | [`body_budget`] | charges the bytes of request and response |
//! | [`catch_panic`] | a panic fails only its own call |
//!
//! Refused calls are traced, counted and logged like all others: refusing layers are inside observing ones.
//! A new layer is a file here with an [`around::Check`] or an [`around::Around`], a row above, and a line in
//! [`Layers::around`].

pub(crate) mod around;
mod audit;
mod authenticate;
mod authorize;
mod body_budget;
mod catch_panic;
mod concurrency_limit;
mod context;
mod deadline;
mod grpc_only;
mod metrics;
mod outcome;
mod trace;

use std::sync::Arc;

use antares_config::{CallerSource, Config, ConfigError};
use tokio::sync::watch;
use tower::ServiceExt as _;

use self::{
    around::{Answering, Checked, Rest, surround},
    audit::Audit,
    authenticate::Authenticate,
    authorize::Authorize,
    body_budget::BodyBudget,
    catch_panic::CatchPanic,
    concurrency_limit::ConcurrencyLimit,
    context::Context,
    deadline::Deadline,
    grpc_only::GrpcOnly,
    metrics::Measure,
    outcome::Outcome,
    trace::Trace,
};
pub use self::{
    authenticate::CALLER,
    concurrency_limit::SharedPlaces,
    context::{CallContext, Proven},
    outcome::AnsweredElsewhere,
};
use crate::layers::deadline::Stopping;
use crate::{
    account::Accounts, audit::Auditor, authenticator::Authenticator, metrics::Metrics, reload,
    server::ServeError,
};

/// Common state of a server's calls.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    context: Context,
    /// Closes connections and ends sessions after their work in progress.
    pub(crate) closing: Arc<watch::Sender<bool>>,
    authenticate: Authenticate,
    measure: Measure,
    auditor: Option<Arc<Auditor>>,
    pub(crate) concurrency_limit: ConcurrencyLimit,
    body_budget: BodyBudget,
    /// Ends all calls with a status.
    pub(crate) stopping: Stopping,
}

impl Layers {
    /// For the methods in the encoded descriptor sets, with the limits of `listen` and authentication.
    ///
    /// # Errors
    /// A descriptor set does not decode, or key files or the audit log are unusable.
    pub(crate) fn new(descriptors: &[&[u8]], config: &Config, metrics: &Metrics) -> Result<Self, ServeError> {
        let closing = Arc::new(watch::Sender::new(false));
        let Config { listen, auth, tenancy, admin, audit, callers, .. } = config;
        let context = Context::new(descriptors, listen, closing.subscribe())?;
        let accounts = Arc::new(Accounts::new(tenancy, metrics));
        let authenticator = Authenticator::new(auth, metrics)?;
        let authenticate = Authenticate::new(authenticator, accounts.clone(), admin.loopback);
        if let Some(source) = callers {
            follow(source, &authenticate, &accounts, metrics);
        }
        Ok(Self {
            measure: Measure::new(metrics, context.own_methods()),
            context,
            closing,
            concurrency_limit: ConcurrencyLimit::new(listen, metrics),
            body_budget: BodyBudget::new(listen, metrics),
            auditor: Auditor::start(audit, metrics).map_err(ServeError::Audit)?,
            authenticate,
            stopping: Stopping::default(),
        })
    }

    /// Wraps `service` in all layers.
    pub(crate) fn around<S: Rest>(&self, service: S) -> impl Rest + use<S> {
        let rest = service.map_future(|answering| Box::pin(answering) as Answering);
        let rest = surround(CatchPanic, rest);
        let rest = surround(self.body_budget.clone(), rest);
        let rest = surround(Deadline(self.stopping.clone()), rest);
        let rest = surround(self.concurrency_limit.clone(), rest);
        let rest = surround(Checked(Authorize(self.auditor.clone())), rest);
        let rest = surround(Checked(Audit(self.auditor.clone())), rest);
        let rest = surround(Checked(self.measure.clone()), rest);
        let rest = surround(Trace, rest);
        let rest = surround(Outcome(self.stopping.clone()), rest);
        let rest = surround(Checked(self.authenticate.clone()), rest);
        let rest = self.authenticate.keys_first(rest);
        let rest = surround(Checked(self.context.clone()), rest);
        surround(GrpcOnly, rest)
    }

    /// Waits a bounded time for the last lines of the audit log.
    pub(crate) async fn flush(&self) {
        if let Some(auditor) = self.auditor.clone() {
            // Errors there are logged.
            let _ = tokio::task::spawn_blocking(move || auditor.flush()).await;
        }
    }
}

/// Makes rules, quotas and isolation follow the configuration file.
fn follow(source: &CallerSource, authenticate: &Authenticate, accounts: &Arc<Accounts>, metrics: &Metrics) {
    let (source, authenticate, accounts) = (source.clone(), authenticate.clone(), accounts.clone());
    reload::watch("rules", vec![source.path().to_owned()], metrics, move || {
        let (auth, tenancy, is_all) = source.read()?;
        authenticate.authenticator.set_rules(auth.rules);
        accounts.set_tenancy(tenancy);
        if !is_all {
            tracing::warn!("only auth.rules, [quotas] and [tenants] take force before the next start");
        }
        Ok::<_, ConfigError>(())
    });
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        time::{Duration, Instant},
    };

    use http::{Request, Response};
    use tonic::{Status, body::Body};
    use tower::{Service as _, service_fn};

    use super::*;
    use antares_config::{ConfigFile, Role};

    use crate::status::{code_in, reason_in};

    fn layers() -> (Layers, Metrics) {
        let metrics = Metrics::new();
        let sets: [&[u8]; 1] = [tonic_health::pb::FILE_DESCRIPTOR_SET];
        let mut config = ConfigFile::default().check(Role::Both, &[]).unwrap();
        (config.listen.calls_max, config.listen.call_time_max) = (1, Duration::from_millis(500));
        (Layers::new(&sets, &config, &metrics).unwrap(), metrics)
    }

    fn request(path: &str) -> Request<Body> {
        let builder = Request::builder().method("POST").uri(path);
        builder.header("content-type", "application/grpc").body(Body::empty()).unwrap()
    }

    fn scrape(metrics: &Metrics) -> String {
        String::from_utf8(metrics.text().unwrap()).unwrap()
    }

    async fn ok(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        Ok(Status::ok("").into_http())
    }

    async fn panics(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        panic!("for the test")
    }

    #[tokio::test]
    async fn unknown_methods_share_one_label() {
        let (layers, metrics) = layers();
        for path in ["/evil/1", "/evil/2", "/grpc.health.v1.Health/Check"] {
            layers.around(service_fn(ok)).call(request(path)).await.unwrap();
        }
        let text = scrape(&metrics);
        let count = |method| format!("_count{{rpc_method=\"{method}\",rpc_response_status_code=\"OK\"}}");
        assert!(text.contains(&format!("{} 2", count("_OTHER"))), "{text}");
        assert!(text.contains(&format!("{} 1", count("grpc.health.v1.Health/Check"))), "{text}");
    }

    #[tokio::test]
    async fn a_timeout_that_is_none_is_the_caller_s_mistake() {
        let (layers, _metrics) = layers();
        let wrong = Some("TIMEOUT_MALFORMED");
        for (values, reason) in [(&["1x"][..], wrong), (&["1S", "2S"], wrong), (&["10S"], None)] {
            let mut request = request("/a/b");
            for value in values {
                request.headers_mut().append("grpc-timeout", value.parse().unwrap());
            }
            let answer = layers.around(service_fn(ok)).call(request).await.unwrap();
            assert_eq!(reason_in(answer.headers()).as_deref(), reason, "{values:?}");
        }
    }

    #[tokio::test]
    async fn a_panic_fails_its_own_call() {
        let (layers, metrics) = layers();
        let response = layers.around(service_fn(panics)).call(request("/a/b")).await.unwrap();
        assert_eq!(code_in(response.headers()), Some("INTERNAL"));
        assert!(layers.concurrency_limit.is_idle());
        assert!(scrape(&metrics).contains("antares_calls_in_progress 0"));
    }

    async fn never(_: Request<Body>) -> Result<Response<Body>, Infallible> {
        std::future::pending().await
    }

    #[tokio::test]
    async fn a_call_ends_at_its_deadline_and_without_one_at_the_server_s() {
        let (layers, _metrics) = layers();
        for (timeout, expected) in [("20m", 20), ("1H", 500)] {
            let mut request = request("/a/b");
            request.headers_mut().insert("grpc-timeout", timeout.parse().unwrap());
            let started = Instant::now();
            let response = layers.around(service_fn(never)).call(request).await.unwrap();
            assert_eq!(code_in(response.headers()), Some("DEADLINE_EXCEEDED"));
            assert!(started.elapsed() >= Duration::from_millis(expected));
        }
    }
}
