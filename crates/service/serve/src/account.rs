//! The account of a call: its tenant, what it sees of others' stored data, and its remaining quotas.

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
use http::HeaderMap;
use parking_lot::Mutex;
use prometheus::IntCounterVec;

use crate::{
    identity::{Identity, Namespace, Salt, hashed},
    meter::Meter,
    metrics::Metrics,
    peer::Peer,
    status::Fault,
    usage::{Amounts, CallUsage, TenantCounters, TenantMetrics},
};

/// Metadata with the caller's tenant. Calls without it share one tenant.
pub const TENANT: &str = "antares-tenant";

/// Tenants tracked at once; idle ones are dropped, and if all are busy the others share one quota.
const METERED_MAX: usize = 4_096;

/// Tenants with their own label; the others are `other`.
const LABELS_MAX: usize = 32;

/// Wait of a caller with too many calls in progress.
const RETRY_CALLS: Duration = Duration::from_millis(100);

/// Assumed cost of a run without a verdict: guest cycles per nanosecond. Native code takes about three.
const CYCLES_PER_NS: u64 = 3;

/// Reason for an exhausted quota.
pub(crate) const QUOTA: &str = "QUOTA";

/// Step to which the times in responses to a tenant are rounded up, microseconds.
const TIMING_STEP_US: u64 = 100;

/// Names of quotas, for metrics and callers.
const QUOTAS: [&str; 4] =
    ["calls_max", "guest_cycles_per_second", "compile_seconds_per_hour", "stored_bytes_max"];

/// A tenant and its usage.
#[derive(Clone, Debug)]
pub struct Account {
    tenant: Arc<str>,
    identity: Identity,
    /// Digest of the tenant and, without authentication, of its peer.
    holder: [u8; 32],
    /// Set if each tenant sees only its own data.
    namespace: Option<Namespace>,
    salt: Salt,
    /// Step to which times in responses are rounded up, microseconds.
    timing_step_us: u64,
    use_: Arc<Use>,
    /// Usage of the call.
    usage: Arc<CallUsage>,
}

/// Usage of a tenant.
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

/// A call in progress; ends on drop.
#[derive(Debug)]
pub(crate) struct InProgress(Arc<Use>);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Estimated cost of a run; dropped when the real cost is charged.
#[derive(Debug)]
pub struct RunEstimate {
    use_: Arc<Use>,
    expected: Duration,
}

