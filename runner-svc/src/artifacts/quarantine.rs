//! Native code that is not run any more: while it ran, its worker broke a rule of the sandbox. Its generator
//! is wrong about it, or somebody got out of a script. Either way it is interpreted, until the service is
//! started anew or the engine is another one.
//!
//! A tenant's violation takes native code from that tenant alone: whoever runs an exploit beside a public
//! script shall not slow the script down for others. What broke rules for several tenants, each time with no
//! other native code in its worker, is wrong for everybody.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use antares_abi::ArtifactKey;
use antares_serve::{Account, Identity};
use parking_lot::Mutex;

use crate::{
    artifacts::bailouts::TenantsCode,
    limits::{QUARANTINE_MAX, QUARANTINE_TENANTS},
};

/// Whose native code broke a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) code: TenantsCode,
    /// None where a tenant has native code of its own: what it runs is nobody else's matter.
    witness: Option<Identity>,
}

impl Suspect {
    /// The code with this key, as the tenant of `account` runs it.
    pub(crate) fn of(account: &Account, key: ArtifactKey) -> Self {
        let witness = (!account.is_salted()).then(|| account.identity());
        Self { code: TenantsCode::of(account, key), witness }
    }
}

/// Native code that its tenant, or nobody, gets.
#[derive(Debug, Default)]
pub(crate) struct Quarantine(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By tenant.
    barred: HashSet<TenantsCode>,
    /// The same, oldest first.
    order: VecDeque<TenantsCode>,
    /// Who met violations of code that ran alone, as many as it takes to bar it for all.
    witnesses: HashMap<ArtifactKey, BTreeSet<Identity>>,
    /// The same code, oldest first.
    witnessed: VecDeque<ArtifactKey>,
}

impl Quarantine {
    /// Takes `suspects`, which ran in one worker, out of use for their tenant: which one is to blame is not
    /// known.
    pub(crate) fn add(&self, suspects: &[Suspect], detail: &str) {
        let mut state = self.0.lock();
        for suspect in suspects {
            let key = suspect.code.library;
            if state.bar(suspect.code) {
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

    /// Whether `suspect` is not to be run.
    pub(crate) fn has(&self, suspect: Suspect) -> bool {
        let state = self.0.lock();
        let is_shared = suspect.witness.is_some();
        state.barred.contains(&suspect.code) || (is_shared && state.is_barred_for_all(suspect.code.library))
    }

    /// How much code is barred, each for one tenant.
    pub(crate) fn len(&self) -> u64 {
        self.0.lock().barred.len() as u64
    }
}

impl State {
    /// Whether it was not barred before.
    fn bar(&mut self, code: TenantsCode) -> bool {
        if !self.barred.insert(code) {
            return false;
        }
        self.order.push_back(code);
        if self.order.len() > QUARANTINE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.barred.remove(&oldest);
        }
        true
    }

    fn is_barred_for_all(&self, key: ArtifactKey) -> bool {
        self.witnesses.get(&key).is_some_and(|witnesses| witnesses.len() >= QUARANTINE_TENANTS)
    }

    /// Notes a violation of code that ran alone. Whether that bars it for all.
    fn record(&mut self, key: ArtifactKey, witness: Identity) -> bool {
        if !self.witnesses.contains_key(&key) {
            self.witnessed.push_back(key);
        }
        self.witnesses.entry(key).or_default().insert(witness);
        if self.witnessed.len() > QUARANTINE_MAX
            && let Some(oldest) = self.witnessed.pop_front()
        {
            self.witnesses.remove(&oldest);
        }
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

    /// Code as a tenant runs it that is proven to be this one.
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
            // The same tenant again and again is one.
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

    #[test]
    fn few_are_remembered() {
        let quarantine = Quarantine::default();
        for number in 0..QUARANTINE_MAX + 9 {
            quarantine.add(&[of("a", number)], "a test");
        }
        let state = quarantine.0.lock();
        let lengths = [state.barred.len(), state.order.len(), state.witnesses.len(), state.witnessed.len()];
        assert_eq!(lengths, [QUARANTINE_MAX; 4]);
    }
}
