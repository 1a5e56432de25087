//! Connection limits: a bounded number in total and from each peer. When all slots are taken, a new
//! connection replaces an idle one of the peer with the most. A peer at its own limit replaces an idle
//! connection of its own.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use prometheus::{IntCounterVec, IntGaugeVec};
use strum::{IntoStaticStr, VariantNames};
use tokio::sync::Notify;

use crate::{metrics::Metrics, peer::Peer};

/// Why this side closes or refuses a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantNames)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub(crate) enum Closed {
    /// It was without calls for too long.
    Idle,
    /// It reached its age limit.
    Age,
    /// A response was not read in time.
    Unread,
    /// Another peer needed its slot.
    Room,
    /// Its peer is at its limit.
    PeerFull,
    /// No slot is free.
    Full,
}

/// The connections of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    per_peer_max: usize,
    state: Mutex<State>,
    listener: &'static str,
    open: IntGaugeVec,
    closed: IntCounterVec,
}

#[derive(Debug, Default)]
struct State {
    total: usize,
    by_peer: HashMap<Peer, Vec<Arc<Link>>>,
}

/// State of a connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) peer: Peer,
    usage: Mutex<Usage>,
    /// Another connection needs the slot.
    pub(crate) room_wanted: Notify,
    /// There was a request that others may interpret differently.
    pub(crate) is_ambiguous: AtomicBool,
}

#[derive(Debug)]
struct Usage {
    /// Deadlines of calls in progress, in the order of their starts; none for those without.
    calls: BTreeMap<u64, Option<Instant>>,
    begun: u64,
    idle_since: Instant,
}

/// A connection's slot; returned on drop.
#[derive(Debug)]
pub(crate) struct Slot {
    connections: Arc<Connections>,
    pub(crate) link: Arc<Link>,
}

impl Connections {
    /// At most `max`, and `per_peer_max` from one peer.
    pub(crate) fn new(listener: &'static str, max: usize, per_peer_max: usize, metrics: &Metrics) -> Self {
        let (open, closed) = (
            metrics.gauges("antares_connections", "Open connections.", &["listener"]),
            metrics.counters(
                "antares_connections_closed_total",
                "Connections that this side closed or did not take, by why.",
                &["listener", "reason"],
            ),
        );
        // All exist from the start, as zeros.
        for why in Closed::VARIANTS {
            closed.with_label_values(&[listener, why]);
        }
        Self { max, per_peer_max, state: Mutex::default(), listener, open, closed }
    }

    /// A slot for a connection of `peer`, if available.
    pub(crate) fn admit(self: &Arc<Self>, peer: Peer) -> Option<Slot> {
        let link = Arc::new(Link {
            peer,
            usage: Mutex::new(Usage { calls: BTreeMap::new(), begun: 0, idle_since: Instant::now() }),
            room_wanted: Notify::new(),
            is_ambiguous: AtomicBool::new(false),
        });
        let mut state = self.state.lock();
        let own = state.by_peer.get(&peer).map_or(0, Vec::len);
        let is_peer_full = own >= self.per_peer_max;
        let refused = if is_peer_full && !state.close_idle_of(peer) {
            Some(Closed::PeerFull)
        } else if !is_peer_full && state.total >= self.max && !state.close_idle_for(peer, own) {
            Some(Closed::Full)
        } else {
            None
        };
        if let Some(refused) = refused {
            drop(state);
            self.record(refused);
            return None;
        }
        state.total += 1;
        state.by_peer.entry(peer).or_default().push(link.clone());
        self.open.with_label_values(&[self.listener]).inc();
        Some(Slot { connections: self.clone(), link })
    }

    /// Counts a closed connection.
    pub(crate) fn record(&self, why: Closed) {
        self.closed.with_label_values(&[self.listener, why.into_str()]).inc();
    }
}

impl State {
    /// Frees a slot for a connection of `peer`, which has `own`: from the peer with the most, if that exceeds
    /// `own` by more than one, otherwise its own.
    fn close_idle_for(&mut self, peer: Peer, own: usize) -> bool {
        let most = self.by_peer.iter().max_by_key(|(_, links)| links.len());
        let other = most.filter(|(_, links)| links.len() > own + 1).map(|(other, _)| *other);
        self.close_idle_of(other.unwrap_or(peer))
    }

