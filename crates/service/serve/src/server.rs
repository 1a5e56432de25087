//! Binds, serves and drains: one gRPC listener for any set of services, plus health, reflection and metrics.

use std::{
    io,
    net::SocketAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use antares_config::{Config, Listen};
use antares_tls::TlsError;
use axum::middleware;
use tokio::{net::TcpListener, time::Instant};
use tonic::service::Routes;
use tonic_health::{
    pb::health_server::HealthServer,
    server::{HealthReporter, HealthService},
};
use tonic_reflection::server as reflection;

use crate::{
    admin_socket::{self, AdminSocket},
    connections::Connections,
    handshake::Acceptor,
    health::{Calls, Health},
    http::{self, HttpListener},
    key_set::JwksError,
    layers::Layers,
    log_writer,
    metrics::Metrics,
    page::{Page, PageHosts},
    tasks,
    transport::{self, LINGER, Protocol, Way},
    web::WebLayer,
};

/// Interval of checks for calls in progress while draining.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// Time to send the statuses of calls that the end of the process ends: a quarter of the grace, at most this.
const ANSWERS_SENT: Duration = Duration::from_secs(2);

/// Contents of a server.
pub struct App {
    pub routes: Routes,
    /// Their full names, for health.
    pub services: Vec<&'static str>,
    /// Their encoded descriptor set.
    pub descriptors: &'static [u8],
    /// Pages in addition to `/metrics`.
    pub pages: Vec<Page>,
}

/// Why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be bound.
    #[error("cannot listen on {0} {1}")]
    Bind(&'static str, SocketAddr, #[source] io::Error),
    /// The admin socket cannot be bound.
    #[error("admin.socket {0}: {1}")]
    Socket(PathBuf, #[source] io::Error),
    /// The listener has ended.
    #[error("the listener has ended")]
    Ended,
    /// The descriptors of the services do not decode.
    #[error("the descriptors of the services do not decode")]
    Descriptors(#[from] prost::DecodeError),
    /// The descriptors do not fit together.
    #[error("the descriptors of the services do not fit together")]
    Forms(#[from] prost_reflect::DescriptorError),
    /// The TLS files are invalid.
    #[error("[tls]")]
    Tls(#[from] TlsError),
    /// The audit log cannot be opened.
    #[error("audit.target")]
    Audit(#[source] io::Error),
    /// The token keys are invalid.
    #[error("auth.jwks")]
    Jwks(#[from] JwksError),
    /// Reflection does not support these descriptors.
    #[error("reflection cannot be offered")]
    Reflection(#[from] reflection::Error),
}

/// A bound server that does not serve yet.
pub struct Server {
    listen: Listen,
    door: Acceptor,
    layers: Layers,
    routes: Routes,
    grpc: Bound,
    admin: Option<AdminSocket>,
    web: Option<(Bound, WebLayer)>,
    http: Option<Bound>,
    metrics: Metrics,
    health: Health,
    pages: Vec<Page>,
}

/// A listener and its address.
type Bound = (TcpListener, SocketAddr);

impl Server {
    /// Binds both listeners. Services are NOT_SERVING until [`Health::set`] changes that.
    ///
    /// # Errors
    /// An address cannot be bound, or TLS files are invalid.
    pub async fn bind(config: &Config, app: App, metrics: Metrics) -> Result<Self, ServeError> {
        let listen = &config.listen;
        let reporter = HealthReporter::new();
        let health_service = HealthServer::new(Calls(HealthService::from_health_reporter(reporter.clone())));
        let health = Health::new(reporter, &app.services).await;
        health.show(&metrics);
        let sets: [&[u8]; 4] = [
            app.descriptors,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let layers = Layers::new(&sets, config, &metrics)?;
        let builder = || {
            let builder = reflection::Builder::configure()
                .register_encoded_file_descriptor_set(app.descriptors)
                // Types of errors' details.
                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .with_service_name("grpc.health.v1.Health");
            app.services.iter().fold(builder, |builder, &service| builder.with_service_name(service))
        };
        let mut routes = app.routes.add_service(health_service);
        let v1 = builder().with_service_name("grpc.reflection.v1.ServerReflection").build_v1()?;
        let v1alpha =
            builder().with_service_name("grpc.reflection.v1alpha.ServerReflection").build_v1alpha()?;
        routes = routes.add_service(v1).add_service(v1alpha);
        log_writer::watch(&metrics);
        tasks::watch(&metrics);
        let door = Acceptor::new(config.tls.as_ref(), &metrics)?;
        let grpc = bind_at("listen.address", listen.address).await?;
        let admin = config.admin.socket.as_deref().map(AdminSocket::bind).transpose()?;
        let web = match &listen.web {
            Some(web) => {
                let layer = WebLayer::new(app.descriptors, &web.origins, listen.message_bytes_max)?;
                Some((bind_at("web.address", web.address).await?, layer))
            }
            None => None,
        };
        let http = match config.metrics {
            Some(address) => Some(bind_at("metrics.address", address).await?),
            None => None,
        };
        let (listen, pages) = (listen.clone(), app.pages);
        Ok(Self { listen, door, layers, routes, grpc, admin, web, http, metrics, health, pages })
    }

    /// The gRPC address.
    pub fn address(&self) -> SocketAddr {
        self.grpc.1
    }

    /// The address of gRPC-web and JSON, if enabled.
    pub fn web_address(&self) -> Option<SocketAddr> {
        self.web.as_ref().map(|((_, address), _)| *address)
    }

    /// The address of `/metrics` and `/healthz`, if enabled.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(_, address)| *address)
    }

    /// For setting the health of services.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Serves until `stop`, then drains: health turns NOT_SERVING, the listener closes, calls in progress may
    /// end. Returns when they have, or when the grace is over, whatever peers do. The runtime's end closes
    /// the rest.
    ///
    /// # Errors
    /// The listener ended by itself: the rest is drained all the same, and a supervisor restarts the process.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let listen = self.listen;
        let closing = self.layers.closing.subscribe();
        let connections = |listener| {
            let most = (listen.connections_max(), listen.connections_per_peer_max());
            Arc::new(Connections::new(listener, most.0, most.1, &self.metrics))
        };
        let service = self.layers.around(self.routes.prepare());
        let mut web = self.web.map(|((listener, _), layer)| {
            let way = Way { listener, protocol: Protocol::Web, door: self.door.clone().for_web() };
            let service = layer.around(service.clone());
            tokio::spawn(transport::serve(way, listen.clone(), connections("web"), service, closing.clone()))
        });
        if let Some(socket) = self.admin {
            let most = admin_socket::CONNECTIONS_MAX;
            let places = Arc::new(Connections::new("admin", most, most, &self.metrics));
            // It ends with the process: an operator who starts the drain may watch it.
            let calls = admin_socket::serve(socket, listen.clone(), places, service.clone(), closing.clone());
            tokio::spawn(calls);
        }
        let way = Way { listener: self.grpc.0, protocol: Protocol::Grpc, door: self.door };
        let mut grpc =
            tokio::spawn(transport::serve(way, listen.clone(), connections("grpc"), service, closing));
        let mut http = self.http.map(|(listener, _)| {
            let listener = HttpListener::new(listener, &self.metrics);
            let router = http::router(self.metrics.clone(), self.health.clone());
            let router = self.pages.iter().cloned().fold(router, |router, page| page.add_to(router));
            let hosts = PageHosts(listen.page_hosts.clone());
            let pass = middleware::from_fn(move |request, next| hosts.clone().pass(request, next));
            let router = router.layer(pass);
            tokio::spawn(axum::serve(listener, router).into_future())
        });
        let result = tokio::select! {
            () = stop => Ok(()),
            _ = &mut grpc => Err(ServeError::Ended),
            () = end_of(web.as_mut()) => Err(ServeError::Ended),
            () = end_of(http.as_mut()) => Err(ServeError::Ended),
        };
        tracing::info!("draining");
        self.health.drain().await;
        tokio::time::sleep(listen.drain_delay).await;
        self.layers.closing.send_replace(true);
        let all_closed = async {
            if !grpc.is_finished() {
                let _ = (&mut grpc).await;
            }
            if let Some(web) = web.as_mut().filter(|web| !web.is_finished()) {
                let _ = web.await;
            }
        };
        let all_ended = async {
            let to_send = ANSWERS_SENT.min(listen.drain_grace / 4);
            if !quiet(&self.layers, listen.drain_grace - to_send).await {
                self.layers.stopping.end_calls();
                quiet(&self.layers, to_send).await;
            }
        };
        tokio::select! {
            () = all_closed => {}
            () = all_ended => {}
        }
        let http = http.map(|http| http.abort_handle());
        let grpc = [Some(grpc.abort_handle()), web.map(|web| web.abort_handle()), http];
        grpc.into_iter().flatten().for_each(|listener| listener.abort());
        self.layers.flush().await;
        tracing::info!(calls_ended = self.layers.concurrency_limit.is_idle(), "drained");
        result
    }
}

async fn bind_at(key: &'static str, address: SocketAddr) -> Result<Bound, ServeError> {
    let error = |source| ServeError::Bind(key, address, source);
    let listener = TcpListener::bind(address).await.map_err(error)?;
    let bound = listener.local_addr().map_err(error)?;
    Ok((listener, bound))
}

/// Waits for the end of `task`, if any.
async fn end_of<T>(task: Option<&mut tokio::task::JoinHandle<T>>) {
    match task {
        Some(task) => drop(task.await),
        None => std::future::pending().await,
    }
}

/// Waits until no call is in progress and connections had a moment to close (true), or until `grace` is over.
async fn quiet(layers: &Layers, grace: Duration) -> bool {
    let end = Instant::now() + grace;
    let mut idle_since = None;
    while Instant::now() < end {
        match (layers.concurrency_limit.is_idle(), idle_since) {
            (false, _) => idle_since = None,
            (true, None) => idle_since = Some(Instant::now()),
            (true, Some(since)) if since.elapsed() >= LINGER => return true,
            (true, Some(_)) => {}
        }
        tokio::time::sleep(DRAIN_STEP).await;
    }
    false
}

/// Ends this process like SIGTERM, but only once: a second signal would kill it.
///
/// # Errors
/// The system does not allow it.
pub fn drain() -> io::Result<()> {
    static IS_DRAINING: AtomicBool = AtomicBool::new(false);
    if IS_DRAINING.swap(true, Ordering::AcqRel) {
        return Ok(());
    }
    Ok(rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)?)
}

/// Waits for SIGTERM or SIGINT. A second one ends the process at once.
///
/// # Errors
/// Signals are unavailable.
pub fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        wait_any(&mut terminate, &mut interrupt).await;
        tokio::spawn(async move {
            wait_any(&mut terminate, &mut interrupt).await;
            tracing::warn!("second signal, not waiting any longer");
            std::process::exit(130);
        });
    })
}

async fn wait_any(terminate: &mut tokio::signal::unix::Signal, interrupt: &mut tokio::signal::unix::Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
