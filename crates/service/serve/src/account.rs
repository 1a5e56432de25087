//! For whom a call is: the tenant, what it sees of what others have stored, and what it may still use up.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use antares_config::{Quota, Tenancy, is_tenant};
use arc_swap::ArcSwap;
use aws_lc_rs::digest::{Context, SHA256};
use http::HeaderMap;
use parking_lot::Mutex;
use prometheus::IntCounterVec;

use crate::{
    meter::Meter,
    metrics::Metrics,
    peer::Peer,
    status::Fault,
    usage::{Amounts, CallUsage, TenantCounters, TenantMetrics},
};

/// Metadata with the caller's tenant. Calls without it have one tenant together.
pub const TENANT: &str = "antares-tenant";

/// Tenants whose use is known at once; idle ones are forgotten, and when all are busy the rest has one quota
/// together.
const METERED_MAX: usize = 4_096;

/// Tenants with a label of their own; the rest is `other`.
const LABELS_MAX: usize = 32;

/// How long a caller waits who has too many calls in progress.
const RETRY_CALLS: Duration = Duration::from_millis(100);

/// What a run without a verdict is taken to have cost: guest cycles a nanosecond. Native code takes some
/// three.
const CYCLES_PER_NS: u64 = 3;

/// Reason of whoever has used up a quota.
pub(crate) const QUOTA: &str = "QUOTA";

/// Names of quotas, for metrics and callers.
const QUOTAS: [&str; 4] =
    ["calls_max", "guest_cycles_per_second", "compile_seconds_per_hour", "stored_bytes_max"];

/// What a tenant sees and keeps is under this; tenants that are not isolated have one together.
pub type Namespace = [u8; 32];

/// Changes keys so that those of one tenant are nobody else's; or leaves them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salt(Option<[u8; 32]>);

impl Salt {
    /// That of a tenant, if tenants have one.
    #[must_use]
    pub fn of(holder: [u8; 32]) -> Self {
        Self(Some(holder))
    }

    /// The key in place of `key`.
    #[must_use]
    pub fn apply(self, key: [u8; 32]) -> [u8; 32] {
        self.0.map_or(key, |salt| hashed(&[b"antares-salted-v1\0", &salt, &key]))
    }
}

/// Whoever calls, as far as that is proven: a tenant, or a peer where tenants are not. No caller has two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity(pub [u8; 32]);

impl Identity {
    /// That of a tenant whose name is proven.
    #[must_use]
    pub fn of_tenant(name: &str) -> Self {
        Self(hashed(&[b"antares-identity-v1\0tenant\0", name.as_bytes()]))
    }

    /// That of a peer.
    #[must_use]
    pub fn of_peer(peer: Peer) -> Self {
        Self(hashed(&[b"antares-identity-v1\0peer\0", peer.to_string().as_bytes()]))
    }
}

/// A tenant and its use.
#[derive(Clone, Debug)]
pub struct Account {
    tenant: Arc<str>,
    identity: Identity,
    /// Of the tenant, and of the peer that says to be it where nothing is proven.
    holder: [u8; 32],
    /// Where each tenant sees its own things alone.
    namespace: Option<Namespace>,
    salt: Salt,
    /// What the times in answers are rounded up to, microseconds.
    timing_step_us: u64,
    use_: Arc<Use>,
    /// What the call has used.
    usage: Arc<CallUsage>,
}

/// What a tenant has used.
#[derive(Debug)]
pub(crate) struct Use {
    quota: Quota,
    calls: AtomicU64,
    cycles: Option<Meter>,
    compiles: Option<Meter>,
    numbers: Option<Numbers>,
}

#[derive(Debug)]
struct Numbers {
    counters: TenantCounters,
    /// By quota.
    refused: IntCounterVec,
}

/// A call in progress; over when it is dropped.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Use>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What a run is expected to cost; dropped when its cost is charged.
#[derive(Debug)]
pub struct RunEstimate {
    use_: Arc<Use>,
    expected: Option<Duration>,
}

impl Drop for RunEstimate {
    fn drop(&mut self) {
        if let (Some(meter), Some(expected)) = (&self.use_.cycles, self.expected) {
            meter.forgive(expected);
        }
    }
}

