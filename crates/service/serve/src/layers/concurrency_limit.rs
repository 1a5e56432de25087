//! Admission of calls: slots among the calls in progress, per peer and per tenant of a peer, and the tenant's
//! quota. The share of one peer leaves capacity for others.

use std::{sync::Arc, time::Duration};

use antares_config::{Listen, TENANT_BYTES_MAX};
use http::{HeaderMap, Request};
use prometheus::IntCounterVec;
use strum::{IntoStaticStr, VariantNames};
use tonic::body::Body;

use super::{
    around::{Answering, Around, Check, refused},
    context::CallContext,
};
use crate::{
    account::{QUOTA, TENANT},
    authenticator::ByAdminSocket,
    budget::{Budget, Grant, Spent},
    identity::Identity,
    metrics::Metrics,
    peer::Peer,
    status::{Fault, code_in, reason_in},
};

/// Wait of a caller when the server is full.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Delay before any error about a quota: immediate retries would burden the machine.
const QUOTA_PAUSE: Duration = Duration::from_millis(20);

/// Health checks and reflection in progress at once; a watch counts while it lasts.
const EXEMPT_CALLS_MAX: u64 = 1024;

/// Share of one peer.
const EXEMPT_CALLS_PER_PEER_MAX: u64 = 64;

/// A tenant as named by one peer. The same name from another peer is another tenant: names are
/// unauthenticated here.
type Tenant = (Peer, Box<[u8]>);

/// The layer, with a server's slots.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimit {
    calls: Arc<Budget<Peer>>,
    tenants: Arc<Budget<Tenant>>,
    exempt: Arc<Budget<Peer>>,
    refused: IntCounterVec,
}

/// Slots that a call holds until it ends.
#[derive(Debug)]
pub(crate) struct Slots {
    _calls: Grant<Peer>,
    _tenant: Option<Grant<Tenant>>,
}

/// Extra slots for calls of one kind; at most half of them for one caller.
#[derive(Clone, Debug)]
pub struct SharedPlaces(Arc<Budget<Identity>>);

impl SharedPlaces {
    /// `most` slots.
    pub fn new(most: u64) -> Self {
        Self(Arc::new(Budget::new(most, most / 2)))
    }

    /// Gives `call` a slot until it ends.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED.
    pub fn admit(&self, call: &CallContext) -> Result<(), Fault> {
        let place = self.0.take(&call.account().identity(), 1).map_err(|spent| match spent {
            Spent::All => Refused::Server.fault(),
            Spent::Share => Refused::Tenant.fault(),
        })?;
        call.ending.hold(place);
        Ok(())
    }
}

/// Why a call gets no slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Refused {
    Server,
    Peer,
    Tenant,
}

impl Refused {
    fn fault(self) -> Fault {
        let words = match self {
            Self::Server => "too many calls are in progress on this server",
            Self::Peer => "too many calls of this peer are in progress",
            Self::Tenant => "too many calls of this tenant are in progress",
        };
        Fault::exhausted("OVERLOADED", words, RETRY_AFTER).metadata("scope", self.into_str())
    }
}

impl ConcurrencyLimit {
    pub(crate) fn new(listen: &Listen, metrics: &Metrics) -> Self {
        let refused = metrics.counters_of(
            "antares_calls_refused_total",
            "Calls refused because a limit of concurrent calls was reached, by scope.",
            "scope",
            Refused::VARIANTS,
        );
        Self {
            calls: Arc::new(Budget::new(listen.calls_max as u64, listen.calls_per_peer_max() as u64)),
            tenants: Arc::new(Budget::new(u64::MAX, listen.calls_per_tenant_max() as u64)),
            exempt: Arc::new(Budget::new(EXEMPT_CALLS_MAX, EXEMPT_CALLS_PER_PEER_MAX)),
            refused,
        }
    }

    /// Slots for a call of `peer` with these `headers`; an `exempt` one takes none from others.
    fn admit(&self, peer: Peer, headers: &HeaderMap, exempt: bool) -> Result<Slots, Refused> {
        let admitted = self.slots(peer, headers, exempt);
        if let Err(refused) = &admitted {
            self.refused.with_label_values(&[refused.into_str()]).inc();
        }
        admitted
    }

