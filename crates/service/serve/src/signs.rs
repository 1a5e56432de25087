//! What tells that something is wrong with this process: the alerts of `deploy/prometheus` that a process can
//! know of itself, with the same thresholds and times, so that the page says what the pager does.

/// Where the runbook is; the alert's name in lower case is the place in it.
pub(crate) const RUNBOOK: &str = "https://github.com/antares-vm/antares/blob/main/deploy/RUNBOOK.md";

/// A sign that something is wrong.
#[derive(Debug)]
pub(crate) struct Sign {
    /// The alert that it is, and the runbook's heading.
    pub(crate) alert: &'static str,
    /// Whether it pages; others are tickets.
    pub(crate) pages: bool,
    /// The family that tells.
    pub(crate) metric: &'static str,
    /// Which of its numbers.
    pub(crate) only: &'static [Only],
    /// What they are then.
    pub(crate) when: When,
    /// For how many minutes before the alert fires.
    pub(crate) hold_minutes: u64,
    /// What is wrong then.
    pub(crate) says: &'static str,
}

/// Numbers by a label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Only {
    pub(crate) label: &'static str,
    /// Whether they have one of the values, or none of them.
    pub(crate) has: bool,
    /// With `|` between.
    pub(crate) values: &'static str,
}

/// What a number is where something is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
    /// It grew by more than `by` within the last `minutes`.
    Grew { by: f64, minutes: u64 },
    /// It is more than `above` times the number of `of` with the same labels.
    Share { of: &'static str, above: f64 },
    /// It is a time that lies `from` to `below` seconds ahead.
    Ahead { from: f64, below: f64 },
}

/// Layers that a machine need not have.
const OPTIONAL_LAYERS: &str = "namespaces|unprivileged_user|executable_memory|sealed_code|store_bypass|indirect_branches|core_scheduling|control_group";

const fn only(label: &'static str, values: &'static str) -> Only {
    Only { label, has: true, values }
}

const fn not(label: &'static str, values: &'static str) -> Only {
    Only { label, has: false, values }
}

const fn grew(by: f64, minutes: u64) -> When {
    When::Grew { by, minutes }
}

const fn page(alert: &'static str, metric: &'static str, when: When, says: &'static str) -> Sign {
    Sign { alert, pages: true, metric, only: &[], when, hold_minutes: 0, says }
}

const fn ticket(alert: &'static str, metric: &'static str, when: When, says: &'static str) -> Sign {
    Sign { pages: false, ..page(alert, metric, when, says) }
}

impl Sign {
    const fn of(self, only: &'static [Only]) -> Self {
        Self { only, ..self }
    }

    const fn held(self, hold_minutes: u64) -> Self {
        Self { hold_minutes, ..self }
    }
}

