//! Load balancing between equivalent servers. Calls of any kind use the server with the fewest of this
//! caller's calls in progress. Where equal keys must meet, each key has an order of the servers that is the
//! same for all callers (rendezvous hashing).

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use tonic::transport::Channel;

use crate::{
    circuit_breaker::{CircuitBreaker, CircuitSettings},
    naming::Naming,
};

#[derive(Debug)]
pub struct Server {
    name: String,
    place: String,
    channel: Channel,
    circuit: CircuitBreaker,
    in_progress: AtomicUsize,
    /// Uploaded scripts, with the upload's time and their naming since then. One upload at a time.
    pub(crate) uploaded: tokio::sync::Mutex<HashMap<String, (Instant, Naming)>>,
}

impl Server {
    /// The server that people know by `name`. `place` is its ranking key: the same for all callers.
    #[must_use]
    pub fn new(name: String, place: String, channel: Channel, circuit: CircuitSettings) -> Self {
        Self {
            name,
            place,
            channel,
            circuit: CircuitBreaker::new(circuit),
            in_progress: AtomicUsize::new(0),
            uploaded: tokio::sync::Mutex::default(),
        }
    }

    /// Its name for people: its URL, with its address if known.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The channel to it. Clones share connections.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Its circuit breaker.
    #[must_use]
    pub fn circuit(&self) -> &CircuitBreaker {
        &self.circuit
    }

    /// The server's rank for `key`: the lowest is first.
    fn rank(&self, key: &[u8; 32]) -> [u8; 32] {
        Sha256::new().chain_update(key).chain_update(&self.place).finalize().into()
    }
}

/// A server for one attempt.
#[derive(Debug)]
pub(crate) struct Lease(pub(crate) Arc<Server>);

impl Lease {
    fn of(server: &Arc<Server>) -> Self {
        server.in_progress.fetch_add(1, Ordering::Relaxed);
        Self(server.clone())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::Relaxed);
    }
}

type Servers = Vec<Arc<Server>>;

/// The currently known servers, at least one. Clones share them.
#[derive(Clone, Debug)]
pub struct Balance(Arc<ArcSwap<Servers>>);

impl Balance {
    /// Balances between `servers`, at least one.
    #[must_use]
    pub fn new(servers: Vec<Arc<Server>>) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(servers)))
    }

    /// The current servers.
    #[must_use]
    pub fn servers(&self) -> Arc<Servers> {
        self.0.load_full()
    }

    /// Replaces the servers, at least one. Calls in progress stay where they are.
    pub fn replace(&self, servers: Vec<Arc<Server>>) {
        self.0.store(Arc::new(servers));
    }

    /// A reference that is valid while another owner exists.
    pub(crate) fn downgrade(&self) -> Weak<ArcSwap<Servers>> {
        Arc::downgrade(&self.0)
    }

    pub(crate) fn upgrade(weak: &Weak<ArcSwap<Servers>>) -> Option<Self> {
        weak.upgrade().map(Self)
    }

    /// The server with the fewest calls in progress among the healthy ones, if possible not `last`.
    pub(crate) fn least_busy(&self, last: Option<&str>) -> Lease {
        let known = self.0.load();
        let burden = |server: &&Arc<Server>| {
            let is_last = last.is_some_and(|last| last == server.name);
            let calls = server.in_progress.load(Ordering::Relaxed);
            (is_last, server.circuit.is_open(), calls, rand::random::<u32>())
        };
        // There is at least one, and an empty name changes nothing.
        Lease::of(known.iter().min_by_key(burden).expect("there is a server"))
    }

    /// The servers in the order of `key`, a digest. Adding or removing one keeps the order of the others;
    /// unhealthy ones come last.
    #[must_use]
    pub fn ranked(&self, key: &[u8; 32]) -> Vec<Arc<Server>> {
        let mut servers = self.0.load().to_vec();
        servers.sort_by_cached_key(|server| (server.circuit.is_open(), server.rank(key)));
        servers
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic::transport::Endpoint;

    use super::*;

    fn of(names: &[&str]) -> Balance {
        let circuit = CircuitSettings { open: Duration::from_secs(60), open_max: Duration::from_secs(60) };
        let server = |name: &&str| {
            let channel = Endpoint::from_static("http://127.0.0.1:1").connect_lazy();
            Arc::new(Server::new((*name).to_owned(), (*name).to_owned(), channel, circuit))
        };
        Balance::new(names.iter().map(server).collect())
    }

    fn order(balance: &Balance, number: u32) -> Vec<String> {
        let key = Sha256::digest(number.to_le_bytes()).into();
        balance.ranked(&key).iter().map(|server| server.name.clone()).collect()
    }

    #[tokio::test]
    async fn calls_go_where_the_fewest_are_and_not_to_who_is_gone() {
        let servers = of(&["a", "b", "c"]);
        let leases: Vec<_> = (0..3).map(|_| servers.least_busy(None)).collect();
        let mut names: Vec<_> = leases.iter().map(|lease| lease.0.name().to_owned()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 3, "each has one");
        let free = leases[1].0.name.clone();
        let mut leases = leases.into_iter();
        let first = leases.next();
        drop(leases.next());
        assert_eq!(servers.least_busy(None).0.name, free);
        assert_ne!(servers.least_busy(Some(&free)).0.name, free);
        servers.least_busy(None).0.circuit.open();
        assert_ne!(servers.least_busy(None).0.name, free);
        drop(first);
    }

    #[tokio::test]
    async fn the_only_server_is_asked_again() {
        let servers = of(&["a"]);
        let lease = servers.least_busy(None);
        lease.0.circuit.open();
        assert_eq!(servers.least_busy(Some(&lease.0.name)).0.name, lease.0.name);
    }

    #[tokio::test]
    async fn keys_spread_evenly_and_move_only_where_one_comes_or_goes() {
        let (three, shuffled, two) = (of(&["a", "b", "c"]), of(&["c", "a", "b"]), of(&["a", "c"]));
        let mut counts = HashMap::new();
        for number in 0..3_000 {
            let place = order(&three, number).swap_remove(0);
            assert_eq!(order(&shuffled, number)[0], place, "the order of the list says nothing");
            let after = &order(&two, number)[0];
            assert!(place == "b" || *after == place, "only what was with b has moved");
            *counts.entry(place).or_insert(0) += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    /// Servers of two versions must agree.
    #[tokio::test]
    async fn ranks_stay_what_they_were() {
        let servers = of(&["10.0.0.1:50051", "10.0.0.2:50051", "10.0.0.3:50051"]);
        let by_hand = |number: u32| {
            let mut names: Vec<_> = servers.servers().iter().map(|server| server.name.clone()).collect();
            let key = Sha256::digest(number.to_le_bytes());
            names.sort_by_key(|name| Sha256::digest([&key[..], name.as_bytes()].concat()));
            names
        };
        (0..50).for_each(|number| assert_eq!(order(&servers, number), by_hand(number)));
    }

    #[tokio::test]
    async fn one_that_is_gone_comes_last() {
        let three = of(&["a", "b", "c"]);
        let before = order(&three, 7);
        three.ranked(&Sha256::digest(7_u32.to_le_bytes()).into())[0].circuit.open();
        assert_eq!(order(&three, 7), [before[1].as_str(), &before[2], &before[0]]);
    }
}