    fn slots(&self, peer: Peer, headers: &HeaderMap, exempt: bool) -> Result<Slots, Refused> {
        let spent = |spent| match spent {
            Spent::All => Refused::Server,
            Spent::Share => Refused::Peer,
        };
        let calls = if exempt { &self.exempt } else { &self.calls }.take(&peer, 1).map_err(spent)?;
        let tenant = if exempt { None } else { Some(self.tenants.take(&tenant_of(peer, headers), 1)) };
        let tenant = tenant.transpose().map_err(|_| Refused::Tenant)?;
        Ok(Slots { _calls: calls, _tenant: tenant })
    }

    /// Whether no call is in progress, except health checks.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.total() == 0
    }
}

impl Check for ConcurrencyLimit {
    fn check(&self, request: &mut Request<Body>) -> Result<(), Fault> {
        // Operators must be able to repair a full server.
        let is_by_socket = request.extensions().get::<ByAdminSocket>().is_some();
        let CallContext { peer, is_exempt, .. } = *CallContext::in_request(request);
        let is_exempt = is_exempt || is_by_socket;
        let places = self.admit(peer, request.headers(), is_exempt).map_err(Refused::fault)?;
        let context = CallContext::in_request(request);
        context.ending.hold(places);
        if !is_exempt {
            context.ending.hold(context.account().begin_call()?);
        }
        Ok(())
    }
}

impl Around for ConcurrencyLimit {
    fn around(&self, mut request: Request<Body>, rest: impl FnOnce(Request<Body>) -> Answering) -> Answering {
        let answering = match self.check(&mut request) {
            Ok(()) => rest(request),
            Err(fault) => refused(fault),
        };
        Box::pin(async move {
            let response = answering.await?;
            if code_in(response.headers()) == Some("RESOURCE_EXHAUSTED")
                && reason_in(response.headers()).is_some_and(|reason| reason == QUOTA)
            {
                tokio::time::sleep(QUOTA_PAUSE).await;
            }
            Ok(response)
        })
    }
}

/// The caller's claim, truncated to the maximum length; the service rejects other names.
fn tenant_of(peer: Peer, headers: &HeaderMap) -> Tenant {
    let name = headers.get(TENANT).map_or(&[][..], |value| value.as_bytes());
    (peer, name[..name.len().min(TENANT_BYTES_MAX)].into())
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use antares_config::{ConfigFile, Role};

    #[tokio::test]
    async fn who_has_used_up_a_quota_hears_it_after_a_moment() {
        let listen = ConfigFile::default().check(Role::Both, &[]).unwrap().listen;
        let mut request = Request::new(Body::empty());
        request.extensions_mut().insert(CallContext::outside());
        let began = std::time::Instant::now();
        let rest = |_| refused(Fault::exhausted(QUOTA, "", Duration::ZERO));
        ConcurrencyLimit::new(&listen, &Metrics::new()).around(request, rest).await.unwrap();
        assert!(began.elapsed() >= QUOTA_PAUSE);
    }

    #[test]
    fn one_peer_and_one_tenant_leave_room_for_others() {
        let listen = ConfigFile::default().check(Role::Both, &[]).unwrap().listen;
        let listen = Listen { calls_max: 32, ..listen };
        let admission = ConcurrencyLimit::new(&listen, &Metrics::new());
        let peer = |number| Peer::from(SocketAddr::from(([127, 0, 0, number], 1)));
        let headers =
            |tenant: &'static str| HeaderMap::from_iter([(TENANT.parse().unwrap(), tenant.parse().unwrap())]);
        let take = |number, tenant, exempt| admission.admit(peer(number), &headers(tenant), exempt);
        // Of 32 slots, a tenant of a peer may have 16 and a peer 24; the last four are for small peers.
        let mut held: Vec<_> = (0..16).map(|_| take(1, "a", false).unwrap()).collect();
        assert_eq!(take(1, "a", false).unwrap_err(), Refused::Tenant);
        held.extend((0..8).map(|_| take(1, "b", false).unwrap()));
        assert_eq!(take(1, "c", false).unwrap_err(), Refused::Peer);
        // The same name from another peer is another tenant.
        held.extend((0..4).map(|_| take(2, "a", false).unwrap()));
        assert_eq!(take(2, "b", false).unwrap_err(), Refused::Server);
        held.push(take(3, "a", false).unwrap());
        // Health checks do not count.
        held.push(take(1, "a", true).unwrap());
        drop(held);
        assert!(admission.is_idle());
        assert_eq!(take(1, "a", false).map(drop), Ok(()));
    }
}