impl Drop for RunEstimate {
    fn drop(&mut self) {
        if let Some(meter) = &self.use_.cycles {
            meter.forgive(self.expected);
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

    /// Counts that `quota` is used up, and returns the error; `retry` if waiting helps.
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
    /// The account of internal calls: no quotas, and full visibility.
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

    /// The account of the service's own work for `tenant`: like [`Account::nobody`], with that name.
    pub fn named(tenant: &str) -> Self {
        Self { tenant: Arc::from(tenant), ..Self::nobody() }
    }

    /// Like [`Account::nobody`], for an authenticated tenant.
    pub fn proven(tenant: &str) -> Self {
        let (identity, holder) = (Identity::of_tenant(tenant), hashed(&[tenant.as_bytes()]));
        Self { identity, holder, ..Self::named(tenant) }
    }

    /// The authenticated identity of the caller.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Like [`Account::named`], for an isolated tenant.
    pub fn isolated(tenant: &str) -> Self {
        let holder = hashed(&[tenant.as_bytes()]);
        Self { holder, namespace: Some(holder), ..Self::named(tenant) }
    }

    /// The tenant's name; empty if there is none.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// A fixed-length name for the owner of stored data.
    pub fn owner(&self) -> [u8; 32] {
        self.holder
    }

    /// Prefix of what the tenant sees and stores.
    pub fn namespace(&self) -> Namespace {
        self.namespace.unwrap_or_default()
    }

    /// Changes the keys of native code if a tenant has its own.
    pub fn salt(&self) -> Salt {
        self.salt
    }

    /// Whether the tenant has its own native code.
    pub fn is_salted(&self) -> bool {
        self.salt != Salt::default()
    }

    /// Whether the tenant sees only its own uploads.
    pub fn is_isolated(&self) -> bool {
        self.namespace.is_some()
    }

    /// A time in microseconds, rounded for the tenant: coarse times reveal less about other tenants of the
    /// machine.
    pub fn coarse_us(&self, time_us: u64) -> u64 {
        time_us.div_ceil(self.timing_step_us).saturating_mul(self.timing_step_us)
    }

    /// Its quotas.
    pub fn quota(&self) -> Quota {
        self.use_.quota
    }

    /// Its calls in progress.
    pub fn calls_in_progress(&self) -> u64 {
        self.use_.calls.load(Ordering::Acquire)
    }

    /// Takes a slot for a call.
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

    /// Whether a run may start, without starting one.
    ///
    /// # Errors
    /// Those of [`Account::begin_run`].
    pub fn may_run(&self) -> Result<(), Fault> {
        self.begin_run().map(drop)
    }

    /// Starts a run: its estimated cost counts from now on, where a quota counts it.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED, with the time until its runs are paid.
    pub fn begin_run(&self) -> Result<Option<RunEstimate>, Fault> {
        let begun = self.use_.cycles.as_ref().map(|meter| meter.begin(Instant::now())).transpose();
        let expected = begun.map_err(|wait| {
            let most = self.use_.quota.guest_cycles_per_second.unwrap_or(0);
            let words = format!("its runs took more than {most} guest cycles a second");
            self.use_.exceeded(&self.tenant, QUOTAS[1], &words, Some(wait))
        })?;
        Ok(expected.map(|expected| RunEstimate { use_: self.use_.clone(), expected }))
    }

    /// Charges the reported guest cycles of `runs`, which used a worker for `time`.
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

    /// Charges a run that took `time` and reported no cycles: its quota by an estimate of at most `most`
    /// cycles. Billing uses no estimates, only the time.
    pub fn ran_for(&self, time: Duration, most: u64) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.charge(ns.saturating_mul(CYCLES_PER_NS).min(most));
        self.used(&Amounts { runs: 1, run_us: micros(time), ..Amounts::default() });
    }

    /// Whether it may compile.
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
            // Shorter compiles count as well.
            meter.charge(u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1), Instant::now());
        }
        self.used(&Amounts { compiles: 1, compile_us: micros(time), ..Amounts::default() });
    }

    /// Records that a new script of `bytes` bytes was stored.
    pub fn stored(&self, bytes: u64) {
        self.used(&Amounts { stored_bytes: bytes, ..Amounts::default() });
    }

    /// Counts a refused call.
    pub(crate) fn refused(&self) {
        self.used(&Amounts { refused_calls: 1, ..Amounts::default() });
    }

    /// Usage of the call.
    pub(crate) fn usage(&self) -> &Arc<CallUsage> {
        &self.usage
    }

    /// The error if `stored` bytes plus `more` exceed the quota.
    pub fn stored_too_much(&self, stored: u64, more: u64) -> Option<Fault> {
        let most = self.use_.quota.stored_bytes_max?;
        (stored.saturating_add(more) > most).then(|| {
            let words = format!("{stored} bytes are stored and {more} more were to be, of {most}");
            self.use_.exceeded(&self.tenant, QUOTAS[3], &words, None)
        })
    }
}

/// A tenant; without authentication, of one peer.
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

    /// Applies other quotas. A tenant whose quota changes starts over.
    pub(crate) fn set_tenancy(&self, tenancy: Tenancy) {
        let mut known = self.known.lock();
        known.retain(|(_, tenant), use_| use_.quota == tenancy.quota(tenant));
        self.tenancy.store(Arc::new(tenancy));
    }

    /// The account of a call of `peer` with these `headers`. An invalid name counts as none.
    pub(crate) fn of(&self, peer: Peer, headers: &HeaderMap) -> Account {
        let tenant = headers.get(TENANT).and_then(|name| name.to_str().ok()).filter(|name| is_tenant(name));
        let tenant = tenant.unwrap_or_default();
        let tenancy = self.tenancy.load();
        // An unauthenticated name belongs to its peer.
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
            salt: if tenancy.is_salted { Salt::of(holder) } else { Salt::default() },
            timing_step_us: if is_shared { TIMING_STEP_US } else { 1 },
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

    /// Only few tenants have a label, and no unauthenticated ones.
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

#[cfg(test)]
mod tests;