/// All of them, what pages first.
pub(crate) static SIGNS: &[Sign] = &[
    page("AntaresNotServing", "antares_serving", When::Below(1.0), "refuses its calls").held(3),
    page("AntaresCacheUnavailable", "antares_cache_state", When::Above(0.0), "there is no cache")
        .of(&[only("state", "unavailable")])
        .held(1),
    page(
        "AntaresSandboxViolation",
        "antares_sandbox_violations_total",
        grew(0.0, 10),
        "a worker broke a rule of the fence",
    ),
    page(
        "AntaresWildFault",
        "antares_wild_faults_total",
        grew(0.0, 10),
        "native code touched memory that it must not",
    ),
    page(
        "AntaresWrongCode",
        "antares_rechecks_total",
        grew(0.0, 10),
        "native code and the interpreter differ",
    )
    .of(&[only("result", "different")]),
    page(
        "AntaresCompilesDiffer",
        "antares_recompiles_total",
        grew(0.0, 10),
        "two compiles of a script differ",
    )
    .of(&[only("result", "different")]),
    page("AntaresCodeRefused", "antares_code_refused_total", grew(0.0, 10), "machine code was refused"),
    page("AntaresAuditBroken", "antares_audit_broken", When::Above(0.0), "the audit log cannot be written")
        .held(2),
    page(
        "AntaresCertificateLastDay",
        "antares_certificate_expiry_timestamp_seconds",
        When::Ahead { from: f64::NEG_INFINITY, below: 86_400.0 },
        "ends within a day, or has ended",
    ),
    page(
        "AntaresCertificateNotYetValid",
        "antares_certificate_begin_timestamp_seconds",
        When::Ahead { from: 0.0, below: f64::INFINITY },
        "is not valid yet",
    ),
    page("AntaresCallsRefused", "antares_calls_refused_total", grew(50.0, 5), "calls find no place")
        .of(&[only("scope", "server")])
        .held(3),
    page(
        "AntaresSandboxLayerMissing",
        "antares_sandbox_info",
        When::Below(1.0),
        "a layer of the fence is missing",
    )
    .of(&[not("layer", OPTIONAL_LAYERS)]),
    page(
        "AntaresWorkersUnfenced",
        "antares_workers_unfenced_total",
        grew(0.0, 10),
        "a worker has not the whole fence",
    ),
    page(
        "AntaresWorkersNotForked",
        "antares_workers_not_forked_total",
        grew(0.0, 15),
        "the kernel makes no more workers",
    ),
    page("AntaresCacheRejects", "antares_cache_rejected_total", grew(10.0, 15), "the store has no room"),
    page("AntaresUploadsRefused", "antares_uploads_refused_total", grew(10.0, 15), "uploads are refused"),
    ticket("AntaresUnproved", "antares_compile_unproved_total", grew(0.0, 10), "optimized code was refused"),
    ticket(
        "AntaresUnproved",
        "antares_compile_orders_refused_total",
        grew(0.0, 10),
        "an order of instructions was refused",
    ),
    ticket(
        "AntaresCompilesFail",
        "antares_compiles_failing",
        When::Above(0.0),
        "scripts that should compile do not",
    )
    .of(&[only("result", "failed")]),
    ticket("AntaresAuditLost", "antares_audit_lost_total", grew(0.0, 10), "lines of the audit log were lost"),
    ticket(
        "AntaresUsageNotKept",
        "antares_usage_errors_total",
        grew(0.0, 15),
        "what tenants used is not kept",
    ),
    ticket(
        "AntaresCertificateEnds",
        "antares_certificate_expiry_timestamp_seconds",
        When::Ahead { from: 86_400.0, below: 604_800.0 },
        "ends within a week",
    ),
    ticket("AntaresTurnedAway", "antares_executions_total", grew(50.0, 5), "executions find the queue full")
        .of(&[only("outcome", "queue_full")])
        .held(3),
    ticket(
        "AntaresTurnedAway",
        "antares_verifications_total",
        grew(50.0, 5),
        "verifications find the queue full",
    )
    .of(&[only("outcome", "queue_full")])
    .held(3),
    ticket(
        "AntaresConnectionsRefused",
        "antares_connections_closed_total",
        grew(50.0, 5),
        "connections find no place",
    )
    .of(&[only("reason", "full|peer_full")])
    .held(3),
    ticket(
        "AntaresConnectionsRefused",
        "antares_tls_handshakes_total",
        grew(50.0, 5),
        "handshakes find no place",
    )
    .of(&[only("result", "busy")])
    .held(3),
    ticket(
        "AntaresQuotaRefused",
        "antares_quota_refused_total",
        grew(100.0, 30),
        "a tenant has used up a quota",
    ),
    ticket(
        "AntaresNodeFails",
        "antares_node_lookups_total",
        grew(5.0, 10),
        "the CKB node gives no cells, or wrong ones",
    )
    .of(&[only("result", "unavailable|wrong")])
    .held(2),
    ticket(
        "AntaresSharedTierAway",
        "antares_tier_breaker_state",
        When::Above(0.0),
        "the shared tier is left alone",
    )
    .of(&[only("state", "open")])
    .held(5),
    ticket(
        "AntaresSharedTierRefused",
        "antares_tier_failures_total",
        grew(0.0, 10),
        "the shared tier refuses",
    )
    .of(&[only("kind", "refused|clock_skew|other_region|no_bucket|no_store|full")])
    .held(5),
    ticket(
        "AntaresSharedTierWritesDropped",
        "antares_tier_writes_total",
        grew(10.0, 30),
        "writes to the shared tier were dropped",
    )
    .of(&[only("result", "dropped|expired")]),
    ticket("AntaresReloadsFail", "antares_reloads_total", grew(0.0, 15), "changed files are of no use")
        .of(&[only("result", "failed")]),
    ticket(
        "AntaresWorkersUnseen",
        "antares_workers_blind_total",
        grew(0.0, 15),
        "workers cannot be looked at",
    ),
    ticket("AntaresTaskEnds", "antares_task_ends_total", grew(0.0, 15), "a task that must not end has ended"),
    ticket("AntaresPanics", "antares_panics_total", grew(0.0, 15), "a thread panicked"),
    ticket("AntaresLogLost", "antares_log_lost_total", grew(0.0, 15), "the log is not read"),
    ticket(
        "AntaresWorkersLost",
        "antares_workers_lost_total",
        grew(5.0, 10),
        "workers die without an answer",
    ),
    ticket("AntaresZygoteRestarts", "antares_zygote_restarts_total", grew(2.0, 15), "the zygote keeps dying"),
    ticket(
        "AntaresWorkersSaturated",
        "antares_workers_busy",
        When::Share { of: "antares_workers_max", above: 0.95 },
        "all workers are busy",
    )
    .held(10),
    ticket("AntaresCompileQueue", "antares_queue_depth", When::Above(16.0), "compiles wait for a worker")
        .of(&[only("role", "compile")])
        .held(10),
    ticket(
        "AntaresFullCompilesLost",
        "antares_follower_compiles_total",
        grew(10.0, 30),
        "full compiles fail or are dropped",
    )
    .of(&[not("result", "done")]),
    ticket(
        "AntaresCacheCorrupt",
        "antares_cache_corrupt_total",
        grew(0.0, 60),
        "entries of the store do not verify",
    ),
    ticket("AntaresCacheBlobs", "antares_cache_blobs", When::Above(0.0), "the store writes files that stay"),
    ticket(
        "AntaresCacheDisk",
        "antares_cache_disk_bytes",
        When::Share { of: "antares_cache_budget_bytes", above: 1.5 },
        "the store takes more disk than it should",
    )
    .held(15),
    ticket("AntaresProfilePush", "antares_profile_pushes_total", grew(10.0, 15), "profiles are not taken")
        .of(&[not("result", "sent")]),
    ticket(
        "AntaresProfileMismatch",
        "antares_profile_cycle_mismatch_total",
        grew(0.0, 10),
        "profiles do not add up",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const RULES: &str = include_str!("../../../../deploy/prometheus/antares.rules.yml");

    /// What only Prometheus can know: it looks from outside, over many processes, days or quantiles.
    const OUTSIDE: [&str; 9] = [
        "AntaresDown",
        "AntaresAbsent",
        "AntaresRestarts",
        "AntaresErrorBudgetFast",
        "AntaresErrorBudgetMedium",
        "AntaresErrorBudgetSlow",
        "AntaresOverhead",
        "AntaresQueueWait",
        "AntaresKeysGone",
    ];

    fn rules() -> BTreeMap<&'static str, String> {
        let alerts = RULES.split("- alert: ").skip(1);
        let named = alerts.map(|alert| alert.split_once('\n').unwrap());
        named.map(|(name, rest)| (name, rest.split_whitespace().collect::<Vec<_>>().join(" "))).collect()
    }

    fn selector(sign: &Sign) -> String {
        let one = |only: &Only| {
            let how = match (only.has, only.values.contains('|')) {
                (true, false) => "=",
                (true, true) => "=~",
                (false, false) => "!=",
                (false, true) => "!~",
            };
            format!("{}{how}\"{}\"", only.label, only.values)
        };
        let labels: Vec<String> = sign.only.iter().map(one).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(", ")) };
        format!("{}{labels}", sign.metric)
    }

    /// Parts of the alert's expression.
    fn parts(sign: &Sign) -> Vec<String> {
        let selector = selector(sign);
        match sign.when {
            When::Above(most) => vec![format!("({selector}) > {most}")],
            When::Below(least) => vec![format!("({selector}) < {least}")],
            When::Grew { by, minutes: 60 } => vec![format!("(increase({selector}[1h])) > {by}")],
            When::Grew { by, minutes } => vec![format!("(increase({selector}[{minutes}m])) > {by}")],
            When::Share { of, above } => vec![format!("({selector}) / "), format!("({of}) > {above}")],
            When::Ahead { from, below } => {
                let mut parts = vec![format!("({selector}) - time()")];
                parts.extend(below.is_finite().then(|| format!("- time() < {below}")));
                let is_after = if from == 0.0 { ">" } else { ">=" };
                parts.extend(from.is_finite().then(|| format!("- time() {is_after} {from}")));
                parts
            }
        }
    }

    #[test]
    fn the_page_says_what_the_pager_does() {
        let rules = rules();
        assert!(rules.len() > 40, "{rules:?}");
        for sign in SIGNS {
            let rule = rules.get(sign.alert).unwrap_or_else(|| panic!("there is no alert {}", sign.alert));
            for part in parts(sign) {
                assert!(rule.contains(&part), "{}: {part} is not in {rule}", sign.alert);
            }
            let held = match sign.hold_minutes {
                0 => !rule.contains(" for: "),
                minutes => rule.contains(&format!(" for: {minutes}m ")),
            };
            assert!(held, "{}: not held for {} minutes: {rule}", sign.alert, sign.hold_minutes);
            let severity = if sign.pages { "page" } else { "ticket" };
            assert!(rule.contains(&format!("severity: {severity}")), "{}: {rule}", sign.alert);
            assert!(rule.contains(&format!("{RUNBOOK}#{}", sign.alert.to_lowercase())), "{rule}");
        }
        for alert in rules.keys() {
            let is_told = SIGNS.iter().any(|sign| sign.alert == *alert);
            assert!(
                is_told != OUTSIDE.contains(alert),
                "{alert} is not on the page, or need not be left out"
            );
        }
    }
}
