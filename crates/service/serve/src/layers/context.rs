//! Metadata of a call. Layers fill it in from the outside in; services read it.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use antares_config::Listen;
use http::{HeaderValue, Request};
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::watch;
use tonic::body::Body;
use tracing::Span;

use super::{around::Check, deadline::deadline_of, outcome::Ending};
use crate::{
    account::Account,
    audit::{AuditFields, cut},
    authenticator::{Caller, Stopped},
    body::RequestBytes,
    connections::Link,
    peer::Peer,
    status::Fault,
};

/// Label of calls to unknown methods.
const OTHER: &str = "_OTHER";

/// Services that must always respond, also to autoscalers: they have separate slots and no traces.
const EXEMPT: [&str; 2] = ["grpc.health.v1.Health/", "grpc.reflection."];

/// Metadata of a call. An extension of every request; empty outside a server.
#[derive(Clone)]
pub struct CallContext {
    pub(crate) method: Arc<str>,
    /// Whether its request may have several messages.
    pub(crate) is_stream: bool,
    pub(crate) is_exempt: bool,
    /// The peer of the connection.
    pub peer: Peer,
    /// When the response must have started: the caller's `grpc-timeout`, capped by the server's limit. None
    /// outside a server.
    pub deadline: Option<Instant>,
    /// The caller, if authenticated; or why the call is refused for its caller.
    pub(crate) caller: Result<Option<Caller>, Stopped>,
    pub proven: Proven,
    pub(crate) account: Option<Account>,
    pub(crate) audit: Arc<Mutex<AuditFields>>,
    /// Budget for bytes held for the caller. None outside a server.
    pub bytes: Option<RequestBytes>,
    pub(crate) span: Span,
    pub(crate) ending: Ending,
    pub(crate) closing: Option<watch::Receiver<bool>>,
}

/// Proven or assumed rights of a caller.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proven {
    /// The role that the call needs.
    pub role: bool,
    /// The admin role, independent of the call.
    pub admin: bool,
    /// The right to act for every tenant: a gateway, a runner.
    pub any_tenant: bool,
    /// The configuration makes peers on the loopback network operators.
    pub loopback: bool,
}

impl CallContext {
    /// The context of the call of `request`.
    pub fn of<T>(request: &tonic::Request<T>) -> Self {
        request.extensions().get().cloned().unwrap_or_else(Self::outside)
    }

    /// For a call outside a server: anonymous and unlimited.
    pub fn outside() -> Self {
        Self::new(Arc::from(OTHER), false, Peer::UNKNOWN)
    }

    pub(super) fn new(method: Arc<str>, is_stream: bool, peer: Peer) -> Self {
        Self {
            is_exempt: EXEMPT.iter().any(|prefix| method.starts_with(prefix)),
            method,
            is_stream,
            peer,
            deadline: None,
            caller: Ok(None),
            proven: Proven::default(),
            account: None,
            audit: Arc::default(),
            bytes: None,
            span: Span::none(),
            ending: Ending::default(),
            closing: None,
        }
    }

    /// The context in a call's request, for layers inside [`Context`].
    ///
    /// # Panics
    /// There is none.
    pub(crate) fn in_request(request: &mut Request<Body>) -> &mut Self {
        request.extensions_mut().get_mut().expect("the layer `Context` is in front")
    }

    /// The account of the call.
    pub fn account(&self) -> Account {
        self.account.clone().unwrap_or_else(Account::nobody)
    }

    /// The caller's authenticated name, as a header value.
    pub fn who(&self) -> Option<HeaderValue> {
        let who = &self.caller.as_ref().ok()?.as_ref()?.who;
        Some(HeaderValue::from_bytes(who.as_bytes()).unwrap_or(HeaderValue::from_static("?")))
    }

    /// Waits until the server stops taking work.
    pub async fn closed(&self) {
        match self.closing.clone() {
            // The sender may be gone.
            Some(mut closing) => drop(closing.wait_for(|closing| *closing).await),
            None => std::future::pending().await,
        }
    }

    /// Sets the call's subject for the audit log: a digest, a key.
    pub fn set_subject(&self, subject: impl ToString) {
        self.audit.lock().subject = cut(subject.to_string());
    }

    /// Sets the caller's ID of the call for the audit log.
    pub fn set_request_id(&self, id: &str) {
        self.audit.lock().request_id = cut(id.to_owned());
    }
}

/// Creates the context of a call: method, peer and deadline.
#[derive(Clone, Debug)]
pub(crate) struct Context(Arc<Methods>);

#[derive(Debug)]
struct Methods {
    /// Whether each takes a stream.
    known: HashMap<Arc<str>, bool>,
    other: Arc<str>,
    call_time_max: Duration,
    run_time_max: Duration,
    closing: watch::Receiver<bool>,
}

impl Context {
    /// For the methods in the encoded descriptor sets.
    ///
    /// # Errors
    /// A descriptor set does not decode.
    pub(crate) fn new(
        descriptors: &[&[u8]],
        listen: &Listen,
        closing: watch::Receiver<bool>,
    ) -> Result<Self, prost::DecodeError> {
        let mut known = HashMap::new();
        for set in descriptors {
            known.extend(methods_of(&prost_types::FileDescriptorSet::decode(*set)?));
        }
        let Listen { call_time_max, run_time_max, .. } = *listen;
        Ok(Self(Arc::new(Methods { known, other: OTHER.into(), call_time_max, run_time_max, closing })))
    }

    /// The methods of our services.
    pub(super) fn own_methods(&self) -> impl Iterator<Item = &str> {
        self.0.known.keys().map(|method| &**method).filter(|method| method.starts_with("antares."))
    }
}

impl Check for Context {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        let path = request.uri().path();
        let method = self.0.known.get_key_value(path.strip_prefix('/').unwrap_or(path));
        let (method, &is_stream) = method.unwrap_or((&self.0.other, &false));
        let peer = request.extensions().get::<Arc<Link>>().map_or(Peer::UNKNOWN, |link| link.peer);
        let is_run = method.starts_with("antares.v1.RunnerService/");
        let longest = if is_run { self.0.run_time_max } else { self.0.call_time_max };
        let deadline = deadline_of(request.headers(), longest);
        let context = CallContext::new(method.clone(), is_stream, peer);
        let closing = Some(self.0.closing.clone());
        request.extensions_mut().insert(CallContext { deadline: Some(deadline), closing, ..context });
        Ok(())
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