    /// Closes the longest idle connection of `peer`, if any.
    fn close_idle_of(&mut self, peer: Peer) -> bool {
        let links = self.by_peer.get(&peer).map_or(&[][..], Vec::as_slice);
        let idle = links.iter().filter_map(|link| Some((link.idle_since()?, link)));
        let Some(link) = idle.min_by_key(|(since, _)| *since).map(|(_, link)| link.clone()) else {
            return false;
        };
        link.room_wanted.notify_one();
        self.remove(&link);
        true
    }

    fn remove(&mut self, link: &Arc<Link>) {
        let Some(links) = self.by_peer.get_mut(&link.peer) else { return };
        let Some(index) = links.iter().position(|other| Arc::ptr_eq(other, link)) else { return };
        links.swap_remove(index);
        self.total -= 1;
        if links.is_empty() {
            self.by_peer.remove(&link.peer);
        }
    }
}

impl Link {
    /// Records the start of a call that ends at `deadline`; returns its number.
    pub(crate) fn begin_call(&self, deadline: Option<Instant>) -> u64 {
        let mut usage = self.usage.lock();
        usage.begun += 1;
        let number = usage.begun;
        usage.calls.insert(number, deadline);
        number
    }

    /// Records the end of the call `number`.
    pub(crate) fn end_call(&self, number: u64) {
        let mut usage = self.usage.lock();
        usage.calls.remove(&number);
        usage.idle_since = Instant::now();
    }

    /// Earliest and latest deadline of the calls in progress; none without deadlines.
    pub(crate) fn deadlines(&self) -> Option<(Instant, Instant)> {
        let usage = self.usage.lock();
        let ends = || usage.calls.values().flatten().copied();
        ends().min().zip(ends().max())
    }

    /// Since when there is no call; none while there is one.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let usage = self.usage.lock();
        usage.calls.is_empty().then_some(usage.idle_since)
    }

    /// Whether it has had no call for this long.
    pub(crate) fn is_idle_for(&self, time: Duration) -> bool {
        self.idle_since().is_some_and(|since| since.elapsed() >= time)
    }
}

impl Slot {
    /// Counts that this side closes the connection.
    pub(crate) fn record(&self, why: Closed) {
        self.connections.record(why);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.connections.open.with_label_values(&[self.connections.listener]).dec();
        self.connections.state.lock().remove(&self.link);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn peer(number: u8) -> Peer {
        SocketAddr::from(([127, 0, 0, number], 1)).into()
    }

    fn connections(max: usize, per_peer_max: usize) -> Arc<Connections> {
        Arc::new(Connections::new("grpc", max, per_peer_max, &Metrics::new()))
    }

    #[test]
    fn a_peer_has_its_share() {
        let connections = connections(10, 2);
        let places: Vec<_> = (0..2).map(|_| connections.admit(peer(1)).unwrap()).collect();
        places.iter().for_each(|place| assert_eq!(place.link.begin_call(None), 1));
        assert!(connections.admit(peer(1)).is_none());
        assert!(connections.admit(peer(2)).is_some());
        // A new one replaces an idle one.
        places[1].link.end_call(1);
        let third = connections.admit(peer(1)).unwrap();
        assert_eq!(connections.state.lock().total, 2);
        drop((places, third));
        let state = connections.state.lock();
        assert_eq!((state.total, state.by_peer.len()), (0, 0));
    }

    #[test]
    fn a_connection_is_idle_from_its_last_call_on() {
        let place = connections(1, 1).admit(peer(1)).unwrap();
        assert!(place.link.is_idle_for(Duration::ZERO));
        assert!(!place.link.is_idle_for(Duration::from_secs(3_600)));
        place.link.begin_call(None);
        assert!(!place.link.is_idle_for(Duration::ZERO));
        place.link.end_call(1);
        assert!(place.link.is_idle_for(Duration::ZERO));
    }

    #[tokio::test]
    async fn a_newcomer_gets_the_place_of_who_has_most_and_does_least() {
        let connections = connections(3, 3);
        let places: Vec<_> = (0..3).map(|_| connections.admit(peer(1)).unwrap()).collect();
        places[0].link.begin_call(None);
        let newcomer = connections.admit(peer(2)).unwrap();
        tokio::time::timeout(Duration::from_secs(5), places[1].link.room_wanted.notified()).await.unwrap();
        // A peer that would then have as many replaces its own.
        newcomer.link.begin_call(None);
        assert!(connections.admit(peer(2)).is_none());
        // Connections with calls stay.
        places[2].link.begin_call(None);
        assert!(connections.admit(peer(3)).is_none());
        places[2].link.end_call(1);
        drop(places);
        assert_eq!(connections.state.lock().total, 1);
        drop(newcomer);
        assert_eq!(connections.state.lock().total, 0);
    }
}
