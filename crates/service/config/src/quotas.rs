//! Sections `[quotas]` and `[tenants]`: quotas and isolation of tenants.

use std::collections::HashMap;

use crate::{auth::is_tenant, check::Checker, section::section};

section! {
/// What tenants may use up.
"quotas": RawQuotas {
    /// Maximum concurrent calls of a tenant; 0 for the limit of `[listen]`.
    calls_max: whole;
    /// Guest cycles per second for the runs of a tenant; 0 for no quota.
    guest_cycles_per_second: whole;
    /// Compile seconds per hour for a tenant; 0 for no quota.
    compile_seconds_per_hour: whole;
    /// Bytes of stored scripts of a tenant; 0 for no quota.
    stored_bytes_max: whole;
    /// Tenants with quotas of their own.
    tenants: tenants;
}
}

section! {
/// Quotas of one tenant; absent keys have the value for all tenants.
"quotas.tenants": RawTenantQuotas {
    /// The tenant.
    tenant: text;
    /// As for all.
    calls_max: own;
    /// As for all.
    guest_cycles_per_second: own;
    /// As for all.
    compile_seconds_per_hour: own;
    /// As for all.
    stored_bytes_max: own;
}
}

section! {
/// What tenants see of each other.
"tenants": RawTenants {
    /// What tenants do not share: `uploads`; `none`, so that a tenant can find and fetch scripts of others;
    /// or `code`, uploads and native code, so that compile times reveal nothing about others. Without
    /// authentication it is `none`.
    isolation: isolation = Isolation::Uploads;
}
}

/// Isolation between tenants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Isolation {
    None,
    Uploads,
    Code,
}

/// Maximum quota: prevents overflow in the accounting of tenants.
const QUOTA_MAX: u64 = 1 << 60;

/// Quotas of one tenant; `None` for unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Concurrent calls.
    pub calls_max: Option<u64>,
    /// Guest cycles per second.
    pub guest_cycles_per_second: Option<u64>,
    /// Seconds of compile time per hour.
    pub compile_seconds_per_hour: Option<u64>,
    /// Bytes of stored scripts.
    pub stored_bytes_max: Option<u64>,
}

/// Quotas and isolation of tenants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    quota: Quota,
    tenants: HashMap<String, Quota>,
    /// Whether a tenant sees only its own uploads.
    pub is_apart: bool,
    /// Whether each tenant has separate native code.
    pub is_salted: bool,
    /// Whether callers prove the names of their tenants.
    pub is_proven: bool,
}

impl Tenancy {
    /// The quota of `tenant`.
    pub fn quota(&self, tenant: &str) -> Quota {
        self.tenants.get(tenant).copied().unwrap_or(self.quota)
    }
}

impl RawQuotas {
    /// `is_proven`: whether callers prove the names of their tenants.
    pub(crate) fn check(&self, seen: &RawTenants, is_proven: bool, checker: &mut Checker) -> Tenancy {
        let mut limit = |key: &str, value: u64| {
            if value > QUOTA_MAX {
                checker.record(key, format!("must be at most {QUOTA_MAX}, is {value}"));
            }
            (value > 0).then_some(value.min(QUOTA_MAX))
        };
        let quota = Quota {
            calls_max: limit("quotas.calls_max", self.calls_max),
            guest_cycles_per_second: limit("quotas.guest_cycles_per_second", self.guest_cycles_per_second),
            compile_seconds_per_hour: limit("quotas.compile_seconds_per_hour", self.compile_seconds_per_hour),
            stored_bytes_max: limit("quotas.stored_bytes_max", self.stored_bytes_max),
        };
        let mut tenants = HashMap::new();
        for (index, of) in self.tenants.iter().enumerate() {
            let key = format!("quotas.tenants[{index}]");
            let mut own = |value: Option<u64>, all| value.map_or(all, |value| limit(&key, value));
            let quota = Quota {
                calls_max: own(of.calls_max, quota.calls_max),
                guest_cycles_per_second: own(of.guest_cycles_per_second, quota.guest_cycles_per_second),
                compile_seconds_per_hour: own(of.compile_seconds_per_hour, quota.compile_seconds_per_hour),
                stored_bytes_max: own(of.stored_bytes_max, quota.stored_bytes_max),
            };
            tenants.insert(of.tenant.clone(), quota);
        }
        for (index, of) in self.tenants.iter().enumerate() {
            let key = format!("quotas.tenants[{index}]");
            if !is_tenant(&of.tenant) {
                checker.record(&key, format!("{:?} is no name of a tenant", of.tenant));
            } else if self.tenants[..index].iter().any(|other| other.tenant == of.tenant) {
                checker.record(&key, format!("the tenant {:?} stands there twice", of.tenant));
            } else if !is_proven {
                checker.record(&key, "names of tenants are proven only with tls.client_ca or auth.jwks");
            }
        }
        Tenancy {
            quota,
            tenants,
            is_apart: is_proven && seen.isolation >= Isolation::Uploads,
            is_salted: is_proven && seen.isolation == Isolation::Code,
            is_proven,
        }
    }
}
