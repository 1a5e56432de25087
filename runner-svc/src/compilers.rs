//! Several compilers: which one a script goes to, and which one is next.
//!
//! Each script has an order of the compilers that is the same on every runner (rendezvous hashing of its
//! digest and their addresses), so equal scripts meet in one compile wherever they are run. One that is busy
//! or gone is passed over for the next; that two compile the same script is waste and no mistake.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use antares_abi::Sha256Digest;
use antares_config::Config;
use antares_proto::v1::compiler_service_client::CompilerServiceClient;
use antares_serve::{Metrics, TlsClient, TlsError, endpoint_at, keep};
use antares_trust::KeyError;
use tokio::net::lookup_host;
use tonic::transport::{self, Channel, Endpoint};

/// A compiler that could not be reached is asked last for so long.
const PASSED_OVER: Duration = Duration::from_secs(1);

/// Calls in a row that another compiler answered first, from which on this one is as good as gone.
const OUTRUN_MAX: u32 = 3;

/// Addresses that are taken of one name.
const ADDRESSES_MAX: usize = 256;

/// Longest message that is taken, bytes: a chunk and what is around it.
const MESSAGE_BYTES_MAX: usize = 20 << 20;

/// How often a connection without traffic is pinged, so that one that is gone is noticed.
const KEEPALIVE: Duration = Duration::from_secs(20);

