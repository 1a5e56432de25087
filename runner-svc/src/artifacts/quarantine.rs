//! Native code that no longer runs: its worker broke a sandbox rule while running it. Either its generator is
//! wrong, or an attacker escaped from a script. It is interpreted until the service restarts or the engine
//! changes.
//!
//! A tenant's violation bars native code for that tenant alone: an exploit beside a public script must not
//! slow the script down for others. Code is barred for everybody once it broke rules for several tenants,
//! each time alone in its worker.

use std::collections::BTreeSet;

use antares_abi::ArtifactKey;
use antares_serve::{Account, Identity};
use parking_lot::Mutex;

use crate::{
    artifacts::{bailouts::TenantsCode, recent::Recent},
    limits::{QUARANTINE_MAX, QUARANTINE_TENANTS},
};

/// Native code that broke a rule, and its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) code: TenantsCode,
    /// None where a tenant has its own native code: its runs affect no other tenant.
    witness: Option<Identity>,
}

impl Suspect {
    /// The code with this key, as the tenant of `account` runs it.
    pub(crate) fn of(account: &Account, key: ArtifactKey) -> Self {
        let witness = (!account.is_salted()).then(|| account.identity());
        Self { code: TenantsCode::of(account, key), witness }
    }
}

/// Native code that is barred for one tenant or for all.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By tenant; whether it is barred.
    barred: Recent<TenantsCode, bool, QUARANTINE_MAX>,
    /// Callers that saw violations of code that ran alone, up to the number that bars it for all.
    witnesses: Recent<ArtifactKey, BTreeSet<Identity>, QUARANTINE_MAX>,
}

impl Quarantine {
    /// Bars `suspects`, which shared a worker, for their tenant: any of them may be to blame.
    pub(crate) fn add(&self, suspects: &[Suspect], detail: &str) {
        let mut state = self.0.lock();
        for suspect in suspects {
            let key = suspect.code.library;
            if !std::mem::replace(state.barred.entry(suspect.code), true) {
                tracing::error!(%key, detail, "native code is in quarantine; its script is interpreted");
            }
            if let ([Suspect { witness: Some(witness), .. }], false) =
                (suspects, state.is_barred_for_all(key))
                && state.record(key, *witness)
            {
                tracing::error!(%key, "native code is in quarantine for all tenants");
            }
        }
    }

    /// Whether `suspect` must not run.
    pub(crate) fn has(&self, suspect: Suspect) -> bool {
        let state = self.0.lock();
        let is_shared = suspect.witness.is_some();
        state.barred.get(&suspect.code).is_some()
            || (is_shared && state.is_barred_for_all(suspect.code.library))
    }

    /// Number of barred entries, each for one tenant.
    pub(crate) fn len(&self) -> u64 {
        self.0.lock().barred.len() as u64
    }
}

impl State {
    fn is_barred_for_all(&self, key: ArtifactKey) -> bool {
        self.witnesses.get(&key).is_some_and(|witnesses| witnesses.len() >= QUARANTINE_TENANTS)
    }

    /// Records a violation of code that ran alone. Returns whether that bars it for all.
    fn record(&mut self, key: ArtifactKey, witness: Identity) -> bool {
        self.witnesses.entry(key).insert(witness);
        self.is_barred_for_all(key)
    }
}

#[cfg(test)]
mod tests {
    use antares_abi::Sha256Digest;

    use super::*;

    fn key(number: usize) -> ArtifactKey {
        Sha256Digest::of(&number.to_le_bytes())
    }

    /// Code as a tenant with a proven identity runs it.
    fn of(tenant: &str, number: usize) -> Suspect {
        Suspect::of(&Account::proven(tenant), key(number))
    }

    #[test]
    fn a_violation_is_its_tenant_s_alone() {
        let quarantine = Quarantine::default();
        quarantine.add(&[of("a", 1), of("a", 2), of("a", 1)], "a test");
        assert!(quarantine.has(of("a", 1)) && quarantine.has(of("a", 2)) && !quarantine.has(of("a", 3)));
        assert!(!quarantine.has(of("b", 1)));
        assert_eq!(quarantine.len(), 2);
    }

    #[test]
    fn code_that_broke_rules_for_several_tenants_is_nobody_s() {
        let quarantine = Quarantine::default();
        for round in 0..QUARANTINE_TENANTS {
            assert!(!quarantine.has(of("other", 1)), "{round}");
            // Repeated violations by one tenant count once.
            for _ in 0..9 {
                quarantine.add(&[of(&format!("tenant-{round}"), 1)], "a test");
            }
        }
        assert!(quarantine.has(of("other", 1)));
        let salted = Suspect { witness: None, ..of("other", 1) };
        assert!(!quarantine.has(salted), "code of its own is not the others'");
    }

    #[test]
    fn what_ran_beside_other_code_or_is_a_tenant_s_own_bars_nobody_else() {
        let quarantine = Quarantine::default();
        for round in 0..3 * QUARANTINE_TENANTS {
            let tenant = format!("tenant-{round}");
            quarantine.add(&[of(&tenant, 1), of(&tenant, 2)], "an exploit beside a public script");
            quarantine.add(&[Suspect { witness: None, ..of(&tenant, 3) }], "salted");
        }
        assert!([1, 2, 3].iter().all(|number| !quarantine.has(of("other", *number))));
    }
}
