//! Proxies the compiler's services frame by frame, so that callers need only the runner's address. The proxy
//! authorizes callers; the compiler charges their cost.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use antares_client::{balance::Balance, credentials::Credentials};
use antares_proto::v1::{
    compiler_service_server::CompilerServiceServer, operation_service_server::OperationServiceServer,
};
use antares_serve::{AnsweredElsewhere, CALLER, CallContext, Fault, SharedPlaces};
use axum::{Router, routing::any};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Version, header};
use http_body_util::{BodyExt as _, BodyStream, StreamBody};
use tokio_stream::StreamExt as _;
use tonic::{Status, body::Body, codegen::Service, server::NamedService as _, service::Routes};

use crate::{grpc::status::RETRY_SOURCE, limits::PROXIED_CALLS_MAX, source::remote::tenant_of};

/// The compiler services that callers can use.
pub(crate) const PROXIED: [&str; 2] = [CompilerServiceServer::<()>::NAME, OperationServiceServer::<()>::NAME];

/// Proxy for these calls. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct CompilerProxy(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Own connections: a caller that reads no answers delays no other call of the runner.
    compilers: Balance,
    credentials: Credentials,
    places: SharedPlaces,
}

impl CompilerProxy {
    pub(crate) fn new(compilers: Balance, credentials: Credentials) -> Self {
        Self(Arc::new(Inner { compilers, credentials, places: SharedPlaces::new(PROXIED_CALLS_MAX) }))
    }

    pub(crate) fn add_to(&self, routes: Routes) -> Routes {
        let proxy = self.clone();
        let answer = any(move |request: Request<axum::body::Body>| async move {
            proxy.answer(request.map(Body::new)).await.unwrap_or_else(Status::into_http)
        });
        let add = |router: Router, name| router.route(&format!("/{name}/{{*rest}}"), answer.clone());
        PROXIED.into_iter().fold(routes.into_axum_router(), add).into()
    }

    /// Whether the last call to at least one compiler reached it.
    pub(crate) fn is_open(&self) -> bool {
        self.0.compilers.servers().iter().any(|server| !server.circuit().is_open())
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, Status> {
        let call = request.extensions().get().cloned().unwrap_or_else(CallContext::outside);
        self.0.places.admit(&call)?;
        let account = call.account();
        // A caller's uploads and operations exist only on the compiler where they began.
        let server = self.0.compilers.ranked(&account.identity().0).into_iter().next();
        let server = server.ok_or_else(unreachable)?;
        let mistake = Arc::new(OnceLock::new());
        let credentials = Credentials { tenant: tenant_of(&account), ..self.0.credentials.clone() };
        let mut connection = credentials.on(server.channel());
        let onward = onward(request, &call, mistake.clone());
        let sent = async {
            std::future::poll_fn(|context| Service::poll_ready(&mut connection, context)).await?;
            connection.call(onward).await
        };
        match sent.await {
            Ok(answer) => {
                server.circuit().answered();
                let mut answer = answer.map(|body| until_lost(Body::new(body)));
                answer.extensions_mut().insert(AnsweredElsewhere);
                Ok(answer)
            }
            Err(error) => Err(mistake.get().cloned().unwrap_or_else(|| {
                tracing::debug!(%error, "a compiler service is not reached");
                server.circuit().open();
                unreachable()
            })),
        }
    }
}

/// `request` as the compiler gets it, with only the headers that it reads. `mistake` gets the error that ends
/// the body, if any.
fn onward(request: Request<Body>, call: &CallContext, mistake: Arc<OnceLock<Status>>) -> Request<Body> {
    let (head, body) = request.into_parts();
    let body = body.map_err(move |status| {
        let _ = mistake.set(status.clone());
        status
    });
    let mut onward = Request::new(Body::new(body));
    (*onward.method_mut(), *onward.uri_mut(), *onward.version_mut()) =
        (Method::POST, head.uri, Version::HTTP_2);
    let headers = onward.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    headers.extend(call.deadline.map(|deadline| (TIMEOUT, timeout(deadline))));
    headers.extend(call.who().map(|who| (header::HeaderName::from_static(CALLER), who)));
    onward
}

/// The header with the call's timeout.
const TIMEOUT: header::HeaderName = header::HeaderName::from_static("grpc-timeout");

/// Longest timeout that the header can carry, milliseconds.
const TIMEOUT_MS_MAX: u128 = 99_999_999;

fn timeout(deadline: Instant) -> HeaderValue {
    let left: Duration = deadline.saturating_duration_since(Instant::now());
    let value = format!("{}m", left.as_millis().clamp(1, TIMEOUT_MS_MAX));
    HeaderValue::from_str(&value).expect("digits and a letter")
}

/// `body`, which ends with a status if its connection is lost.
fn until_lost(body: Body) -> Body {
    let frames = BodyStream::new(body).map(|frame| {
        Ok::<_, Status>(frame.unwrap_or_else(|_| {
            let mut trailers: HeaderMap = unreachable().into_http::<()>().into_parts().0.headers;
            trailers.remove(header::CONTENT_TYPE);
            http_body::Frame::trailers(trailers)
        }))
    });
    Body::new(StreamBody::new(frames))
}

fn unreachable() -> Status {
    Fault::unavailable("SOURCE_UNAVAILABLE", "the compiler service cannot be reached", RETRY_SOURCE).into()
}