/// Why a compiler service cannot be a source.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The URL is none.
    #[error("runner.compiler_url")]
    Url(#[from] transport::Error),
    /// The files of TLS are of no use.
    #[error("runner.compiler_ca, runner.compiler_certificate, runner.compiler_key")]
    Tls(#[from] TlsError),
    /// The token is of no use.
    #[error("runner.compiler_token_file")]
    Token(#[source] std::io::Error),
    /// The list of trusted keys is of no use.
    #[error("signing.trusted")]
    Keys(#[from] KeyError),
}

/// One compiler.
#[derive(Debug)]
pub(crate) struct Member {
    name: String,
    client: CompilerServiceClient<Channel>,
    gone: Mutex<Option<Instant>>,
    outrun: AtomicU32,
}

impl Member {
    fn new(name: String, channel: Channel) -> Self {
        let client = CompilerServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        Self { name, client, gone: Mutex::default(), outrun: AtomicU32::new(0) }
    }

    pub(crate) fn client(&self) -> CompilerServiceClient<Channel> {
        self.client.clone()
    }

    /// It could not be reached.
    pub(crate) fn pass_over(&self) {
        *self.gone.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// It has answered.
    pub(crate) fn has_answered(&self) {
        self.outrun.store(0, Relaxed);
    }

    /// Another one has answered before it.
    pub(crate) fn was_outrun(&self) {
        if self.outrun.fetch_add(1, Relaxed) + 1 >= OUTRUN_MAX {
            self.pass_over();
        }
    }

    pub(crate) fn is_passed_over(&self) -> bool {
        let gone = *self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.is_some_and(|since| since.elapsed() < PASSED_OVER)
    }
}

/// How channels are made.
#[derive(Debug)]
struct Maker {
    urls: Vec<String>,
    tls: Option<TlsClient>,
    connect_time_max: Duration,
}

impl Maker {
    fn shape(&self, endpoint: Endpoint) -> Endpoint {
        endpoint.connect_timeout(self.connect_time_max).http2_keep_alive_interval(KEEPALIVE).tcp_nodelay(true)
    }

    fn by_name(&self, url: &str) -> Result<Member, transport::Error> {
        let channel = match &self.tls {
            Some(tls) => tls.channel(url, |endpoint| self.shape(endpoint))?,
            None => self.shape(Endpoint::from_shared(url.to_owned())?).connect_lazy(),
        };
        Ok(Member::new(url.to_owned(), channel))
    }

    fn by_address(&self, url: &str, address: SocketAddr) -> Result<Member, transport::Error> {
        let channel = match &self.tls {
            Some(tls) => tls.channel_at(url, address, |endpoint| self.shape(endpoint))?,
            None => self.shape(endpoint_at(url, address)?).connect_lazy(),
        };
        Ok(Member::new(address.to_string(), channel))
    }
}

/// All compilers that are known now. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Compilers {
    members: Arc<RwLock<Vec<Arc<Member>>>>,
}

impl Compilers {
    /// Those that `config` names. Call it within a runtime.
    pub(crate) fn new(config: &Config, metrics: &Metrics) -> Result<Self, RemoteError> {
        let (limits, files) = (&config.runner, &config.compiler_tls);
        let is_tls = limits.compiler_urls.iter().any(|url| url.starts_with("https://"));
        let maker = Maker {
            urls: limits.compiler_urls.clone(),
            tls: is_tls.then(|| TlsClient::watch(files, metrics)).transpose()?,
            connect_time_max: limits.compiler_connect_time_max,
        };
        let named = maker.urls.iter().map(|url| maker.by_name(url).map(Arc::new));
        let compilers = Self { members: Arc::new(RwLock::new(named.collect::<Result<_, _>>()?)) };
        let known = metrics.gauge("antares_compilers", "Compiler services that this runner knows of.");
        let watched = compilers.clone();
        metrics.before_scrape(move || known.set(i64::try_from(watched.members().len()).unwrap_or(i64::MAX)));
        if let Some(every) = limits.compiler_resolve {
            let (members, maker) = (compilers.members.clone(), Arc::new(maker));
            keep("compiler names", move || look_up(members.clone(), maker.clone(), every));
        }
        Ok(compilers)
    }

    fn members(&self) -> Vec<Arc<Member>> {
        self.members.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The compilers in the order in which `script` asks them; never none.
    pub(crate) fn in_order(&self, script: Sha256Digest) -> Vec<Arc<Member>> {
        let mut members = self.members();
        members.sort_by_cached_key(|member| (member.is_passed_over(), rank(&member.name, script)));
        members
    }
}

/// Where `script` puts the compiler `name`: the least comes first.
fn rank(name: &str, script: Sha256Digest) -> [u8; 32] {
    Sha256Digest::of(&[&script.0, name.as_bytes()].concat()).0
}

/// Looks the names up for ever. A name that cannot be looked up keeps the addresses that it had.
async fn look_up(members: Arc<RwLock<Vec<Arc<Member>>>>, maker: Arc<Maker>, every: Duration) {
    let mut found: Vec<Vec<SocketAddr>> = vec![Vec::new(); maker.urls.len()];
    loop {
        for (url, found) in maker.urls.iter().zip(&mut found) {
            match addresses(url).await {
                Ok(addresses) if !addresses.is_empty() => *found = addresses,
                Ok(_) => tracing::warn!(url, "the name of the compiler service has no address"),
                Err(error) => tracing::warn!(url, %error, "the name of the compiler service is not found"),
            }
        }
        // Before the first answer calls go by name.
        if found.iter().all(|addresses| !addresses.is_empty()) {
            let known = members.read().unwrap_or_else(PoisonError::into_inner).clone();
            let now =
                maker.urls.iter().zip(&found).flat_map(|(url, found)| found.iter().map(move |at| (url, *at)));
            let now: Vec<_> = now.filter_map(|(url, address)| member(&known, &maker, url, address)).collect();
            if now.len() != known.len() || now.iter().zip(&known).any(|(now, known)| now.name != known.name) {
                tracing::info!(compilers = now.len(), "the compilers have changed");
                *members.write().unwrap_or_else(PoisonError::into_inner) = now;
            }
        }
        tokio::time::sleep(every).await;
    }
}

/// The member at `address`: the one there is, with its connection, or a new one.
fn member(known: &[Arc<Member>], maker: &Maker, url: &str, address: SocketAddr) -> Option<Arc<Member>> {
    let name = address.to_string();
    let old = known.iter().find(|member| member.name == name).cloned();
    old.or_else(|| maker.by_address(url, address).ok().map(Arc::new))
}

/// What the host of `url` has as addresses, each once, sorted.
async fn addresses(url: &str) -> std::io::Result<Vec<SocketAddr>> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let authority = rest.split('/').next().unwrap_or(rest);
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if scheme == "https" { 443 } else { 80 };
    let place = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
    let mut addresses: Vec<_> = lookup_host(place).await?.take(ADDRESSES_MAX).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> Compilers {
        let member = |name: &&str| {
            Arc::new(Member::new(
                (*name).to_owned(),
                Endpoint::from_static("http://127.0.0.1:1").connect_lazy(),
            ))
        };
        Compilers { members: Arc::new(RwLock::new(names.iter().map(member).collect())) }
    }

    fn first(compilers: &Compilers, number: u32) -> String {
        compilers.in_order(Sha256Digest::of(&number.to_le_bytes()))[0].name.clone()
    }

    #[tokio::test]
    async fn scripts_spread_evenly_and_move_only_where_one_comes_or_goes() {
        let (three, shuffled, two) = (of(&["a", "b", "c"]), of(&["c", "a", "b"]), of(&["a", "c"]));
        let mut counts = std::collections::HashMap::new();
        for number in 0..3_000 {
            let place = first(&three, number);
            assert_eq!(first(&shuffled, number), place, "the order of the list says nothing");
            let after = first(&two, number);
            assert!(place == "b" || after == place, "only what was with b has moved");
            *counts.entry(place).or_insert(0) += 1;
        }
        assert!(counts.len() == 3 && counts.values().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }

    #[tokio::test]
    async fn one_that_is_gone_comes_last_for_a_while() {
        let three = of(&["a", "b", "c"]);
        let script = Sha256Digest::of(b"script");
        let order: Vec<_> = three.in_order(script).iter().map(|member| member.name.clone()).collect();
        three.in_order(script)[0].pass_over();
        let now: Vec<_> = three.in_order(script).iter().map(|member| member.name.clone()).collect();
        assert_eq!(now, [order[1].as_str(), &order[2], &order[0]]);
    }

    #[tokio::test]
    async fn one_that_others_outrun_again_and_again_comes_last_for_a_while() {
        let (two, script) = (of(&["a", "b"]), Sha256Digest::of(b"script"));
        let first = two.in_order(script)[0].clone();
        for outrun in 1..=2 * OUTRUN_MAX {
            // An answer makes up for all before.
            if outrun == OUTRUN_MAX {
                first.has_answered();
            }
            first.was_outrun();
            assert_eq!(first.is_passed_over(), outrun >= 2 * OUTRUN_MAX - 1, "{outrun}");
        }
        assert_eq!(two.in_order(script)[1].name, first.name);
    }

    #[tokio::test]
    async fn names_have_addresses() {
        let at = |text: &str| vec![text.parse::<SocketAddr>().unwrap()];
        assert_eq!(addresses("http://127.0.0.1:50051").await.unwrap(), at("127.0.0.1:50051"));
        assert_eq!(addresses("https://127.0.0.1").await.unwrap(), at("127.0.0.1:443"));
        assert_eq!(addresses("http://[::1]:7/").await.unwrap(), at("[::1]:7"));
    }
}
