//! Health of each service: one source for gRPC health checks and `/healthz`.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use tonic::{Request, Response, Status, async_trait, codegen::BoxStream};
use tonic_health::{
    ServingStatus,
    pb::{
        HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus as Answer,
        health_server,
    },
    server::{HealthReporter, HealthService},
};

use crate::{metrics::Metrics, status::is_not_found, tasks};

/// Service name for liveness probes: SERVING depends on the process alone, not on workers or draining. It
/// does not serve if only a restart helps.
pub const LIVENESS: &str = "liveness";

/// The calls of `grpc.health.v1.Health`.
#[derive(Debug)]
pub(crate) struct Calls(pub(crate) HealthService);

#[async_trait]
impl health_server::Health for Calls {
    type WatchStream = BoxStream<HealthCheckResponse>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    /// An unknown service may appear later: the protocol requires an open stream that reports it, where the
    /// library would end it. All our services are known from the start.
    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        match self.0.watch(request).await {
            Ok(known) => Ok(known.map(|known| known.boxed())),
            Err(status) if is_not_found(&status) => {
                let unknown = HealthCheckResponse { status: Answer::ServiceUnknown.into() };
                Ok(Response::new(stream::once(async move { Ok(unknown) }).chain(stream::pending()).boxed()))
            }
            Err(status) => Err(status),
        }
    }
}

/// Health of a process's services. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Health {
    reporter: HealthReporter,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    ready: BTreeMap<&'static str, bool>,
    /// Services of other servers: the process serves without them.
    elsewhere: BTreeMap<&'static str, bool>,
    draining: bool,
    /// Current problems that only a restart solves.
    beyond_help: BTreeSet<&'static str>,
}

impl Health {
    /// No service of `services` serves yet.
    pub(crate) async fn new(reporter: HealthReporter, services: &[&'static str]) -> Self {
        let ready = services.iter().map(|&service| (service, false)).collect();
        let health = Self { reporter, state: Arc::new(Mutex::new(State { ready, ..State::default() })) };
        health.reporter.set_service_status(LIVENESS, ServingStatus::Serving).await;
        health.publish().await;
        health
    }

    /// Sets whether `service` can work now. After draining starts, nothing serves.
    pub async fn set(&self, service: &'static str, ready: bool) {
        let before = self.state.lock().ready.insert(service, ready);
        if before != Some(ready) {
            tracing::info!(service, ready, "health changed");
        }
        self.publish().await;
    }

    /// Sets whether `service`, on another server, is reachable.
    pub async fn set_elsewhere(&self, service: &'static str, reached: bool) {
        {
            let mut state = self.state.lock();
            state.ready.remove(service);
            state.elsewhere.insert(service, reached);
        }
        self.publish().await;
    }

    /// Sets whether `what` cannot recover by itself: then liveness fails, so that the supervisor restarts the
    /// process.
    pub async fn set_beyond_help(&self, what: &'static str, is_beyond_help: bool) {
        let is_new = {
            let mut state = self.state.lock();
            if is_beyond_help { state.beyond_help.insert(what) } else { state.beyond_help.remove(what) }
        };
        if is_new {
            if is_beyond_help {
                tracing::error!(what, "only a restart helps; liveness fails");
            }
            let status =
                if self.ailment().is_none() { ServingStatus::Serving } else { ServingStatus::NotServing };
            self.reporter.set_service_status(LIVENESS, status).await;
        }
    }

    /// A problem that only a restart solves, if any.
    pub(crate) fn ailment(&self) -> Option<&'static str> {
        let state = self.state.lock();
        state.beyond_help.first().copied().or_else(tasks::stalled)
    }

    /// Stops all services.
    pub(crate) async fn drain(&self) {
        self.state.lock().draining = true;
        self.publish().await;
    }

    /// Whether every service serves.
    pub(crate) fn is_serving(&self) -> bool {
        let state = self.state.lock();
        !state.draining && state.ready.values().all(|&ready| ready)
    }

    /// The services, with their state.
    pub(crate) fn services(&self) -> Vec<(&'static str, bool)> {
        let state = self.state.lock();
        let all = state.ready.iter().chain(&state.elsewhere);
        all.map(|(&service, &ready)| (service, ready && !state.draining)).collect()
    }

    /// Exports the results of health checks in `/metrics`.
    pub(crate) fn show(&self, metrics: &Metrics) {
        let family = metrics.gauges(
            "antares_serving",
            "1 while the service says SERVING to health checks, 0 while it refuses its calls.",
            &["service"],
        );
        let health = self.clone();
        metrics.before_scrape(move || {
            for (service, serving) in health.services() {
                family.with_label_values(&[service]).set(serving.into());
            }
        });
    }

    async fn publish(&self) {
        let statuses = self.services();
        for (service, serving) in statuses.into_iter().chain([("", self.is_serving())]) {
            let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
            self.reporter.set_service_status(service, status).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_watcher_of_an_unknown_service_is_informed_and_stays() {
        use futures_util::FutureExt as _;
        use health_server::Health as _;
        let (reporter, _service) = tonic_health::server::health_reporter();
        reporter.set_service_status("known", ServingStatus::Serving).await;
        let calls = Calls(HealthService::from_health_reporter(reporter.clone()));
        let asked = |name: &str| Request::new(HealthCheckRequest { service: name.to_owned() });
        for (name, expected) in [("known", Answer::Serving), ("unknown", Answer::ServiceUnknown)] {
            let mut watched = calls.watch(asked(name)).await.unwrap().into_inner();
            assert_eq!(watched.next().await.unwrap().unwrap().status(), expected, "{name}");
            // An end would arrive at once.
            let more = watched.next().now_or_never();
            assert!(more.is_none(), "{name}: {more:?}");
        }
        assert!(is_not_found(&calls.check(asked("unknown")).await.unwrap_err()));
    }

    #[tokio::test]
    async fn liveness_fails_where_only_a_restart_helps() {
        let (reporter, _service) = tonic_health::server::health_reporter();
        let health = Health::new(reporter, &["service"]).await;
        health.set("service", true).await;
        assert_ne!(health.ailment(), Some("workers"));
        health.set_beyond_help("workers", true).await;
        // Readiness is separate.
        assert!(health.is_serving());
        assert_eq!(health.ailment(), Some("workers"));
        health.set_beyond_help("workers", false).await;
        assert_ne!(health.ailment(), Some("workers"));
    }
}