impl Use {
    fn new(quota: Quota, numbers: Option<Numbers>) -> Self {
        let meter = |amount: Option<u64>, period| amount.map(|amount| Meter::new(amount, period));
        Self {
            calls: AtomicU64::new(0),
            cycles: meter(quota.guest_cycles_per_second, Duration::from_secs(1)),
            // In milliseconds.
            compiles: meter(
                quota.compile_seconds_per_hour.map(|seconds| seconds.saturating_mul(1_000)),
                Duration::from_secs(3_600),
            ),
            quota,
            numbers,
        }
    }

    fn is_idle(&self, now: Instant) -> bool {
        let mut meters = [&self.cycles, &self.compiles].into_iter().flatten();
        meters.all(|meter| meter.is_idle(now))
    }

    /// Counts that `quota` is used up, and says so; `retry` after a while if that helps.
    fn exceeded(&self, tenant: &str, quota: &'static str, words: &str, retry: Option<Duration>) -> Fault {
        if let Some(numbers) = &self.numbers {
            numbers.refused.with_label_values(&[quota]).inc();
        }
        let subject = format!("tenant:{tenant}");
        let problem = format!("the quota {quota} of this tenant is used up: {words}");
        let fault = match retry {
            Some(retry) => Fault::exhausted(QUOTA, problem, retry),
            None => Fault::used_up(QUOTA, problem),
        };
        fault.metadata("quota", quota).quota(subject, words)
    }
}

impl Account {
    /// Of calls that are nobody's: without any quota, and seeing everything.
    #[must_use]
    pub fn nobody() -> Self {
        let use_ = Arc::new(Use::new(Quota::default(), None));
        Self {
            tenant: Arc::from(""),
            identity: Identity::default(),
            holder: [0; 32],
            namespace: None,
            salt: Salt::default(),
            timing_step_us: 1,
            use_,
            usage: Arc::default(),
        }
    }

    /// Of what the service does by itself for `tenant`: as [`Account::nobody`], by that name.
    #[must_use]
    pub fn named(tenant: &str) -> Self {
        Self { tenant: Arc::from(tenant), ..Self::nobody() }
    }

    /// As [`Account::nobody`], of a tenant whose name is proven.
    #[must_use]
    pub fn proven(tenant: &str) -> Self {
        let (identity, holder) = (Identity::of_tenant(tenant), hashed(&[tenant.as_bytes()]));
        Self { identity, holder, ..Self::named(tenant) }
    }

    /// Whoever calls, as far as that is proven.
    #[must_use]
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// As [`Account::named`], of a tenant that is isolated.
    #[must_use]
    pub fn isolated(tenant: &str) -> Self {
        let holder = hashed(&[tenant.as_bytes()]);
        Self { holder, namespace: Some(holder), ..Self::named(tenant) }
    }

    /// The tenant's name; empty where there is none.
    #[must_use]
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// A name of fixed length for whoever has stored something.
    #[must_use]
    pub fn owner(&self) -> [u8; 32] {
        self.holder
    }

    /// What the tenant sees and keeps is under this.
    #[must_use]
    pub fn namespace(&self) -> Namespace {
        self.namespace.unwrap_or_default()
    }

    /// Changes the keys of native code where a tenant has its own.
    #[must_use]
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// Whether the tenant has native code of its own.
    #[must_use]
    pub fn is_salted(&self) -> bool {
        self.salt.0.is_some()
    }

    /// Whether the tenant sees only what it uploaded.
    #[must_use]
    pub fn is_isolated(&self) -> bool {
        self.namespace.is_some()
    }

    /// A time, in microseconds, as the tenant may know it: who shares a machine with others learns less from
    /// a coarse one.
    #[must_use]
    pub fn coarse_us(&self, time_us: u64) -> u64 {
        time_us.div_ceil(self.timing_step_us).saturating_mul(self.timing_step_us)
    }

    /// What it may use up.
    #[must_use]
    pub fn quota(&self) -> Quota {
        self.use_.quota
    }

    /// Its calls in progress.
    #[must_use]
    pub fn calls_in_progress(&self) -> u64 {
        self.use_.calls.load(Ordering::Acquire)
    }

