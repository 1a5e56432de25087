//! Sections `[quotas]` and `[tenants]`: what a tenant may use up, and what tenants see of each other.

use std::collections::HashMap;

use crate::{auth_section::is_tenant, check::Checker, raw_config::RawConfig};

/// Highest quota: arithmetic with a tenant's debts stays far from its ends.
const QUOTA_MAX: u64 = 1 << 60;

/// What one tenant may use up; none for no quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// Calls in progress at once.
    pub calls_max: Option<u64>,
    /// Guest cycles a second.
    pub guest_cycles_per_second: Option<u64>,
    /// Seconds of compiles an hour.
    pub compile_seconds_per_hour: Option<u64>,
    /// Bytes of stored scripts.
    pub stored_bytes_max: Option<u64>,
}

/// What tenants may use up, and what they see of each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenancy {
    quota: Quota,
    tenants: HashMap<String, Quota>,
    /// Whether a tenant sees only what it uploaded.
    pub(crate) is_apart: bool,
    /// Whether native code is made for each tenant anew.
    pub(crate) is_salted: bool,
    /// Whether the names of tenants are proven.
    pub(crate) is_proven: bool,
    /// What the times in answers to a tenant are rounded up to, microseconds.
    pub(crate) timing_step_us: u64,
}

impl Tenancy {
    /// The quota of `tenant`.
    pub(crate) fn quota(&self, tenant: &str) -> Quota {
        self.tenants.get(tenant).copied().unwrap_or(self.quota)
    }
}

pub(crate) fn check_tenancy(config: &RawConfig, is_proven: bool, checker: &mut Checker) -> Tenancy {
    let raw = &config.quotas;
    let mut limit = |key: &str, value: u64| {
        if value > QUOTA_MAX {
            checker.note(key, format!("must be at most {QUOTA_MAX}, is {value}"));
        }
        (value > 0).then_some(value.min(QUOTA_MAX))
    };
    let quota = Quota {
        calls_max: limit("quotas.calls_max", raw.calls_max),
        guest_cycles_per_second: limit("quotas.guest_cycles_per_second", raw.guest_cycles_per_second),
        compile_seconds_per_hour: limit("quotas.compile_seconds_per_hour", raw.compile_seconds_per_hour),
        stored_bytes_max: limit("quotas.stored_bytes_max", raw.stored_bytes_max),
    };
    let mut tenants = HashMap::new();
    for (index, of) in raw.tenants.iter().enumerate() {
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
    for (index, of) in raw.tenants.iter().enumerate() {
        let key = format!("quotas.tenants[{index}]");
        if !is_tenant(&of.tenant) {
            checker.note(&key, format!("{:?} is no name of a tenant", of.tenant));
        } else if raw.tenants[..index].iter().any(|other| other.tenant == of.tenant) {
            checker.note(&key, format!("the tenant {:?} stands there twice", of.tenant));
        } else if !is_proven {
            checker.note(&key, "names of tenants are proven only with tls.client_ca or auth.jwks".to_owned());
        }
    }
    if config.tenants.salted && config.tenants.shared {
        checker.note("tenants.salted", "makes no sense with tenants.shared".to_owned());
    }
    let timing_step_us = config.tenants.timing_step_us;
    checker.positive("tenants.timing_step_us", timing_step_us);
    let is_apart = is_proven && !config.tenants.shared;
    let is_salted = is_apart && config.tenants.salted;
    Tenancy { quota, tenants, is_apart, is_salted, is_proven, timing_step_us }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config_error::ConfigError, role::Role};

    fn checked(text: &str) -> Result<Tenancy, Vec<String>> {
        let raw: RawConfig = toml::from_str(text).unwrap();
        match raw.check(Role::Both, &[]) {
            Ok(config) => Ok(config.tenancy),
            Err(ConfigError::Mistakes(mistakes)) => Err(mistakes.into_iter().map(|one| one.key).collect()),
            Err(error) => panic!("{error}"),
        }
    }

    const TLS: &str = "[tls]\ncertificate = \"c\"\nkey = \"k\"\nclient_ca = \"a\"\n";

    #[test]
    fn a_tenant_has_its_own_quotas_and_else_those_of_all() {
        let tenancy = checked(&format!(
            "{TLS}[quotas]\ncalls_max = 4\nstored_bytes_max = 9\n[[quotas.tenants]]\ntenant = \"big\"\ncalls_max = 0\n"
        ))
        .unwrap();
        assert_eq!(tenancy.quota("any").calls_max, Some(4));
        let big = tenancy.quota("big");
        assert_eq!((big.calls_max, big.stored_bytes_max, big.guest_cycles_per_second), (None, Some(9), None));
        assert!(tenancy.is_apart && tenancy.is_proven && !tenancy.is_salted);
        // Where nobody is asked, no name is worth a wall.
        assert!(!checked("").unwrap().is_apart);
    }

    #[test]
    fn mistakes_are_named() {
        let twice = format!("{TLS}[[quotas.tenants]]\ntenant = \"a\"\n[[quotas.tenants]]\ntenant = \"a\"\n");
        for (text, key) in [
            (twice.as_str(), "quotas.tenants[1]"),
            ("[[quotas.tenants]]\ntenant = \"a\"\n", "quotas.tenants[0]"),
            (&format!("{TLS}[[quotas.tenants]]\ntenant = \"a b\"\n"), "quotas.tenants[0]"),
            ("[quotas]\ncalls_max = 9000000000000000000\n", "quotas.calls_max"),
            (&format!("{TLS}[tenants]\nshared = true\nsalted = true\n"), "tenants.salted"),
        ] {
            assert_eq!(checked(text).unwrap_err(), [key], "{text}");
        }
    }
}
