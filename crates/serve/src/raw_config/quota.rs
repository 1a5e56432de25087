//! The sections `quotas` and `tenants` as they are written.

use serde::{Deserialize, Serialize};

/// Section `[quotas]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawQuotas {
    /// Calls of a tenant in progress at once; 0 for as many as `[listen]` lets in.
    pub calls_max: u64,
    /// Guest cycles that the runs of a tenant may take a second; 0 for no quota.
    pub guest_cycles_per_second: u64,
    /// Seconds that compiles for a tenant may take an hour; 0 for no quota.
    pub compile_seconds_per_hour: u64,
    /// Bytes of the scripts that a tenant has stored; 0 for no quota.
    pub stored_bytes_max: u64,
    /// Tenants with quotas of their own.
    pub tenants: Vec<RawTenantQuotas>,
}

/// `[[quotas.tenants]]`: what is absent is as for all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTenantQuotas {
    /// The tenant.
    pub tenant: String,
    /// As for all.
    pub calls_max: Option<u64>,
    /// As for all.
    pub guest_cycles_per_second: Option<u64>,
    /// As for all.
    pub compile_seconds_per_hour: Option<u64>,
    /// As for all.
    pub stored_bytes_max: Option<u64>,
}

/// Section `[tenants]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RawTenants {
    /// Whether a tenant may find and fetch what others uploaded. Where nobody is asked who calls, everybody
    /// may.
    pub shared: bool,
    /// Whether each tenant has native code of its own, so that the time of a compile says nothing about
    /// others.
    pub salted: bool,
    /// What the times in answers to a tenant are rounded up to, microseconds; 1 for times as they are. Calls
    /// without a tenant, where nobody is asked who calls, get them so in any case.
    pub timing_step_us: u64,
}

impl Default for RawTenants {
    fn default() -> Self {
        Self { shared: false, salted: false, timing_step_us: 100 }
    }
}