    /// A place for a call.
    pub(crate) fn begin_call(&self) -> Result<InProgress, Fault> {
        let most = self.use_.quota.calls_max.unwrap_or(u64::MAX);
        let taken = self
            .use_
            .calls
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |calls| (calls < most).then_some(calls + 1));
        if taken.is_err() {
            let words = format!("{most} calls are in progress");
            return Err(self.use_.exceeded(&self.tenant, QUOTAS[0], &words, Some(RETRY_CALLS)));
        }
        if let Some(numbers) = &self.use_.numbers {
            numbers.counters.calls.inc();
        }
        Ok(InProgress(self.use_.clone()))
    }

    /// Whether a run may begin, without beginning one.
    ///
    /// # Errors
    /// Those of [`Account::begin_run`].
    pub fn may_run(&self) -> Result<(), Fault> {
        self.begin_run().map(drop)
    }

    /// Begins a run: what it is expected to cost counts from now on.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, with the time until its runs are paid.
    pub fn begin_run(&self) -> Result<RunEstimate, Fault> {
        let begun = self.use_.cycles.as_ref().map(|meter| meter.begin(Instant::now())).transpose();
        let expected = begun.map_err(|wait| {
            let most = self.use_.quota.guest_cycles_per_second.unwrap_or(0);
            let words = format!("its runs took more than {most} guest cycles a second");
            self.use_.exceeded(&self.tenant, QUOTAS[1], &words, Some(wait))
        })?;
        Ok(RunEstimate { use_: self.use_.clone(), expected })
    }

    /// Charges the guest cycles that `runs` told, which had a worker for `time`.
    pub fn ran(&self, runs: u64, guest_cycles: u64, time: Duration) {
        self.charge(guest_cycles);
        self.used(&Amounts { runs, guest_cycles, run_us: micros(time), ..Amounts::default() });
    }

    fn used(&self, more: &Amounts) {
        if let Some(numbers) = &self.use_.numbers {
            numbers.counters.add(more);
        }
        self.usage.add(more);
    }

    fn charge(&self, cycles: u64) {
        if let Some(meter) = &self.use_.cycles {
            meter.charge(cycles, Instant::now());
        }
    }

    /// Charges a run that took `time` and told no cycles, which were `most` at most: its quota by an
    /// estimate. Nobody is billed by estimates: for that there is its time alone.
    pub fn ran_for(&self, time: Duration, most: u64) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.charge(ns.saturating_mul(CYCLES_PER_NS).min(most));
        self.used(&Amounts { runs: 1, run_us: micros(time), ..Amounts::default() });
    }

    /// Whether something may be compiled for it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, with the time until its compiles are paid.
    pub fn may_compile(&self) -> Result<(), Fault> {
        let admitted = self.use_.compiles.as_ref().map_or(Ok(()), |meter| meter.admit(Instant::now()));
        admitted.map_err(|wait| {
            let most = self.use_.quota.compile_seconds_per_hour.unwrap_or(0);
            let words = format!("its compiles took more than {most} s an hour");
            self.use_.exceeded(&self.tenant, QUOTAS[2], &words, Some(wait))
        })
    }

    /// Charges the wall time of a compile.
    pub fn compiled(&self, time: Duration) {
        if let Some(meter) = &self.use_.compiles {
            // A compile of less than that is one as well.
            meter.charge(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1), Instant::now());
        }
        self.used(&Amounts { compiles: 1, compile_us: micros(time), ..Amounts::default() });
    }

    /// Notes that a script of `bytes` bytes was stored that was not there.
    pub fn stored(&self, bytes: u64) {
        self.used(&Amounts { stored_bytes: bytes, ..Amounts::default() });
    }

    /// Counts a refused call.
    pub(crate) fn refused(&self) {
        self.used(&Amounts { refused_calls: 1, ..Amounts::default() });
    }

    /// What the call has used.
    pub(crate) fn usage(&self) -> &Arc<CallUsage> {
        &self.usage
    }

    /// Why `stored` bytes and `more` cannot be stored together, if they cannot.
    #[must_use]
    pub fn stored_too_much(&self, stored: u64, more: u64) -> Option<Fault> {
        let most = self.use_.quota.stored_bytes_max?;
        (stored.saturating_add(more) > most).then(|| {
            let words = format!("{stored} bytes are stored and {more} more were to be, of {most}");
            self.use_.exceeded(&self.tenant, QUOTAS[3], &words, None)
        })
    }
}

