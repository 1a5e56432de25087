//! Binds, serves and drains: one gRPC listener for any set of services, with health, reflection and metrics beside them.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use tokio::{net::TcpListener, time::Instant};
use tonic::{service::Routes, transport};
use tonic_reflection::server as reflection;

use crate::{
    config::Listen,
    health::Health,
    http,
    listener::{bind, connections},
    metrics::Metrics,
    page::Page,
    rpc::RpcLayer,
};

/// After the last call has ended: how long connections may take to close before they are dropped. Peers that are gone
/// without a word, and health watchers, never close theirs.
const LINGER: Duration = Duration::from_millis(500);

/// How often draining looks whether calls are in progress.
const DRAIN_STEP: Duration = Duration::from_millis(20);

/// What a process serves.
#[derive(Debug)]
pub struct App {
    /// The services.
    pub routes: Routes,
    /// Their full names, for health.
    pub services: Vec<&'static str>,
    /// Their encoded descriptor set.
    pub descriptors: &'static [u8],
    /// Pages beside `/metrics`.
    pub pages: Vec<Page>,
}

/// Why a server could not start or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot listen on {key} {address}")]
    Bind {
        /// The key of the configuration.
        key: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The descriptors of the services do not decode.
    #[error("the descriptors of the services do not decode")]
    Descriptors(#[from] prost::DecodeError),
    /// Reflection cannot be offered for these descriptors.
    #[error("reflection cannot be offered")]
    Reflection(#[from] reflection::Error),
    /// The listener failed.
    #[error("the gRPC listener failed")]
    Transport(#[from] transport::Error),
}

/// A server that is bound and does not serve yet.
#[derive(Debug)]
pub struct Server {
    listen: Listen,
    layer: RpcLayer,
    routes: Routes,
    grpc: TcpListener,
    http: Option<TcpListener>,
    metrics: Metrics,
    health: Health,
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    pages: Vec<Page>,
}

impl Server {
    /// Binds both listeners. The services are NOT_SERVING until [`Health::set`] says otherwise.
    ///
    /// # Errors
    /// An address cannot be had.
    pub async fn bind(
        listen: &Listen,
        metrics_address: Option<SocketAddr>,
        app: App,
        metrics: Metrics,
    ) -> Result<Self, ServeError> {
        let (reporter, health_service) = tonic_health::server::health_reporter();
        let health = Health::new(reporter, &app.services).await;
        let sets: [&[u8]; 4] = [
            app.descriptors,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ];
        let layer = RpcLayer::new(&sets, listen.calls_max, listen.call_time_max, &metrics)?;
        let builder = || {
            let builder = reflection::Builder::configure()
                .register_encoded_file_descriptor_set(app.descriptors)
                // What the details of errors are.
                .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET)
                .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
                .with_service_name("grpc.health.v1.Health");
            app.services.iter().fold(builder, |builder, &service| builder.with_service_name(service))
        };
        let routes = app
            .routes
            .add_service(health_service)
            .add_service(builder().with_service_name("grpc.reflection.v1.ServerReflection").build_v1()?)
            .add_service(
                builder().with_service_name("grpc.reflection.v1alpha.ServerReflection").build_v1alpha()?,
            );
        let (grpc, address) = bind_at("listen.address", listen.address).await?;
        let http = match metrics_address {
            Some(address) => Some(bind_at("metrics.address", address).await?),
            None => None,
        };
        let metrics_address = http.as_ref().map(|(_, address)| *address);
        let http = http.map(|(listener, _)| listener);
        let (listen, pages) = (listen.clone(), app.pages);
        Ok(Self { listen, layer, routes, grpc, http, metrics, health, address, metrics_address, pages })
    }

    /// Where gRPC is served.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where `/metrics` and `/healthz` are served, if they are.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// To say which services serve.
    #[must_use]
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Serves until `stop`, then drains: health says NOT_SERVING, the listener closes, calls in progress may end. Returns
    /// when they have, or when the grace is over, whatever peers do. What is still open then ends with the runtime.
    ///
    /// # Errors
    /// The listener fails.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let listen = self.listen;
        let (close, closed) = tokio::sync::oneshot::channel::<()>();
        let grpc = transport_of(&listen)
            .layer(self.layer.clone())
            .add_routes(self.routes)
            .serve_with_incoming_shutdown(
                connections(self.grpc, listen.connections_max, listen.keepalive_timeout),
                async {
                    // A dropped sender means the same.
                    let _ = closed.await;
                },
            );
        let grpc = tokio::spawn(grpc);
        let http = self.http.map(|listener| {
            let router = http::router(self.metrics.clone(), self.health.clone());
            let router = self.pages.iter().cloned().fold(router, |router, page| page.add_to(router));
            tokio::spawn(axum::serve(listener, router).into_future())
        });
        let mut grpc = grpc;
        tokio::select! {
            ended = &mut grpc => return joined(ended),
            () = stop => {}
        }
        tracing::info!("draining");
        self.health.drain().await;
        tokio::time::sleep(listen.drain_delay).await;
        drop(close);
        let result = tokio::select! {
            ended = &mut grpc => joined(ended),
            () = quiet(&self.layer, listen.drain_grace) => Ok(()),
        };
        grpc.abort();
        if let Some(http) = http {
            http.abort();
        }
        tracing::info!(calls_ended = self.layer.is_idle(), "drained");
        result
    }
}

fn transport_of(listen: &Listen) -> transport::Server {
    transport::Server::builder()
        .max_concurrent_streams(listen.streams_per_connection_max)
        .http2_keepalive_interval(Some(listen.keepalive_interval))
        .http2_keepalive_timeout(Some(listen.keepalive_timeout))
        .http2_max_pending_accept_reset_streams(Some(listen.pending_resets_max))
        .http2_max_header_list_size(listen.header_bytes_max)
        // Windows for chunks of some hundred KiB; memory per connection stays below 1 MiB plus what is being handled.
        .initial_stream_window_size(512 << 10)
        .initial_connection_window_size(1 << 20)
}

async fn bind_at(key: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let error = |source| ServeError::Bind { key, address, source };
    let listener = bind(address).await.map_err(error)?;
    let bound = listener.local_addr().map_err(error)?;
    Ok((listener, bound))
}

fn joined(ended: Result<Result<(), transport::Error>, tokio::task::JoinError>) -> Result<(), ServeError> {
    match ended {
        Ok(result) => Ok(result?),
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Until no call is in progress and connections had a moment to close, or until `grace` is over.
async fn quiet(layer: &RpcLayer, grace: Duration) {
    let end = Instant::now() + grace;
    let mut idle_since = None;
    while Instant::now() < end {
        match (layer.is_idle(), idle_since) {
            (false, _) => idle_since = None,
            (true, None) => idle_since = Some(Instant::now()),
            (true, Some(since)) if since.elapsed() >= LINGER => return,
            (true, Some(_)) => {}
        }
        tokio::time::sleep(DRAIN_STEP).await;
    }
}

/// Until SIGTERM or SIGINT. A second one ends the process at once.
///
/// # Errors
/// Signals cannot be had.
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