/// A tenant, of one peer where no name is proven.
type Owner = (Option<Peer>, Box<str>);

/// The tenants of a server.
#[derive(Debug)]
pub(crate) struct Accounts {
    tenancy: ArcSwap<Tenancy>,
    known: Mutex<HashMap<Owner, Arc<Use>>>,
    labels: Mutex<HashSet<Box<str>>>,
    rest: Arc<Use>,
    metrics: TenantMetrics,
    refused: IntCounterVec,
}

impl Accounts {
    pub(crate) fn new(tenancy: &Tenancy, metrics: &Metrics) -> Self {
        let refused = metrics.counters_of(
            "antares_quota_refused_total",
            "Refusals because a tenant has used up a quota.",
            "quota",
            &QUOTAS,
        );
        let metrics = TenantMetrics::new(metrics);
        let numbers = Numbers { counters: metrics.of("other"), refused: refused.clone() };
        Self {
            rest: Arc::new(Use::new(tenancy.quota(""), Some(numbers))),
            tenancy: ArcSwap::from_pointee(tenancy.clone()),
            known: Mutex::default(),
            labels: Mutex::default(),
            metrics,
            refused,
        }
    }

    /// Puts other quotas in force. Whose quota changes begins anew.
    pub(crate) fn set_tenancy(&self, tenancy: Tenancy) {
        let mut known = self.known.lock();
        known.retain(|(_, tenant), use_| use_.quota == tenancy.quota(tenant));
        self.tenancy.store(Arc::new(tenancy));
    }

    /// The account of a call of `peer` with these `headers`. A name that is none counts as no name.
    pub(crate) fn of(&self, peer: Peer, headers: &HeaderMap) -> Account {
        let tenant = headers.get(TENANT).and_then(|name| name.to_str().ok()).filter(|name| is_tenant(name));
        let tenant = tenant.unwrap_or_default();
        let tenancy = self.tenancy.load();
        // A name that nobody has proven is one of the peer that says it.
        let peer = (!tenancy.is_proven).then_some(peer);
        let identity = peer.map_or_else(|| Identity::of_tenant(tenant), Identity::of_peer);
        let of_peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        let holder = hashed(&[b"antares-tenant-v1\0", of_peer.as_bytes(), b"\0", tenant.as_bytes()]);
        let is_shared = tenancy.is_proven || !tenant.is_empty();
        let name: Arc<str> = tenant.into();
        Account {
            identity,
            holder,
            usage: Arc::default(),
            tenant: name,
            namespace: tenancy.is_apart.then_some(holder),
            salt: Salt(tenancy.is_salted.then_some(holder)),
            timing_step_us: if is_shared { tenancy.timing_step_us.max(1) } else { 1 },
            use_: self.use_of((peer, tenant.into())),
        }
    }

    fn use_of(&self, holder: Owner) -> Arc<Use> {
        let mut known = self.known.lock();
        if let Some(found) = known.get(&holder) {
            return found.clone();
        }
        if known.len() >= METERED_MAX {
            let now = Instant::now();
            known.retain(|_, one| Arc::strong_count(one) > 1 || !one.is_idle(now));
        }
        if known.len() >= METERED_MAX {
            return self.rest.clone();
        }
        let label = self.label(&holder.1);
        let numbers = Numbers { counters: self.metrics.of(&label), refused: self.refused.clone() };
        let quota = self.tenancy.load().quota(&holder.1);
        known.entry(holder).or_insert_with(|| Arc::new(Use::new(quota, Some(numbers)))).clone()
    }

    /// Few tenants have a label, and no name that is not proven.
    fn label(&self, tenant: &str) -> Box<str> {
        let mut labels = self.labels.lock();
        match tenant {
            "" => "none".into(),
            _ if !self.tenancy.load().is_proven => "unproven".into(),
            _ if labels.contains(tenant) => tenant.into(),
            _ if labels.len() < LABELS_MAX => {
                labels.insert(tenant.into());
                tenant.into()
            }
            _ => "other".into(),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn hashed(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut hash = [0; 32];
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests;
